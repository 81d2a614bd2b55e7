// The editor of a kernel. Ace does the work; defineAce() holds its scripts. The text stays in this browser, by `name`.
// data: {name, starter, errors: JSON of Ace's annotations, words: JSON of names to complete, label: the button's,
// busy: "yes" or "", verdict: "yes" if one stands below, else "", turn: how many checks there were}

const KEPT = "tilescope: answer ";
const SHORTEST_VIEW = 12, LONGEST_VIEW = 40;               // lines
const BELOW = 130, VERDICT = 230;                          // pixels below the editor: its buttons and a line; a verdict
const BEGIN = "pass  # write it here";
const CHECK = navigator.platform.startsWith("Mac") ? "⌘ Enter" : "Ctrl+Enter";

function loaded() {
  if (!window.ace) {
    defineAce();
    ace.define("ace/theme/tilescope", ["exports"],
      (theme) => Object.assign(theme, { cssClass: "ace-tilescope", cssText: "" }));
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
  root.innerHTML = `<div class="text"></div><div class="keys">
    <button type="button" data-do="check"><span></span><kbd aria-hidden="true">${CHECK}</kbd></button>
    <button type="button" data-do="again">Start again</button><small>Ctrl+Space completes a name</small></div>`;
  root.querySelector("[data-do=check]").setAttribute("aria-keyshortcuts", "Control+Enter Meta+Enter");
  const editor = loaded().edit(root.querySelector(".text"), {
    mode: "ace/mode/python", theme: "ace/theme/tilescope", useWorker: false, showPrintMargin: false, fontSize: 14,
    minLines: SHORTEST_VIEW, maxLines: SHORTEST_VIEW, tabSize: 4, useSoftTabs: true, enableKeyboardAccessibility: true,
    enableBasicAutocompletion: [completer(words)], highlightActiveLine: false, wrap: true, showFoldWidgets: false,
  });
  editor.textInput.getElement().setAttribute("aria-label", "Your kernel");
  return editor;
}

/** As many lines as leave the buttons on the first screen; with a verdict below, no empty lines after the text. */
function fit(root, verdict) {
  const { editor } = root, main = root.closest(".stMain") ?? document.scrollingElement;
  const top = root.getBoundingClientRect().top + main.scrollTop;
  const room = (innerHeight - top - BELOW - (verdict ? VERDICT : 0)) / editor.renderer.lineHeight;
  const lines = Math.max(SHORTEST_VIEW, Math.min(LONGEST_VIEW, Math.floor(room)));
  const most = innerWidth <= 640 ? LONGEST_VIEW : lines;   // on a phone the page scrolls, not the editor
  editor.setOptions({ minLines: verdict ? SHORTEST_VIEW : Math.min(lines, 22), maxLines: most });
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
  const busy = (is) => {
    button.disabled = is;
    button.firstChild.textContent = is ? "Running…" : data.label;
  };
  const check = () => {
    if (button.disabled) return;
    busy(true);                                            // at once; the server says when it is done
    setTriggerValue("checked", { text: editor.getValue() });
  };
  const changed = () => {
    keep(name, editor.getValue());
    editor.session.clearAnnotations();
    if (editor.isFocused()) root.dataset.stale = "yes";    // the verdict is of the text before
    if (!root.began && editor.isFocused()) {
      root.began = true;
      setTriggerValue("began", name);                      // its processes start while the reader writes
    }
  };

  if (root.shown !== name) {
    root.shown = name;
    editor.session.setValue(kept(name) ?? starter);
    const begin = editor.session.getDocument().getAllLines().findIndex((line) => line.includes(BEGIN));
    if (begin >= 0) editor.moveCursorTo(begin, 4);
  }
  if (root.turn !== data.turn) delete root.dataset.stale;
  root.turn = data.turn;
  const errors = JSON.parse(data.errors), told = root.told !== data.errors;
  root.told = data.errors;
  fit(root, data.verdict);
  addEventListener("resize", () => fit(root, data.verdict), { signal: leave.signal });
  editor.session.setAnnotations(errors);
  if (errors.length && told) editor.scrollToLine(errors[0].row, true);
  editor.commands.addCommand({ name: "check", bindKey: { win: "Ctrl-Enter", mac: "Command-Enter" }, exec: check });
  editor.on("change", changed);
  const button = press("check", check);
  busy(Boolean(data.busy));
  press("again", () => {
    editor.setValue(starter, -1);                          // Ctrl+Z brings the text back
    keep(name, null);
  });
  root.dataset.ready = "yes";

  return () => {
    leave.abort();
    editor.off("change", changed);
  };
}
