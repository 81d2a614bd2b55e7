// One run on screen: its panels, drawn in one pass for a step. Elements are made once per trace; a step only changes what they show.

import { isFlat } from "./pictures/map.js";
import { EquationPanel } from "./panels/equation.js";
import { HbmPanel } from "./panels/hbm.js";
import { InvariantPanel } from "./panels/invariant.js";
import { KeptPanel } from "./panels/kept.js";
import { MapPanel } from "./panels/map.js";
import { OutputPanel } from "./panels/output.js";
import { stemOf } from "./panels/panel.js";
import { PairsPanel } from "./panels/pairs.js";
import { RowsPanel } from "./panels/rows.js";
import { SourcePanel } from "./panels/source.js";
import { SramPanel } from "./panels/sram.js";
import { StripPanel } from "./panels/strip.js";
import { VariablesPanel } from "./panels/variables.js";
import { ZoomPanel } from "./panels/zoom.js";
import { sentence } from "./sentences.js";
import { countNaN } from "./story.js";
import { isFloat, itemBytes } from "./trace.js";
import { bytes, exact, short, times } from "./words.js";

const QUANTITIES = {
  running_max: "max", new_max: "max", running_sum: "sum", new_sum: "sum", rescale: "alpha", other_max: "max", other_sum: "sum", other_rescale: "alpha", kept: "scores", probabilities: "p", accumulator: "acc", output: "acc", scores: "scores",
};
const HOLD_MS = 60;                                        // until the step itself is painted
const MOVE_MS = 540;                                       // then a rescale, as a movement
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const ROW_EM = 2.3;                                        // the most height a row of state takes

export class Lane {
  /** `root` is the cloned template; `select` is called with {row, col} or {step} when a picture is clicked. */
  constructor(root, story, annotations, select) {
    this.root = root;
    this.story = story;
    this.view = story.view;
    this.annotations = annotations;
    this.select = select;
    this.selection = { row: 0, col: 0 };
    this.step = -1;
    this.phase = 1;                                        // how far a movement has got; 1 is the picture at rest
    this.glowing = this.pinned = null;                     // names of variables: shown wherever they stand
    this.timeOf = (k) => k;                                // where a step of this run stands on the timeline
    this.$ = (selector) => root.querySelector(selector);
    this.quantityOf = new Map(Object.entries(this.view.roles ?? {}).filter(([role]) => QUANTITIES[role]).map(([role, variable]) => [variable, QUANTITIES[role]]));
    this.ranges = this.findRanges();
    const map = story.scoreMap ?? story.outputMap;
    this.flat = Boolean(map) && isFlat(map);
    this.arrange();
    root.addEventListener("pointermove", (event) => this.glow(this.nameUnder(event)));
    root.addEventListener("pointerleave", () => this.glow(null));
    root.addEventListener("click", (event) => {
      const name = event.altKey ? null : event.target.closest("[data-name]")?.dataset.name;
      if (name) this.pin(name);
    });
  }

  // --- once per trace ---

  arrange() {
    const { story, root } = this;
    const pictures = [MapPanel, ZoomPanel, StripPanel, RowsPanel, InvariantPanel, KeptPanel, PairsPanel, OutputPanel].map((Kind) => new Kind(this));
    const variables = new VariablesPanel(this), memory = [HbmPanel, SramPanel].map((Kind) => new Kind(this));
    const shown = pictures.filter((panel) => panel.shown);
    if (!shown.length) shown.push(variables);
    shown.push(...memory.filter((panel) => panel.shown));
    for (const panel of [...pictures, variables, ...memory]) panel.root.hidden = !shown.includes(panel);
    // Canvases first: a font that is set on one after the page has changed makes the browser style the page at once.
    this.panels = new Map([...shown, new SourcePanel(this), new EquationPanel(this)].map((panel) => [panel.name, panel]));
    for (const column of ["middle", "side", "memory"]) this.$(`.${column}`).hidden = !this.$(`.${column} .panel:not([hidden])`);
    root.classList.toggle("sideless", this.$(".middle").hidden || this.$(".side").hidden);
    root.classList.toggle("flat", this.flat);
    this.arrangeTabs();
    if (this.flat) {
      const { height } = story.scoreMap ?? story.outputMap;
      const widestTile = story.visits.reduce((cols, { begin }) => Math.max(cols, story.tile(begin)?.cols.length ?? 0), 1);
      root.style.setProperty("--flat", `${(height === 1 ? 2.6 : Math.min(6, height) * 2.8) + (this.view.col_labels ? 4.6 : 1.7)}em`);
      root.style.setProperty("--strip", widestTile > 12 ? "10.4em" : "5.6em");
    }
    const most = story.visits.reduce((rows, { begin }) => Math.max(rows, story.rowCount(begin)), 1);
    root.style.setProperty("--need", `${3.6 + (most === 1 ? 1.2 : most) * ROW_EM}em`);
    this.$(".lane-title").textContent = this.view.title ?? "";
  }

  /** Where there is no room for both, state and memory take turns. */
  arrangeTabs() {
    const { root } = this;
    const tabs = this.$(".tabs");
    tabs.hidden = this.$(".side").hidden || this.$(".memory").hidden;
    if (tabs.hidden) return;
    const show = (side) => {
      root.dataset.side = side;
      for (const tab of tabs.children) tab.setAttribute("aria-pressed", String(tab.dataset.side === side));
    };
    for (const tab of tabs.children) tab.addEventListener("click", () => show(tab.dataset.side));
    show("state");
  }

  /** The scales of the pictures: fixed for the whole run, so that a colour or a length keeps its meaning. */
  findRanges() {
    const finite = (role, start, pick) => {
      let out = start;
      for (const { value } of this.story.eventsOf(role)) {
        const { data } = this.story.trace.value(value);
        if (data) for (const x of data) if (Number.isFinite(x)) out = pick(out, x);
      }
      return out;
    };
    const low = Math.min(finite("running_max", Infinity, Math.min), finite("new_max", Infinity, Math.min));
    const high = Math.max(finite("running_max", -Infinity, Math.max), finite("new_max", -Infinity, Math.max));
    const size = (a, x) => Math.max(a, Math.abs(x));
    return {
      max: low <= high ? [low, high] : [0, 1],
      sum: finite("new_sum", finite("running_sum", 0, Math.max), Math.max) || 1,
      accumulator: finite("accumulator", 0, size) || 1,
      output: finite("output", 0, size) || 1,
      p: finite("probabilities", 1, Math.max),
    };
  }

  // --- once per size, once per step ---

  measure() {
    return [...this.panels.values()].map((panel) => panel.measure()).some(Boolean);
  }

  /** Draws step k. With `motion` what the step moves is then shown as a movement; a next draw ends it. */
  render(k, palette, stamp, motion = false) {
    cancelAnimationFrame(this.moving);
    this.palette = palette;
    this.stamp = stamp;
    this.moved = k !== this.step;
    this.step = k;
    const { story } = this;
    this.visit = story.visit(k);
    this.tile = this.visit ? story.tile(Math.max(k, this.visit.begin)) : null;
    this.rowCount = story.rowCount(k);
    this.colCount = this.tile?.cols.length ?? story.tile(k)?.cols.length ?? 1;
    this.at = { row: Math.min(this.selection.row, this.rowCount - 1), col: Math.min(this.selection.col, this.colCount - 1), dim: 0, rows: this.rowCount, cols: this.colCount };
    this.phase = motion && !STILL.matches ? 0 : 1;
    for (const panel of this.panels.values()) panel.render(k);
    if (this.phase === 0) this.animate([...this.panels.values()].filter((panel) => panel.moves?.(k)));
  }

  /** Then, when all lanes are drawn, what the page says of the step. */
  write() {
    for (const panel of this.panels.values()) {
      panel.write(this.step);
      panel.writeHead();
    }
    if (this.glowing) this.showGlow();
  }

  animate(panels) {
    const start = performance.now() + HOLD_MS;
    const frame = (now) => {
      this.phase = Math.min(1, Math.max(0, now - start) / MOVE_MS);
      if (this.phase > 0) for (const panel of panels) panel.paint();
      if (this.phase < 1) this.moving = requestAnimationFrame(frame);
    };
    if (panels.length) this.moving = requestAnimationFrame(frame);
    else this.phase = 1;
  }

  // --- what the panels ask ---

  /** The name of the selected row or column, as the axes have it. */
  label(axis, index) {
    const coordinates = (this.tile ?? this.story.tile(this.step))?.[axis === "row" ? "rows" : "cols"];
    const at = coordinates?.[index] ?? index;
    const word = (axis === "row" ? this.view.row_labels : this.view.col_labels)?.[at];
    return `${axis === "row" ? "row" : "column"} ${at}${word === undefined ? "" : ` “${word}”`}`;
  }

  rowLabels() {
    const { row_labels: words } = this.view;
    const rows = (this.tile ?? this.story.tile(this.step))?.rows;
    return rows && rows.length === this.rowCount && (words || rows.length > 1) ? Array.from(rows, (row) => words?.[row] ?? String(row)) : null;
  }

  /** The variable `name` of step `of`'s function, as it is after step k. */
  lookup(name, k, of = k) {
    const index = this.story.byName.get(`${this.story.trace.source[of]} ${name}`);
    return index === undefined || k < 0 ? null : this.story.at(index, k);
  }

  /** A value in a few words: a number for the selected row where it has one, else its shape. */
  glance(label, value) {
    if (value.items) return `(${value.items.length} values)`;
    if (value.kind === "p") return `→ ${this.story.launchAt(this.step).buffers[value.buffer]?.name ?? "memory"}`;
    if (!value.data) return value.text ?? "";
    const { shape, data, dtype } = value;
    if (data.length === 1) return short(data[0], !isFloat(dtype));
    const at = shape.length === 1 && shape[0] === this.rowCount && this.rowCount > 1 && isFloat(dtype) ? this.at.row : -1;
    if (at >= 0) return `${short(data[at])} in row ${this.tile?.rows[at] ?? at}`;
    if (shape.length === 1 && dtype !== "i1") return `${short(data[0], !isFloat(dtype))} … ${short(data[data.length - 1], !isFloat(dtype))}`;
    return times(shape);
  }

  // --- in words ---

  /** The step in one plain sentence, for the selected row. */
  sentence() {
    return sentence(this.story, this.step, this.at.row);
  }

  // --- under the pointer ---

  /** What a tooltip says at (x, y) of a panel's canvas, or null. */
  hover(name, x, y) {
    return this.panels.get(name)?.hover(x, y) ?? null;
  }

  /** What a tooltip says of a variable of the function `source`, by default the running one: what it is, its shape, bytes and values. */
  hoverName(name, source = this.story.trace.source[this.step]) {
    const index = this.story.byName.get(`${source} ${name}`);
    const value = index === undefined ? null : this.story.at(index, this.step);
    const meaning = this.annotations.glossary?.[name] ?? "";
    if (!value) return meaning ? { title: name, meaning, text: "" } : null;
    const { data, shape, dtype } = value;
    if (!data || !shape.length) return { title: `${name}  ${data ? exact(data[0], dtype) : this.glance(name, value)}`, meaning, text: "" };
    let low = Infinity, high = -Infinity;
    for (const x of data) if (x === x) (low = Math.min(low, x)), (high = Math.max(high, x));
    const nans = countNaN(value);
    const text = [low <= high ? `${exact(low, dtype)} … ${exact(high, dtype)}` : "", nans ? `${nans} NaN` : ""].filter(Boolean).join("  ");
    const title = `${name}  ${times(shape)} ${dtype}, ${bytes(data.length * itemBytes(dtype))}`;
    if (shape.length > 2 || !data.length) return { title, meaning, text };
    const [rows, cols] = shape.length === 1 ? [1, shape[0]] : shape;
    let largest = 0;
    for (const x of data) if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
    return { title, meaning, text, picture: { data, rows, cols, largest: largest || 1, whole: !isFloat(dtype) } };
  }

  // --- a name, wherever it stands ---

  /** The variable under the pointer: in the source, an equation, a list or a picture. */
  nameUnder(event) {
    const named = event.target.closest("[data-name]");
    if (named) return named.dataset.name;
    if (event.target.tagName !== "CANVAS") return null;
    return this.panels.get(event.target.closest(".panel").classList[1])?.nameAt(event.offsetX, event.offsetY) ?? null;
  }

  /** Lets a variable stand out in source, equation and pictures alike; null lets the pinned one, if any. */
  glow(name) {
    const next = name ?? this.pinned;
    if (next === this.glowing) return;
    this.glowing = next;
    this.showGlow();
  }

  /** Keeps a variable glowing until it is chosen again, or another, or none. */
  pin(name) {
    this.pinned = name === this.pinned ? null : name;
    this.glow(null);
  }

  showGlow() {
    const stem = stemOf(this.glowing);
    for (const one of this.root.querySelectorAll(".glow:not(.panel)")) one.classList.remove("glow");
    if (stem) for (const name of [stem, `${stem}_ptr`]) for (const one of this.root.querySelectorAll(`[data-name="${CSS.escape(name)}"]`)) one.classList.add("glow");
    for (const panel of this.panels.values()) panel.glow(stem);
  }
}
