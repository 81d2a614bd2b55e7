// Which panels are shown, the full-screen view of one or all of them, and its black screen.

import { buttonOf, openDialog } from "./dialog.js";
import { element } from "./words.js";

const HIDDEN_KEY = "tilescope: hidden panels";
const HIDDEN_OF_TWO = { flat: ["strip"], tiled: ["zoom", "strip", "output"] }; // two runs: no room for all panels
const PANEL_NAMES = {
  source: "Kernel source", equation: "Current line", invariant: "Loop invariant", map: "Scores", zoom: "This tile",
  strip: "One row of the tile", rows: "Running state", kept: "Top-k list", pairs: "Merged tiles", output: "Output",
  variables: "Variables", hbm: "HBM", sram: "SRAM", counters: "Counters", idea: "Idea",
};

const KEYED = 9;                                           // panels with a key of their own

const panelKey = (panel) => (panel.classList.contains("panel") ? panel.classList[1] : "counters");

function hiddenPanels(key, otherwise) {
  try {
    return new Set(JSON.parse(sessionStorage.getItem(key)) ?? otherwise);
  } catch {                                                // nothing can be stored, or it is damaged
    return new Set(otherwise);
  }
}

export class Presenter {
  constructor(player) {
    this.player = player;
    this.hidden = new Set();
    this.presenting = false;
    this.alone = null;
    player.on(document, "fullscreenchange", () => {
      if (!document.fullscreenElement && this.full) this.leave();
    });
    player.on(player.$(".blank"), "click", () => this.blank(false));
    player.on(player.$(".stage select"), "change", (event) => {
      this.choose(event.target.value || null);
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
    this.hidden = hiddenPanels(this.key, HIDDEN_OF_TWO[kind] ?? []);
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

  /** Marks the panels that are hidden or alone, and fills the list of panels. */
  show() {
    const { section, $ } = this.player;
    const panels = this.panels();
    if (!panels.some(({ key }) => key === this.alone)) this.alone = null;
    for (const { key, elements } of panels) {
      for (const panel of elements) {
        panel.toggleAttribute("data-away", this.alone ? key !== this.alone : this.hidden.has(key));
        panel.toggleAttribute("data-alone", key === this.alone);
      }
    }
    for (const lane of section.querySelectorAll(".lane")) this.spread(lane);
    section.classList.toggle("presenting", this.presenting);
    section.classList.toggle("alone", Boolean(this.alone));
    const option = (value, text) => Object.assign(element("option", "", text), { value });
    const list = $(".stage select");
    const named = panels.map(({ key, name }, i) => option(key, i < KEYED ? `${i + 1} · ${name}` : name));
    list.replaceChildren(option("", "0 · All panels"), ...named);
    list.value = this.alone ?? "";
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
    lane.querySelector(".tabs").toggleAttribute("data-away", this.alone !== null || beside.length < 2);
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
    const rows = this.panels().map(({ key, name }, i) => {
      const row = element("div", "choice");
      const label = element("label");
      const box = element("input");
      Object.assign(box, { type: "checkbox", checked: !this.hidden.has(key) });
      box.addEventListener("change", () => this.keep(key, box.checked));
      label.append(box, name);
      const present = () => {
        close(player.section);
        this.enter(key);
      };
      row.append(label, buttonOf("", "Full screen", `Show ${name} at full screen`, present));
      return row;
    });
    const note = element("p", "sum", "Shown in this window:");
    const close = openDialog(player.section, "Panels", [note, ...rows], "small");
  }

  keep(key, shown) {
    if (shown) this.hidden.delete(key);
    else this.hidden.add(key);
    try {
      sessionStorage.setItem(this.key, JSON.stringify([...this.hidden]));
    } catch { /* not stored: kept until the page is left */ }
    this.show();
  }

  // --- full screen ---

  toggle() {
    if (this.presenting) this.leave();
    else this.enter(this.panels()[0]?.key ?? null);
  }

  async enter(key) {
    const { section } = this.player;
    this.presenting = true;
    this.alone = key;
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

  /** Back to the page; false if it is there already. */
  leave() {
    const { section } = this.player;
    if (!this.presenting) return false;
    this.presenting = false;
    this.alone = null;
    this.blank(false);
    if (this.full && document.fullscreenElement) document.exitFullscreen().catch(() => {});
    this.full = false;
    if (section.hasAttribute("popover")) section.hidePopover?.();
    section.removeAttribute("popover");
    this.show();
    this.player.fit();
    section.focus({ preventScroll: true });
    return true;
  }

  choose(key) {
    this.alone = key;
    this.show();
  }

  /** Keys 1 to 9: one panel; 0: all. Only in the full-screen view. */
  press(digit) {
    if (!this.presenting) return;
    const panel = this.panels()[digit - 1];
    if (digit === 0 || panel) this.choose(panel?.key ?? null);
  }

  /** Sets the black screen to `on`, by default to its opposite. */
  blank(on = this.presenting && this.player.$(".blank").hidden) {
    this.player.$(".blank").hidden = !on;
  }

  get blanked() {
    return !this.player.$(".blank").hidden;
  }
}
