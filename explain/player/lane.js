// One run on screen: its panels, drawn in one pass for a step. Elements are made once per trace.

import { bufferSymbol, roleSymbol } from "./beat_words.js";
import { bytes, counted, exact, grouped, number, times } from "./numbers.js";
import { isFlat } from "./pictures/map.js";
import { EquationPanel } from "./panels/equation.js";
import { HbmPanel } from "./panels/hbm.js";
import { IdeaPanel } from "./idea/panel.js";
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
import { element, largestFinite, minMax } from "./words.js";

const QUANTITIES = {
  running_max: "max", new_max: "max", other_max: "max", running_sum: "sum", new_sum: "sum", other_sum: "sum",
  rescale: "alpha", other_rescale: "alpha", scores: "scores", kept: "scores", exponentials: "p",
  weights: "p", kept_weight: "p", accumulator: "acc", output: "acc", other_output: "acc",
  output_gradient: "acc", weights_gradient: "p", scores_gradient: "scores", target: "scores", loss: "acc",
  gradient: "scores", input_gradient: "acc", weight_gradient: "acc",
  queries_gradient: "acc", keys_gradient: "acc", values_gradient: "acc",
};
const HOLD_MS = 60;                                        // until the step itself is painted
const MOVE_MS = 540;                                       // a rescale, drawn as a movement
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const SHORT_SOURCE = 14;                                   // lines
const FEW_VARIABLES = 12;
const ROW_EM = 2.3;                                        // the most height a row of state takes

// Of two runs' scales: a quantity, and the roles that have it; how many times as large one's may be as the other's.
const SCALES = [["sum", "running_sum", "new_sum"], ["accumulator", "accumulator"], ["output", "output"],
  ["p", "exponentials"]];
const MOST_APART = 8;

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
    this.beat = null;                                      // that holds the step; in two runs, that this one waits on
    this.beside = null;                                    // the lane of the other run
    this.otherProgram = null;                              // its values stand beside those of the step
    this.finished = false;                                 // whether only the run beside it goes on
    this.hides = false;                                    // whether a question is open: no later step is shown
    this.phase = 1;                                        // how far a movement has got; 1: at rest
    this.glowing = this.pinned = null;                     // names of variables, highlighted everywhere
    this.timeOf = (k) => k;                                // a step of this run → its step on the timeline
    this.$ = (selector) => root.querySelector(selector);
    const coloured = Object.entries(this.view.roles ?? {}).filter(([role]) => QUANTITIES[role]);
    this.quantityOf = new Map(coloured.map(([role, variable]) => [variable, QUANTITIES[this.output(role)]]));
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
    const make = (...kinds) => kinds.map((Kind) => new Kind(this));
    const pictures = make(MapPanel, ZoomPanel, StripPanel, RowsPanel, InvariantPanel, KeptPanel, PairsPanel,
      OutputPanel);
    const [variables, ...memory] = make(VariablesPanel, HbmPanel, SramPanel);
    const [idea] = make(IdeaPanel);
    const shown = pictures.filter((panel) => panel.shown);
    if (!shown.length) shown.push(variables);
    shown.push(...memory.filter((panel) => panel.shown));
    for (const panel of [...pictures, variables, ...memory]) panel.root.hidden = !shown.includes(panel);
    // Canvases first: a font set on a canvas after the page has changed forces a layout.
    idea.root.hidden = !idea.shown;
    this.panels = new Map([...shown, ...(idea.shown ? [idea] : []), ...make(SourcePanel, EquationPanel)]
      .map((panel) => [panel.name, panel]));
    for (const column of ["middle", "side", "memory"]) {
      this.$(`.${column}`).hidden = !this.$(`.${column} .panel:not([hidden])`);
    }
    root.classList.toggle("bare", !pictures.some((panel) => panel.shown));
    root.classList.toggle("many", story.trace.header.names.length > FEW_VARIABLES);
    root.classList.toggle("short", [...story.sources.values()].every(({ lines }) => lines.length <= SHORT_SOURCE));
    // Two columns beside the code, or one: where the state has none, the memory stands in its place.
    const has = (column) => !this.$(`.${column}`).hidden;
    root.classList.toggle("sideless", !has("middle") || !(has("side") || has("memory")));
    root.classList.toggle("stateless", has("middle") && !has("side") && has("memory"));
    root.classList.toggle("flat", this.flat);
    this.arrangeTabs();
    const largest = (of) => story.visits.reduce((most, { begin }) => Math.max(most, of(begin)), 1);
    const most = largest((begin) => story.rowCount(begin));
    const columns = largest((begin) => story.tile(begin)?.cols.length ?? 0);
    if (this.flat) {
      const { height } = story.scoreMap ?? story.outputMap;
      const labels = this.view.col_labels ? 4.6 : 1.7;
      root.style.setProperty("--flat", `${(height === 1 ? 2.6 : Math.min(6, height) * 2.8) + labels}em`);
      root.style.setProperty("--strip", columns > 12 ? "10.4em" : "5.6em");
    }
    root.classList.toggle("one-row", most === 1);          // then the picture has the state's numbers
    root.classList.toggle("one-number", most === 1 && columns === 1);
    root.style.setProperty("--need", `${3.6 + (most === 1 ? 1.2 : most) * ROW_EM}em`);
    this.$(".lane-title").replaceChildren(element("span", "name", this.view.title ?? ""), element("span", "program"),
      element("span", "apart"));
  }

  /** Where there is no room for both, one tab shows the state, the other the memory. */
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

  /** The scales of the pictures, fixed for the whole run: a colour or a length means the same at every step. */
  findRanges() {
    const finite = (role, start, pick) => {
      let out = start;
      for (const { value } of this.story.eventsOf(role)) {
        const { data } = this.story.trace.value(value);
        if (data) for (const x of data) if (Number.isFinite(x)) out = pick(out, x);
      }
      return out;
    };
    const between = (...roles) => {
      const low = Math.min(...roles.map((role) => finite(role, Infinity, Math.min)));
      const high = Math.max(...roles.map((role) => finite(role, -Infinity, Math.max)));
      return low <= high ? [low, high] : [0, 1];
    };
    const size = (a, x) => Math.max(a, Math.abs(x));
    return {
      max: between("running_max", "new_max"),
      sum: finite("new_sum", finite("running_sum", 0, Math.max), Math.max) || 1,
      accumulator: finite("accumulator", 0, size) || 1,
      output: finite("output", 0, size) || 1,
      p: finite("exponentials", 1, Math.max),
    };
  }

  /** Gives a quantity of two runs one scale, so that equal numbers look equal; not where one run's would hardly be seen
   * then. Where the accumulator is the output itself, it has the scale of the other run's output. */
  shareScale(other) {
    this.beside = other;
    if (!other) return;
    const { ranges, story: { roles } } = this, theirs = other.ranges, named = (names) =>
      [roles, other.story.roles].every((own) => names.some((name) => own[name]));
    for (const [name, ...of] of SCALES) {
      if (!named(of)) continue;
      const [low, high] = [ranges[name], theirs[name]].sort((one, next) => one - next);
      if (high <= MOST_APART * low) ranges[name] = theirs[name] = high;
    }
    if (named(["running_max", "new_max"])) {
      const both = [Math.min(ranges.max[0], theirs.max[0]), Math.max(ranges.max[1], theirs.max[1])];
      const wide = ([low, high]) => high - low;
      if (wide(both) <= MOST_APART * Math.min(wide(ranges.max), wide(theirs.max))) ranges.max = theirs.max = both;
    }
    if (other.story.roles.output && roles.accumulator && !roles.output) ranges.accumulator = theirs.output;
  }

  // --- once per size, once per step ---

  measure() {
    if (this.beside) this.fitTitle();
    return [...this.panels.values()].map((panel) => panel.measure()).some(Boolean);
  }

  /** Draws step k. `followed` is the row of the matrix that the run beside follows; this one follows it too, where its
   * tile has it. With `motion` a rescale is animated; the next draw ends it.
   */
  render(k, palette, stamp, { motion = false, followed = null } = {}) {
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
    const { rowCount: rows, colCount: cols } = this;
    const { row, col } = this.selection;
    const own = this.placeOf(followed) ?? Math.min(row, rows - 1);
    this.at = { row: own, col: Math.min(col, cols - 1), dim: 0, rows, cols };
    this.phase = motion && !STILL.matches ? 0 : 1;
    for (const panel of this.panels.values()) panel.render(k);
    if (this.phase === 0) this.animate([...this.panels.values()].filter((panel) => panel.moves?.(k)));
  }

  /** Writes the texts of the step, after all lanes are drawn. */
  write() {
    for (const panel of this.panels.values()) {
      panel.write(this.step);
      panel.writeHead();
    }
    if (this.beside) this.nameProgram();
    if (this.glowing) this.showGlow();
  }

  settle() {
    for (const panel of this.panels.values()) panel.settle(this.step);
  }

  /** A program's name: what it owns, or its place in the grid; after its kernel, where the run has several launches. */
  programName(p) {
    const { programs, trace: { header: { launches, sources } } } = this.story, { id, launch } = programs[p];
    const axes = id.filter((_, axis) => launches[launch].grid[axis] > 1);
    const own = this.view.program_names?.[id.join(",")] ?? (axes.length ? axes.join(", ") : "0");
    return launches.length > 1 ? `${sources[launches[launch].source].function} · ${own}` : own;
  }

  /** Says beside the title which program runs, where there are several. */
  nameProgram() {
    const { programs, programAt } = this.story, box = this.$(".lane-title .program");
    const own = programs.length > 1 ? this.programName(programAt[this.step]) : "";
    const name = /^\d/.test(own) ? `${this.view.pick_program || "program"} ${own}` : own;
    if (box.textContent === name) return;
    box.textContent = name;
    this.fitTitle();
  }

  /** Leaves the program out of a title that has no room for it. */
  fitTitle() {
    const title = this.$(".lane-title"), program = this.$(".program");
    program.hidden = false;
    program.hidden = title.scrollHeight > title.clientHeight + 1;
  }

  /** Says beside the title why this run follows another row; "" for nothing. */
  waits(why) {
    const box = this.$(".lane-title .apart");
    if (box.textContent === why) return;
    box.textContent = why;
    this.fitTitle();
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

  /** The followed row's number in the matrix; null outside of a tile. */
  get row() {
    return this.tile ? Number(this.tile.rows[this.at.row]) : null;
  }

  /** The place in this tile of a row of the matrix; undefined if the tile lacks it. */
  placeOf(row) {
    const place = Array.from(this.tile?.rows ?? [], Number).indexOf(row);
    return place < 0 ? undefined : place;
  }

  /** A role as it is drawn: the output of a softmax is its weights. */
  output(role) {
    const { roles } = this.story;
    return role === "output" && !roles.accumulator && !roles.output_gradient ? "weights" : role;
  }

  /** “row 3 “cat””: a row or column of the tile, by its place in the matrix. */
  label(axis, index) {
    const coordinates = (this.tile ?? this.story.tile(this.step))?.[axis === "row" ? "rows" : "cols"];
    const at = coordinates?.[index] ?? index;
    const word = (axis === "row" ? this.view.row_labels : this.view.col_labels)?.[at];
    return `${axis === "row" ? "row" : "column"} ${at}${word === undefined ? "" : ` “${word}”`}`;
  }

  rowLabels() {
    const { row_labels: words } = this.view;
    const rows = (this.tile ?? this.story.tile(this.step))?.rows;
    if (rows?.length !== this.rowCount || !(words || rows.length > 1)) return null;
    const end = this.view.score_shape?.[0] ?? Infinity;    // what follows is padding
    return Array.from(rows, (row) => (row < end ? words?.[row] ?? String(row) : ""));
  }

  /** The variable `name` of step `of`'s function, as it is after step k. */
  lookup(name, k, of = k) {
    const index = this.story.byName.get(`${this.story.trace.source[of]} ${name}`);
    return index === undefined || k < 0 ? null : this.story.at(index, k);
  }

  /** A value in a few words: the selected row's number where there is one, else its shape. */
  glance(label, value) {
    if (value.items) return `(${counted(value.items.length, "value")})`;
    if (!value.data && value.kind !== "p") return value.text ?? "";
    const { shape, data, dtype, unit } = this.numbersOf(value);
    const text = (x) => number(x, !isFloat(dtype));
    if (value.kind === "p") {
      const ends = [...new Set(minMax(data))].map(text).join(" … ");
      return `→ ${unit.replace("elements", `${data.length > 1 ? "elements" : "element"} ${ends}`)}`;
    }
    if (data.length === 1) return text(data[0]);
    const byRow = shape.length === 1 && shape[0] === this.rowCount && this.rowCount > 1 && isFloat(dtype);
    const at = byRow ? this.at.row : -1;
    if (at >= 0) return `${text(data[at])} in row ${this.tile?.rows[at] ?? at}`;
    const on = () => data.reduce((sum, x) => sum + (x ? 1 : 0), 0);
    if (dtype === "i1") return `${grouped(on())} of ${grouped(data.length)} true`;
    const nans = countNaN(value);
    if (nans === data.length) return "NaN";
    const ends = shape.length === 1 && [...new Set(minMax(data))].map(text).join(" … ");
    return ends ? `${ends}${nans ? `, ${grouped(nans)} NaN` : ""}` : times(shape);
  }

  /** A value's numbers and their unit: a dtype, or for a pointer “elements of x”. */
  numbersOf(value) {
    if (value.kind !== "p") return { ...value, unit: value.dtype };
    const buffer = this.story.launchAt(this.step).buffers[value.buffer];
    const { shape, data, dtype } = this.story.trace.value(value.tile);
    return { ...value, shape, data, dtype, unit: `elements of ${buffer ? bufferSymbol(buffer.name, this.view) : "memory"}` };
  }

  /** One number with all its digits; a pointer's as the element it points to. */
  element(x, dtype, unit) {
    if (dtype === "i1") return x ? "true" : "false";
    return unit === dtype ? exact(x, dtype) : unit.replace("elements", `element ${exact(x, dtype)}`);
  }

  // --- in words ---

  /** The step in one sentence, for the selected row. */
  sentence() {
    return sentence(this.story, this.step, this.at.row);
  }

  // --- what the symbols mean ---

  /** The definition of a symbol of the pictures, best by the name of what it stands for; "" for none. */
  meaning(symbol, name = "") {
    const { glossary = {}, terms = {} } = this.annotations;
    const { roles = {} } = this.view;
    const role = () => Object.keys(roles).find((one) => roleSymbol(this.story, one, this.step) === symbol);
    return terms[symbol] ?? glossary[stemOf(name)] ?? glossary[roles[role()]] ?? "";
  }

  // --- under the pointer ---

  /** The tooltip at (x, y) of a panel's canvas, or null. */
  hover(name, x, y, canvas) {
    return this.panels.get(name)?.hover(x, y, canvas) ?? null;
  }

  /** The tooltip of a variable of the function `source` (by default the running one): meaning, shape, bytes, values. */
  hoverName(name, source = this.story.trace.source[this.step]) {
    const index = this.story.byName.get(`${source} ${name}`);
    const value = index === undefined ? null : this.story.at(index, this.step);
    const meaning = this.annotations.glossary?.[name] ?? "";
    if (!value) return meaning ? { title: name, meaning, text: "" } : null;
    const { data, shape, dtype, unit } = this.numbersOf(value);
    if (!data || !shape.length) {
      return { title: `${name}  ${data ? this.element(data[0], dtype, unit) : this.glance(name, value)}`, meaning,
        text: "" };
    }
    const nans = countNaN(value);
    const ends = minMax(data)?.map((x) => exact(x, dtype)).join(" … ");
    const text = [ends, nans && `${nans} NaN`].filter(Boolean).join("  ");
    const size = value.kind === "p" ? "" : `, ${bytes(data.length * itemBytes(dtype))}`;
    const title = `${name}  ${times(shape)} ${unit}${size}`;
    if (shape.length > 2 || !data.length) return { title, meaning, text };
    const [rows, cols] = shape.length === 1 ? [1, shape[0]] : shape;
    const largest = largestFinite(data) || 1;
    return { title, meaning, text, picture: { data, rows, cols, largest, whole: !isFloat(dtype) } };
  }

  // --- a highlighted name ---

  /** The variable under the pointer: in the source, an equation, a list or a picture. */
  nameUnder(event) {
    const named = event.target.closest("[data-name]");
    if (named) return named.dataset.name;
    if (event.target.tagName !== "CANVAS") return null;
    return this.panels.get(event.target.closest(".panel").classList[1])?.nameAt(event.offsetX, event.offsetY) ?? null;
  }

  /** Highlights a variable in source, equation and pictures; null: the pinned one, if any. */
  glow(name) {
    const next = name ?? this.pinned;
    if (next === this.glowing) return;
    this.glowing = next;
    this.showGlow();
  }

  /** Keeps a variable highlighted until it, another or none is chosen. */
  pin(name) {
    this.pinned = name === this.pinned ? null : name;
    this.glow(null);
  }

  showGlow() {
    const stem = stemOf(this.glowing);
    for (const one of this.root.querySelectorAll(".glow:not(.panel)")) one.classList.remove("glow");
    for (const name of stem ? [stem, `${stem}_ptr`] : []) {
      for (const one of this.root.querySelectorAll(`[data-name="${CSS.escape(name)}"]`)) one.classList.add("glow");
    }
    for (const panel of this.panels.values()) panel.glow(stem);
  }
}
