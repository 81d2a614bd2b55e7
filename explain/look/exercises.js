// A chapter's questions, and the reader's progress. Answers go to the server to be checked; progress stays in this
// browser. data: {totals: JSON of {room: its number of questions}, room, html}; without a room, the progress of all
// rooms.

const KEPT = "tilescope.progress";                         // {room: [names of the questions answered right]}
const ABOUT = "tilescope.about";                           // {room: {name: what the right answer was about}}
const CHANGED = "tilescope:progress";

function progress(key = KEPT) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? {};
  } catch {
    return {};                                             // no storage, or not ours
  }
}

function keep(all, key = KEPT) {
  try {
    if (all) localStorage.setItem(key, JSON.stringify(all));
    else localStorage.removeItem(key);
  } catch { /* private windows have no storage */ }
  dispatchEvent(new CustomEvent(CHANGED));
}

/** Shows each room's count at every `data-progress` of the page. The elements belong to Streamlit, so a style does. */
function writeCounts(totals, all) {
  let style = document.getElementById("tilescope-progress");
  if (!style) {
    style = Object.assign(document.createElement("style"), { id: "tilescope-progress" });
    document.head.append(style);
  }
  style.textContent = Object.entries(totals).map(([room, total]) => {
    const done = Math.min(total, all[room]?.length ?? 0);
    const words = done ? `${done === total ? "✓ " : ""}${done} of ${total} questions` : `${total} questions`;
    return `[data-progress="${room}"]::after { content: " · ${words}" }`;
  }).join("\n");
}

/** The player's step of one of its runs, and null where no player is ready. */
function stepInPlayer(run) {
  const place = { steps: null };
  dispatchEvent(new CustomEvent("tilescope:where", { detail: place }));
  return place.steps?.[run] ?? null;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".exercises");
  const { room, html } = data, totals = JSON.parse(data.totals);
  const leave = new AbortController();
  const on = (target, type, handler) => target.addEventListener(type, handler, { signal: leave.signal });
  if (root.shown !== html) redraw(root, html);
  const tally = root.querySelector(".tally"), about = root.querySelector("ol")?.dataset.about;

  for (const item of root.querySelectorAll("[data-verdict=right]")) {
    const { name } = item.closest("li").dataset;
    const all = progress(), known = progress(ABOUT);
    if (known[room]?.[name] !== about) keep({ ...known, [room]: { ...known[room], [name]: about } }, ABOUT);
    if (!all[room]?.includes(name)) keep({ ...all, [room]: [...(all[room] ?? []), name] });
  }

  function show() {
    const all = progress(), known = progress(ABOUT)[room] ?? {};
    writeCounts(totals, all);
    let before = 0;                                        // answered about something else
    for (const item of root.querySelectorAll("li")) {     // ticked while the page shows what the answer was about
      const { name } = item.dataset, answered = all[room]?.includes(name) ?? false;
      const done = answered && (known[name] ?? about) === about;
      item.toggleAttribute("data-done", done);
      before += answered && !done;
    }
    const rooms = room ? [room] : Object.keys(totals);
    const of = rooms.reduce((sum, one) => sum + totals[one], 0);
    const done = rooms.reduce((sum, one) => sum + Math.min(totals[one], all[one]?.length ?? 0), 0);
    tally.hidden = !done;
    tally.dataset.done = done;
    const elsewhere = room ? of - root.querySelectorAll("li").length : 0;
    const others = elsewhere ? ` Not shown here: ${elsewhere}, for another tab or choice.` : "";
    const what = room ? `this page's ${of} questions` : `${of} questions`;
    const again = before ? ` Not yet for what is shown now: ${before}.` : "";
    const told = `${done} of ${what} answered.${again}${others}`;
    tally.querySelector("span").textContent = `${told} Only this browser remembers it.`;
  }

  on(root, "submit", (event) => {
    event.preventDefault();
    const item = event.target.closest("li");
    const { name, kind, run } = item.dataset;
    const field = item.querySelector(kind === "choice" ? "input:checked" : "input");
    const given = (kind === "step" ? stepInPlayer(Number(run)) : field?.value.trim()) ?? "";
    if (given === "") item.querySelector("input")?.focus();
    setTriggerValue("checked", { name, given: String(given) });
  });
  on(root, "click", (event) => {
    const up = event.target.matches("[data-up]") && event.target.closest("li").dataset.run;
    const { step = up && stepInPlayer(Number(up)), run = up } = event.target.dataset;  // up: to where the player is
    if (step) dispatchEvent(new CustomEvent("tilescope:go", { detail: { step: Number(step), run: Number(run) } }));
    if (event.target.matches("[data-show]")) {
      setTriggerValue("checked", { name: event.target.closest("li").dataset.name, show: true });
    }
    if (event.target.matches("[data-forget]")) {
      const { [room]: _, ...others } = progress();
      keep(room && Object.keys(others).length ? others : null);
    }
  });
  on(window, CHANGED, show);
  on(window, "storage", show);                             // another tab
  show();
  return () => leave.abort();
}

/** Draws the questions again. The focus stays, and so does text that was typed and not yet checked, while the questions
    are about the same. */
function redraw(root, html) {
  const about = () => root.querySelector("ol")?.dataset.about, before = about();
  const draft = (item) => [item.dataset.name, item.querySelector("input[type=text]")?.value];
  const drafts = new Map([...root.querySelectorAll("li")].map(draft));
  const held = document.activeElement?.closest?.(".exercises li");
  const part = document.activeElement?.tagName.toLowerCase();
  const name = root.contains(held) ? held.dataset.name : null;
  const forget = '<button type="button" data-forget>Forget my progress</button>';
  root.innerHTML = `${html}<p class="tally" hidden><span></span>${forget}</p>`;
  root.shown = html;
  for (const item of root.querySelectorAll("li")) {
    const field = item.querySelector("input[type=text]");
    if (field && !field.value && about() === before) field.value = drafts.get(item.dataset.name) ?? "";
    if (item.dataset.name === name) item.querySelector(part)?.focus({ preventScroll: true });
  }
}
