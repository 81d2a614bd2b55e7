// Which panels are shown, the full-screen view of one or all of them, and its black screen.

import { buttonOf, openDialog } from "./dialog.js";
import { element } from "./words.js";

const HIDDEN_KEY = "tilescope: hidden panels";
const HIDDEN_OF_TWO = { flat: ["strip"], tiled: ["zoom", "strip", "output"] }; // two runs: no room for all panels
const PANEL_NAMES = {
  source: "Kernel source", equation: "Current line", invariant: "Loop invariant", map: "Scores", zoom: "This tile",
  strip: "One row of the tile", rows: "Running state", kept: "Top-k list", pairs: "Merged tiles", output: "Output",
  variables: "Variables", hbm: "HBM", sram: "On-chip memory", counters: "Counters", idea: "Idea",
};

// A lecture begins with the line, what it does, and the state; all panels at once are too small to read.
const STARTING = new Set(["idea", "source", "equation", "rows", "kept", "pairs", "variables", "counters"]);

const KEYED = 9;                                           // panels with a key of their own

const panelKey = (panel) => (panel.classList.contains("panel") ? panel.classList[1] : "counters");

function hiddenPanels(key, otherwise) {
  try {
    return new Set(JSON.parse(sessionStorage.getItem(key)) ?? otherwise);
  } catch {                                                // nothing can be stored, or it is damaged
    return new Set(otherwise);
  }
}

const SIZES = [0.7, 0.8, 0.9, 1, 1.15, 1.3, 1.5, 1.75, 2];  // of the text, as the keys + and − choose it

/** The columns of the full-screen view, by the number of panels. */
const acrossOf = (panels) => Math.max(1, Math.min(panels, 3));

export class Presenter {
  constructor(player) {
    this.player = player;
    this.hidden = new Set();                               // by the reader, in this window
    this.composed = null;                                  // the panels of a caption or a link
    this.chosen = new Set();                               // the panels at full screen
    this.presenting = false;
    this.size = SIZES.indexOf(1);
    player.on(document, "fullscreenchange", () => {
      if (!document.fullscreenElement && this.full) this.leave();
    });
    player.on(player.$(".blank"), "click", () => this.blank(false));
    player.on(player.$(".stage select"), "change", (event) => {
      this.choose(event.target.value ? [event.target.value] : this.keys());
      player.section.focus({ preventScroll: true });
    });
    player.on(player.$(".stage"), "click", (event) => {
      const button = event.target.closest("button");
      if (button) player.act(button.dataset.do);
    });
  }

  load() {
    const { section, stories } = this.player;
    const flat = section.querySelector(".lane.flat"),
      checked = section.querySelector(".lane.flat > .invariant:not([hidden])");
    const kind = stories.length === 1 || (flat && !checked) ? null : flat ? "flat" : "tiled";
    this.key = kind ? `${HIDDEN_KEY}, two ${kind}` : HIDDEN_KEY;
    this.otherwise = new Set(HIDDEN_OF_TWO[kind] ?? []);
    this.hidden = hiddenPanels(this.key, this.otherwise);
    this.composed = null;
    this.show();
  }

  /** The panels that these runs have at this depth, in their order on screen: [{key, name, elements}]. */
  panels() {
    const { section } = this.player;
    const all = [...section.querySelectorAll(".panel"), section.querySelector(".counters")];
    const idea = this.player.depth.shown === "idea";
    const present = all.filter((panel) => !panel.hidden && !panel.parentElement.hidden
      && panel.classList.contains("idea") === idea);
    const keys = [...new Set(present.map(panelKey))];
    return keys.map((key) => ({ key, name: PANEL_NAMES[key],
      elements: present.filter((panel) => panelKey(panel) === key) }));
  }

  keys() {
    return this.panels().map(({ key }) => key);
  }

  /** The panels to show in the window: those of the caption or the link that this depth has, else those that the
   * reader has not hidden. */
  inWindow() {
    const keys = this.keys(), composed = keys.filter((key) => this.composed?.has(key));
    return composed.length ? composed : keys.filter((key) => !this.hidden.has(key));
  }

  /** Shows these panels, for a caption or a link; null or none: the reader's own. */
  compose(keys) {
    const known = this.keys().filter((key) => keys?.includes(key));
    this.composed = known.length ? new Set(known) : null;
    if (this.presenting && known.length) this.chosen = new Set(known);
    this.show();
  }

  /** The panels with which a full-screen view begins. */
  starting() {
    return this.keys().filter((key) => STARTING.has(key));
  }

  /** The panels on screen: at full screen the chosen ones, or the first where none of them is of this depth. */
  inView() {
    if (!this.presenting) return this.inWindow();
    const chosen = this.keys().filter((key) => this.chosen.has(key));
    return chosen.length ? chosen : this.starting();
  }

  /** The panels for the address; null: as the caption has them, or a player without one. */
  composition() {
    const { tour: { caption }, depth } = this.player;
    if (depth.shown === "idea") return null;               // it has one picture
    const all = this.keys(), shown = this.inWindow();
    const plain = caption?.panels.length ? all.filter((key) => caption.panels.includes(key))
      : all.filter((key) => !this.otherwise.has(key));
    return shown.join() === plain.join() ? null : shown.join();
  }

  /** Marks the panels that are not shown, and fills the list of panels. */
  show() {
    const { section, $ } = this.player;
    const panels = this.panels();
    const shown = new Set(this.inView());
    const alone = this.presenting && shown.size === 1;
    for (const { key, elements } of panels) {
      for (const panel of elements) {
        panel.toggleAttribute("data-away", !shown.has(key));
        panel.toggleAttribute("data-alone", alone && shown.has(key));
      }
    }
    for (const lane of section.querySelectorAll(".lane")) this.spread(lane);
    const inLanes = [...shown].filter((key) => key !== "counters").length;
    const beside = inLanes - shown.has("source");          // the source has rows of its own
    section.style.setProperty("--across", acrossOf(beside));
    section.classList.toggle("presenting", this.presenting);
    section.classList.toggle("alone", alone);
    section.classList.toggle("composed", panels.some(({ key }) => this.composed?.has(key)));
    section.classList.toggle("many", this.presenting && inLanes > 4);
    section.classList.toggle("brief", this.presenting && !alone && !this.composed?.has("counters"));
    const option = (value, text) => Object.assign(element("option", "", text), { value });
    const list = $(".stage select");
    const named = panels.map(({ key, name }, i) => option(key, i < KEYED ? `${i + 1} · ${name}` : name));
    const some = !alone && shown.size < panels.length;
    const several = panels.filter(({ key }) => shown.has(key)).map(({ name }) => name).join(" + ");
    list.replaceChildren(...(some ? [option("several", several)] : []), option("", "0 · All panels"), ...named);
    list.value = alone ? [...shown][0] : some ? "several" : "";
    if (this.player.ready) this.player.resized();
  }

  /** Gives the room of columns without panels to the others. */
  spread(lane) {
    const column = (name) => lane.querySelector(`.${name}`);
    const away = (panel) => panel.hidden || panel.hasAttribute("data-away");
    const gone = (name) => column(name).hidden || [...column(name).children].every(away);
    const columns = ["left", "middle", "side", "memory"];
    for (const name of columns) column(name).toggleAttribute("data-away", gone(name));
    lane.toggleAttribute("data-away", !lane.querySelector(".panel:not([hidden], [data-away])"));
    const beside = ["side", "memory"].filter((name) => !gone(name));
    lane.querySelector(".tabs").toggleAttribute("data-away", this.presenting || beside.length < 2);
    const tab = lane.querySelector(".tabs [aria-pressed=true]")?.dataset.side;
    if (tab) lane.dataset.side = beside.length === 1 ? { side: "state", memory: "memory" }[beside[0]] : tab;
    lane.classList.toggle("no-left", gone("left"));
    lane.classList.toggle("no-middle", !column("middle").hidden && gone("middle"));
    lane.classList.toggle("no-side", !column("side").hidden && !beside.length);
  }

  // --- which panels ---

  /** Opens the list of panels: checkboxes to show them, buttons to present one. */
  list() {
    const { player } = this;
    player.pause();
    const shown = this.inView();
    const rows = this.panels().map(({ key, name }) => {
      const row = element("div", "choice");
      const label = element("label");
      const box = element("input");
      Object.assign(box, { type: "checkbox", checked: shown.includes(key) });
      box.addEventListener("change", () => this.keep(key, box.checked));
      label.append(box, name);
      const present = () => {
        close(player.section);
        this.enter([key]);
      };
      row.append(label, buttonOf("", "Full screen", `Show ${name} at full screen`, present));
      return row;
    });
    const note = element("p", "sum", this.presenting ? "Shown at full screen:" : "Shown in this window:");
    const close = openDialog(player.section, "Panels", [note, ...rows], "small");
  }

  /** Shows or hides a panel: at full screen, of a caption's panels, or for as long as this window is open. */
  keep(key, shown) {
    if (this.presenting) return this.choose(with_(this.chosen, key, shown));
    if (this.composed) this.composed = new Set(with_(this.composed, key, shown));
    else {
      this.hidden = new Set(with_(this.hidden, key, !shown));
      try {
        sessionStorage.setItem(this.key, JSON.stringify([...this.hidden]));
      } catch { /* not stored: kept until the page is left */ }
    }
    this.show();
    return this.player.settle();
  }

  // --- full screen ---

  toggle() {
    if (this.presenting) this.leave();
    else this.enter(this.composed ? this.inWindow() : this.starting());
  }

  async enter(keys) {
    const { section } = this.player;
    this.stand(true, keys);
    this.full = false;
    try {
      await document.documentElement.requestFullscreen();
      this.full = true;
    } catch { /* not allowed: the player fills the window instead */ }
    if (!this.presenting) return;
    section.setAttribute("popover", "manual");             // above everything else on the page
    section.showPopover?.();
    this.show();
    section.focus({ preventScroll: true });
  }

  /** Takes the form of the full-screen view, or leaves it, without asking the browser for the screen. */
  stand(presenting, keys = this.starting()) {
    this.presenting = presenting;
    this.chosen = new Set(presenting ? keys : []);
    this.show();
  }

  /** Back to the page; false if it is there already. */
  leave() {
    const { section } = this.player;
    if (!this.presenting) return false;
    this.blank(false);
    if (this.full && document.fullscreenElement) document.exitFullscreen().catch(() => {});
    this.full = false;
    if (section.hasAttribute("popover")) section.hidePopover?.();
    section.removeAttribute("popover");
    this.stand(false);
    this.player.fit();
    section.focus({ preventScroll: true });
    return true;
  }

  /** Shows these panels at full screen; none: as it was. */
  choose(keys) {
    if (keys.length) this.chosen = new Set(keys);
    this.show();
  }

  /** Keys 1 to 9: that panel; with Shift it is added or taken away. 0: all. Only at full screen. */
  press(digit, adds) {
    if (!this.presenting) return;
    const key = this.keys()[digit - 1];
    if (digit === 0) this.choose(this.keys());
    else if (key) this.choose(adds ? with_(this.chosen, key, !this.chosen.has(key)) : [key]);
  }

  /** Larger or smaller text, in the window and at full screen. */
  resize(by) {
    this.size = Math.max(0, Math.min(SIZES.length - 1, this.size + by));
    this.player.section.style.setProperty("--size", SIZES[this.size]);
    this.player.resized();
    this.player.say(`Text at ${Math.round(SIZES[this.size] * 100)} percent.`);
  }

  /** Sets the black screen to `on`, by default to its opposite. */
  blank(on = this.presenting && this.player.$(".blank").hidden) {
    this.player.$(".blank").hidden = !on;
  }

  get blanked() {
    return !this.player.$(".blank").hidden;
  }
}

/** The keys with `key` among them, or without it. */
function with_(keys, key, among) {
  const others = [...keys].filter((one) => one !== key);
  return among ? [...others, key] : others;
}
