// The editor of a kernel. Ace does the work; ACE holds its scripts. The text stays in this browser, by `name`.
// data: {name, starter, errors: JSON of Ace's annotations, words: JSON of names to complete, label: the button's,
// busy: "yes" or ""}

const KEPT = "tilescope: answer ";
const LONGEST_VIEW = 34, SHORTEST_VIEW = 14;               // lines

function loaded() {
  if (!window.ace) {
    const script = document.createElement("script");
    script.textContent = ACE;
    document.head.append(script);
    ace.define("ace/theme/tilescope", ["exports"], (theme) => Object.assign(theme, { cssClass: "ace-tilescope", cssText: "" }));
  }
  return window.ace;
}

function kept(name) {
  try { return localStorage.getItem(KEPT + name); } catch { return null; }
}

function keep(name, text) {
  try {
    if (text === null) localStorage.removeItem(KEPT + name);
    else localStorage.setItem(KEPT + name, text);
  } catch { /* private windows have no storage */ }
}

/** What the reader may complete with Ctrl+Space: Triton's names. */
function completer(words) {
  return {
    identifierRegexps: [/[\w.]/],
    getCompletions: (_editor, _session, _position, _prefix, give) =>
      give(null, words.map((value) => ({ value, meta: "Triton" }))),
  };
}

function made(root, words) {
  root.innerHTML = '<div class="text"></div><div class="keys"><button type="button" data-do="check"></button>' +
    '<button type="button" data-do="again">Start again</button><span></span></div>';
  const editor = loaded().edit(root.querySelector(".text"), {
    mode: "ace/mode/python", theme: "ace/theme/tilescope", useWorker: false, showPrintMargin: false, fontSize: 14,
    minLines: SHORTEST_VIEW, maxLines: LONGEST_VIEW, tabSize: 4, useSoftTabs: true, enableKeyboardAccessibility: true,
    enableBasicAutocompletion: [completer(words)], highlightActiveLine: false, wrap: true, showFoldWidgets: false,
  });
  editor.textInput.getElement().setAttribute("aria-label", "Your kernel");
  return editor;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".kernel-editor");
  root.editor ??= made(root, JSON.parse(data.words));
  const { editor } = root, { name, starter } = data, leave = new AbortController();
  const press = (what, handler) => {
    const button = root.querySelector(`[data-do=${what}]`);
    button.addEventListener("click", handler, { signal: leave.signal });
    return button;
  };
  const check = () => setTriggerValue("checked", { text: editor.getValue() });
  const changed = () => {
    keep(name, editor.getValue());
    editor.session.clearAnnotations();
    if (!root.began && editor.isFocused()) {
      root.began = true;
      setTriggerValue("began", name);                      // its processes start while the reader writes
    }
  };

  if (root.shown !== name) {
    root.shown = name;
    editor.session.setValue(kept(name) ?? starter);
  }
  editor.session.setAnnotations(JSON.parse(data.errors));
  editor.commands.addCommand({ name: "check", bindKey: { win: "Ctrl-Enter", mac: "Command-Enter" }, exec: check });
  editor.on("change", changed);
  const button = press("check", check);
  button.disabled = Boolean(data.busy);
  button.textContent = data.label;
  press("again", () => {
    editor.setValue(starter, -1);                          // Ctrl+Z brings the text back
    keep(name, null);
  });
  root.querySelector(".keys span").textContent = data.busy ? "Running…" : `Ctrl+Enter: ${data.label.toLowerCase()} · Ctrl+Space: complete`;
  root.dataset.ready = "yes";

  return () => {
    leave.abort();
    editor.off("change", changed);
  };
}
