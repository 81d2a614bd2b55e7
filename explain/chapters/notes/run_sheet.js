// The run sheet: the caption that the player stands at in another window, what to say, the time, what comes next. It
// follows the player, and its keys turn the player's captions. Until a player speaks they turn its own: a rehearsal.

const CHANNEL = "tilescope tour";                          // explain/player/tour.js speaks on it
const WAYS = { next: 1, nextTile: 1, previous: -1, previousTile: -1 };
const PRESSES = { ArrowRight: "next", PageDown: "nextTile", ArrowLeft: "previous", PageUp: "previousTile" };
const MINUTE_MS = 60_000;
const OWN_KEYS = "input, textarea, select, [role=listbox], [role=combobox], button, a, summary";
const SHEETS = new WeakMap();

/** Minutes as 1:05. */
function clock(minutes) {
  const seconds = Math.floor(minutes * 60);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

class RunSheet {
  constructor(root) {
    this.root = root;
    this.$ = (selector) => root.querySelector(selector);
    this.sheet = null;
    this.alone = true;                                     // no player spoke yet
    this.started = null;                                   // the tour, in ms
    this.turned = 0;                                       // its caption
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.channel = new BroadcastChannel(CHANNEL);
    this.channel.onmessage = ({ data }) => {
      if (!data.captions) return;
      this.alone = false;
      this.follow(data);
    };
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    root.addEventListener("click", (event) => this.clicked(event.target.closest("button")?.dataset.do), { signal });
    this.ticking = setInterval(() => this.tick(), 1000);
    this.channel.postMessage({ asks: true });
  }

  /** Takes the sheet of another chosen tour (null: the page has none), until a player speaks; and the focus: a
   * clicker's keys then work at once. */
  offer(sheet) {
    if (sheet?.title === this.offered) return;
    this.offered = sheet?.title;
    if (this.offered === this.sheet?.title) return;        // a player plays it already
    this.alone = true;
    this.sheet = null;
    this.root.hidden = true;
    if (sheet) this.follow({ ...sheet, at: -1 });
    this.root.focus({ preventScroll: true });
  }

  follow(sheet) {
    const another = sheet.title !== this.sheet?.title;
    if (another) this.started = null;
    if (sheet.at >= 0) this.started ??= Date.now();
    if (another || sheet.at !== this.sheet.at) this.turned = Date.now();
    this.sheet = sheet;
    this.render();
  }

  key(event) {
    const press = PRESSES[event.key];
    if (!press || !this.sheet || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(OWN_KEYS)) return;
    event.preventDefault();
    this.press(press);
  }

  clicked(what) {
    if (what === "restart") this.started &&= this.turned = Date.now();
    else if (what) this.press(what);
    this.tick();
  }

  press(what) {
    if (!this.alone) return this.channel.postMessage({ press: what });
    const at = Math.max(0, this.sheet.at) + WAYS[what];
    return this.follow({ ...this.sheet, at: Math.max(0, Math.min(at, this.sheet.captions.length - 1)) });
  }

  render() {
    const { sheet: { chapter, title, captions, at }, root } = this;
    root.hidden = false;
    Object.assign(root.dataset, { chapter, caption: at + 1 });
    const ended = at < 0 && this.started !== null;
    const now = ended ? { text: "The tour is over.", say: "" } : captions[Math.max(0, at)];
    const next = ended ? null : captions[Math.max(0, at) + 1];
    this.$(".title").textContent = title;
    this.$(".of").textContent = `${Math.max(0, at) + 1} / ${captions.length}`;
    this.$(".open").hidden = (at >= 0 && !this.alone) || ended;
    this.$(".open a").href = chapter;
    this.$(".text").textContent = now.text;
    this.$(".say").textContent = now.say;
    this.$(".next").textContent = next?.text ?? "The rest of the chapter, then the next chapter: Page ↓ goes on.";
    this.$("ol").replaceChildren(...captions.map(({ text, minutes }, i) => {
      const row = document.createElement("li");
      const time = document.createElement("b");
      time.textContent = `${minutes} min`;
      row.append(text, time);
      if (i === at) row.setAttribute("aria-current", "step");
      return row;
    }));
    this.tick();
  }

  /** The clock: the time left by the plan, for this caption and for the tour; the time since the start; the delay. */
  tick() {
    if (!this.sheet) return;
    const { captions } = this.sheet, at = Math.max(0, this.sheet.at);
    const sum = (list) => list.reduce((all, { minutes }) => all + minutes, 0);
    const since = (moment) => (this.started === null ? 0 : (Date.now() - moment) / MINUTE_MS);
    const here = Math.max(0, captions[at].minutes - since(this.turned));
    const left = here + sum(captions.slice(at + 1));
    this.root.dataset.left = sum(captions.slice(at));
    const minutes = (time) => Object.assign(document.createElement("b"), { textContent: clock(time) });
    this.$(".left").replaceChildren(minutes(here), " left here, ", minutes(left), " left in all");
    this.$(".left").classList.toggle("late", here <= 0);
    const elapsed = since(this.started);
    this.$(".clock").textContent = clock(elapsed);
    const late = elapsed - sum(captions.slice(0, at + 1));
    this.$(".late").textContent = late > 0 ? `${Math.ceil(late)} min behind` : "";
  }

  stop() {
    clearInterval(this.ticking);
    this.abort.abort();
    this.channel.close();
  }
}

export default function ({ data, parentElement }) {
  if (!SHEETS.has(parentElement)) SHEETS.set(parentElement, new RunSheet(parentElement.querySelector(".run-sheet")));
  SHEETS.get(parentElement).offer(data);
  return () => {
    SHEETS.get(parentElement)?.stop();
    SHEETS.delete(parentElement);
  };
}
