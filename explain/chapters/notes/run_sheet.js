// The run sheet: the caption that the player stands at in another window, what to say, the time, what comes next. It
// follows the player, and its keys turn the player's captions.

const CHANNEL = "tilescope tour";                          // explain/player/tour.js speaks on it
const PRESSES = { ArrowRight: "next", PageDown: "next", ArrowLeft: "previous", PageUp: "previous" };
const MINUTE_MS = 60_000;
const OWN_KEYS = "input, textarea, select, [role=listbox], [role=combobox], button, a, summary";
const SHEETS = new WeakMap();

class RunSheet {
  constructor(root) {
    this.root = root;
    this.$ = (selector) => root.querySelector(selector);
    this.sheet = null;
    this.started = null;
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.channel = new BroadcastChannel(CHANNEL);
    this.channel.onmessage = ({ data }) => data.captions && this.follow(data);
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    root.addEventListener("click", (event) => this.clicked(event.target.closest("button")?.dataset.do), { signal });
    this.ticking = setInterval(() => this.tick(), 1000);
    this.channel.postMessage({ asks: true });
  }

  /** Takes the sheet that the page was opened on, until a player speaks. */
  offer(sheet) {
    if (!sheet) return;
    if (!this.sheet || (this.sheet.at < 0 && this.offered !== sheet.title)) this.follow({ ...sheet, at: -1 });
    this.offered = sheet.title;
  }

  follow(sheet) {
    if (sheet.title !== this.sheet?.title) this.started = null;
    if (sheet.at >= 0) this.started ??= Date.now();
    this.sheet = sheet;
    this.render();
  }

  key(event) {
    const press = PRESSES[event.key];
    if (!press || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(OWN_KEYS)) return;
    event.preventDefault();
    this.press(press);
  }

  clicked(what) {
    if (what === "restart") this.started = Date.now();
    else if (what) this.press(what);
    this.tick();
  }

  press(what) {
    this.channel.postMessage({ press: what });
  }

  render() {
    const { sheet: { chapter, title, captions, at }, root } = this;
    root.hidden = false;
    Object.assign(root.dataset, { chapter, caption: at + 1 });
    const now = captions[at], next = captions[at + 1];
    this.$(".title").textContent = title;
    this.$(".of").textContent = now ? `${at + 1} / ${captions.length}` : "The tour is not running in the other window.";
    this.$(".text").textContent = now?.text ?? "";
    this.$(".say").textContent = now?.say ?? "";
    this.$(".next").textContent = next ? next.text : "The rest of the chapter.";
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

  /** The clock: minutes left by the plan, the time since the start, and how far behind the plan that is. */
  tick() {
    if (!this.sheet) return;
    const { captions, at } = this.sheet;
    const sum = (list) => list.reduce((all, { minutes }) => all + minutes, 0);
    const left = sum(captions.slice(Math.max(0, at)));
    this.root.dataset.left = left;
    this.$(".left").textContent = `${left} min left of ${sum(captions)}`;
    const elapsed = this.started === null ? 0 : Date.now() - this.started;
    const seconds = Math.floor(elapsed / 1000);
    this.$(".clock").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    const late = elapsed / MINUTE_MS - sum(captions.slice(0, Math.max(0, at) + 1));
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
