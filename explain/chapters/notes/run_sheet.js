// The run sheet: the caption that the player stands at in another window, what to say, the time, what comes next. It
// follows a player of its chapter, and its keys turn that player's captions. Until one speaks they turn its own: a
// rehearsal. A chapter without a tour has its points instead of captions.

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
    this.offered = null;                                   // the chapter's own sheet
    this.window = null;                                    // of the player that is followed; null: none spoke yet
    this.started = null;                                   // the tour, in ms
    this.turned = 0;                                       // its caption
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.channel = new BroadcastChannel(CHANNEL);
    this.channel.onmessage = ({ data }) => {
      if (data.captions) this.heard(data);
    };
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    root.addEventListener("click", (event) => this.clicked(event.target.closest("button")?.dataset.do), { signal });
    this.ticking = setInterval(() => this.tick(), 1000);
    this.channel.postMessage({ asks: true });
  }

  /** Takes the sheet of another chosen tour, until a player of its chapter speaks; and the focus: a clicker's keys then
   * work at once. */
  offer({ sheet, titles, actions }) {
    const { offered } = this;
    if (sheet.chapter === offered?.chapter && sheet.title === offered.title) return;
    this.offered = sheet;
    this.titles = titles;
    this.actions = new RegExp(`(?<=^|[.?!:”] )(?:(Ask)|(?:${actions.join("|")})\\b.*?(?:[.?!:](?= |$)|$))`, "g");
    if (sheet.title !== this.sheet?.title) {
      this.window = this.sheet = null;
      this.$(".other").hidden = true;
      this.follow({ ...sheet, at: -1 });
      this.channel.postMessage({ asks: true });
    }
    this.root.focus({ preventScroll: true });
  }

  /** Follows a player of the chosen chapter. Another chapter's is named; in the followed window it is the next one. */
  heard(data) {
    if (data.chapter === this.offered.chapter) {
      this.window = data.window;
      return this.follow(data);
    }
    const address = `notes?chapter=${data.chapter}`;
    if (data.at >= 0 && data.window === this.window) return location.assign(address);
    this.$(".other").hidden = data.at < 0;
    this.$(".other b").textContent = this.titles[data.chapter] ?? data.title;
    this.$(".other a").href = address;
  }

  get alone() {
    return this.window === null;
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
    if (what === "restart") this.restart();
    else if (what) this.press(what);
    this.tick();
  }

  /** Starts the clock, or starts it again. */
  restart() {
    this.started = this.turned = Date.now();
    if (this.alone) this.follow({ ...this.sheet, at: Math.max(0, this.sheet.at) });
  }

  press(what) {
    if (!this.alone) return this.channel.postMessage({ press: what, window: this.window });
    const at = Math.max(0, this.sheet.at) + WAYS[what];
    return this.follow({ ...this.sheet, at: Math.max(0, Math.min(at, this.sheet.captions.length - 1)) });
  }

  render() {
    const { sheet: { chapter, title, captions, at, minutes }, root } = this;
    root.hidden = false;
    Object.assign(root.dataset, { chapter, caption: at + 1, kind: minutes ? "points" : "captions" });
    const ended = at < 0 && this.started !== null;
    const now = ended ? { text: "The tour is over.", say: "" } : captions[Math.max(0, at)];
    const next = ended ? null : captions[Math.max(0, at) + 1];
    this.$(".title").textContent = title;
    this.$(".of").textContent = `${Math.max(0, at) + 1} / ${captions.length}`;
    this.$(".open").hidden = (at >= 0 && !this.alone) || ended;
    this.$(".open a").href = chapter;
    this.$(".text").textContent = now.text;
    this.$(".say").replaceChildren(...this.told(now.say));
    this.$(".answer").textContent = now.answer ?? "";
    const over = minutes ? "What students get wrong, below." : "The rest of the chapter, then the next chapter: Page ↓ goes on.";
    this.$(".next").textContent = next ? next.text : over;
    this.$(".ahead").textContent = next?.say ?? "";
    this.$("ol").replaceChildren(...captions.map(({ text, say, answer, minutes }, i) => {
      const row = document.createElement("li");
      const time = document.createElement("b");
      time.textContent = minutes ? `${minutes} min` : "";
      row.append(text || say, time);
      if (text) row.append(this.spoken(say, answer));
      if (i === at) row.setAttribute("aria-current", "step");
      return row;
    }));
    this.tick();
  }

  /** What to say as a paragraph below a caption, and the answer to its question. */
  spoken(say, answer = "") {
    const words = document.createElement("p");
    words.append(...this.told(say));
    if (answer) words.append(Object.assign(document.createElement("span"), { className: "answer", textContent: answer }));
    return words;
  }

  /** What to say: “Ask” is bold, and what to do is set apart, up to the end of its sentence: “Press →.” */
  told(say) {
    const parts = [];
    let from = 0;
    for (const { 0: action, 1: asks, index } of say.matchAll(this.actions)) {
      const marked = Object.assign(document.createElement(asks ? "b" : "i"), { textContent: action });
      parts.push(say.slice(from, index), marked);
      from = index + action.length;
    }
    return [...parts, say.slice(from)];
  }

  /** The clock: the time left by the plan, for this caption and for the tour; the time since the start; the delay.
   * Points have no plan of their own: only the chapter has. */
  tick() {
    if (!this.sheet) return;
    const { captions, minutes: whole } = this.sheet, at = Math.max(0, this.sheet.at);
    const sum = (list) => list.reduce((all, { minutes }) => all + minutes, 0);
    const since = (moment) => (this.started === null ? 0 : (Date.now() - moment) / MINUTE_MS);
    const elapsed = since(this.started);
    const here = whole ? Math.max(0, whole - elapsed) : Math.max(0, captions[at].minutes - since(this.turned));
    const left = here + (whole ? 0 : sum(captions.slice(at + 1)));
    this.root.dataset.left = whole ?? sum(captions.slice(at));
    const minutes = (time) => Object.assign(document.createElement("b"), { textContent: clock(time) });
    this.$(".left").replaceChildren(...(whole ? [] : [minutes(here), " for this caption, "]), minutes(left), whole ? " left" : " of material left");
    this.$(".left").classList.toggle("late", here <= 0);
    this.$("[data-do=restart]").textContent = this.started === null ? "Start" : "Restart";
    this.$(".clock").textContent = clock(elapsed);
    const planned = whole ?? sum(captions) - left;             // a caption counts as told for its own minutes at most
    const ahead = Math.round(whole ? Math.min(0, planned - elapsed) : planned - elapsed);
    this.$(".late").textContent = ahead ? `${Math.abs(ahead)} min ${ahead > 0 ? "ahead" : "behind"}` : "";
    this.$(".late").classList.toggle("early", ahead > 0);
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
