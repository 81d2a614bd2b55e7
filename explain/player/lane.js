// One run on screen: its panels, drawn in one pass for a step. Elements are made once per trace; a step only changes what they show.

import { MapState, Surface, isFlat, mapHeight, mapLayout, paintArray, paintMap, paintRows, paintStrip } from "./paint.js";
import { sentence } from "./sentences.js";
import { countNaN } from "./story.js";
import { bytes, dotted, element, elementOf, exact, mathElement, reduced, short, times } from "./words.js";
import { isFloat } from "./trace.js";

const QUANTITIES = {
  running_max: "max", new_max: "max", running_sum: "sum", new_sum: "sum", rescale: "alpha", probabilities: "p", accumulator: "acc", output: "acc", scores: "scores",
};
const CHIPS = 3;                                           // changed values shown beside a line
const ROW_EM = 2.3;                                        // the most height a row of state takes
const SMALL_ARRAYS = 24;                                   // variables drawn as pictures where a kernel has no roles

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

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
    this.hits = {};
    this.$ = (selector) => root.querySelector(selector);
    this.heads = Object.fromEntries(["source", "equation", "map", "strip", "rows", "output", "variables"].map((name) => [name, this.$(`.${name} h4`)]));
    this.surfaces = Object.fromEntries(["map", "strip", "rows", "output"].map((name) => [name, new Surface(this.$(`.${name} canvas`))]));
    this.quantityOf = new Map(Object.entries(this.view.roles ?? {}).filter(([role]) => QUANTITIES[role]).map(([role, variable]) => [variable, QUANTITIES[role]]));
    this.formulas = new Map();
    this.arrange();
    this.buildSource();
    this.buildRanges();
    this.listen();
  }

  // --- once per trace ---

  arrange() {
    const { story } = this;
    const has = (...roles) => roles.some((role) => story.roles[role]);
    this.shows = {
      map: Boolean(story.scoreMap),
      strip: Boolean(story.scoreMap),
      rows: has("running_max", "running_sum", "rescale"),
      output: has("accumulator") || Boolean(story.outputMap),
    };
    this.shows.variables = !this.shows.map && !this.shows.rows && !this.shows.output;
    for (const [name, shown] of Object.entries(this.shows)) this.$(`.${name}`).hidden = !shown;
    this.$(".middle").hidden = !this.shows.map;
    this.$(".side").hidden = !this.shows.rows && !this.shows.output && !this.shows.variables;
    this.root.classList.toggle("sideless", this.$(".middle").hidden || this.$(".side").hidden);
    const map = story.scoreMap ?? story.outputMap;
    this.flat = Boolean(map) && isFlat(map);
    this.root.classList.toggle("flat", this.flat);
    if (this.flat) {
      const widestTile = story.visits.reduce((cols, { begin }) => Math.max(cols, story.tile(begin)?.cols.length ?? 0), 1);
      this.root.style.setProperty("--flat", `${(map.height === 1 ? 4 : Math.min(6, map.height) * 2.8) + (this.view.col_labels ? 4.6 : 1.7)}em`);
      this.root.style.setProperty("--strip", widestTile > 12 ? "10.4em" : "5.6em");
    }
    if (this.shows.map) this.scores = new MapState(story.scoreMap, "scores", true);
    if (this.shows.rows) {
      const most = story.visits.reduce((rows, { begin }) => Math.max(rows, story.rowCount(begin)), 1);
      this.root.style.setProperty("--need", `${3.6 + (most === 1 ? 1.6 : most) * ROW_EM}em`);
    }
    if (story.outputMap) this.outputs = new MapState(story.outputMap, "share", false);
    this.$(".lane-title").textContent = this.view.title ?? "";
  }

  buildSource() {
    const code = this.$(".code");
    this.listings = this.annotations.sources.map(({ lines, first_line }, source) => {
      const listing = element("div", "listing");
      lines.forEach((tokens, i) => {
        const row = element("div", "line");
        const text = element("span", "text");
        const plain = tokens.map((token) => (typeof token === "string" ? token : token[1])).join("");
        text.style.setProperty("--indent", `${plain.length - plain.trimStart().length}ch`);
        for (const token of tokens) text.append(this.tokenElement(token, source));
        row.append(element("span", "no", String(first_line + i)), text);
        listing.append(row);
      });
      listing.hidden = true;
      return listing;
    });
    this.chip = element("span", "chip");
    code.replaceChildren(...this.listings);
    this.lit = [];
  }

  tokenElement(token, source) {
    if (typeof token === "string") return document.createTextNode(token);
    const [kind, text] = token;
    if (kind === "c") return this.commentElement(text);
    const span = element("span", kind, text);
    if (kind === "v") {
      span.dataset.name = text;
      span.dataset.source = source;
      if (this.quantityOf.has(text)) span.dataset.q = this.quantityOf.get(text);
    }
    return span;
  }

  /** A comment; what stands far right in it (a tile's shape) stays at the right of the panel. */
  commentElement(text) {
    const span = element("span", "c");
    const [left, right] = text.split(/\s{3,}(?=\S+(?: \S+)*$)/);
    if (right) span.append(element("span", "shape", right));
    span.append(left);
    return span;
  }

  /** The scales of the pictures: fixed for the whole run, so that a colour or a length keeps its meaning. */
  buildRanges() {
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
    this.maxSpan = low <= high ? [low, high] : [0, 1];
    this.largestSum = finite("new_sum", finite("running_sum", 0, Math.max), Math.max) || 1;
    const size = (a, x) => Math.max(a, Math.abs(x));
    this.largest = { accumulator: finite("accumulator", 0, size) || 1, output: finite("output", 0, size) || 1 };
    this.largestP = Math.max(1, this.story.roles.probabilities ? finite("probabilities", 0, Math.max) : 0);
  }

  listen() {
    for (const name of Object.keys(this.surfaces)) {
      this.$(`.${name} canvas`).addEventListener("click", (event) => {
        const at = this.hits[name]?.(event.offsetX, event.offsetY);
        if (at) this.clicked(name, at);
      });
    }
  }

  clicked(name, at) {
    const tile = this.tile;
    if (name === "strip") return this.select({ ...this.selection, col: at.col });
    if (name !== "map") return this.select({ ...this.selection, row: at.row });
    const row = tile ? Array.from(tile.rows).indexOf(at.row) : -1;
    const col = tile ? Array.from(tile.cols).indexOf(at.col) : -1;
    if (row >= 0 && col >= 0) return this.select({ row, col });
    const { story, group } = this;
    const visit = story.visits.find(({ begin, program }) => {
      const there = group.some((write) => write.program === program) && story.tile(begin);
      return there && Array.from(there.rows).includes(at.row) && Array.from(there.cols).includes(at.col);
    });
    return visit && this.select({ step: visit.begin });
  }

  // --- once per size, once per step ---

  measure() {
    let changed = false;
    for (const [name, surface] of Object.entries(this.surfaces)) if (this.shows[name]) changed = surface.measure() || changed;
    if (!this.shows.map || this.flat || !this.palette) return changed;
    const { canvas } = this.surfaces.map;                  // as high as the map can get at this width, so that its legend is near
    canvas.style.maxHeight = `${mapHeight(this.surfaces.map, this.palette, this.story.scoreMap, this.view.row_labels, this.view.col_labels)}px`;
    return this.surfaces.map.measure() || changed;
  }

  render(k, palette, stamp) {
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
    this.renderSource(k);
    this.renderEquation(k);
    if (this.shows.map) this.renderMap(k);
    if (this.shows.strip) this.renderStrip(k);
    if (this.shows.rows) this.renderRows(k);
    if (this.shows.output) this.renderOutput(k);
    if (this.shows.variables) this.renderVariables(k);
  }

  /** What a panel will show, while it has nothing to show. */
  hint(name, words) {
    const { dataset } = this.$(`.${name}`);
    if (dataset.hint !== words) dataset.hint = words;
  }

  head(name, title, quantity, note = "", alarm = "") {
    const parts = [title, note, alarm].join("|");
    if (this.heads[name].dataset.shown === parts) return;
    this.heads[name].dataset.shown = parts;
    const bold = element("b", "", title);
    if (quantity) bold.dataset.q = quantity;
    this.heads[name].replaceChildren(bold, element("span", "", note), ...(alarm ? [element("em", "", alarm)] : []));
  }

  /** The name of the selected row, column or both, as the axes have it. */
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

  renderSource(k) {
    const { trace, sources } = this.story;
    const source = trace.source[k], line = trace.line[k];
    const { file, function: name, first_line, spans } = sources[source];
    this.head("source", name, "", trace.depth[k] ? `helper, called at depth ${trace.depth[k]} · ${file}` : file);
    this.listings.forEach((listing, i) => (listing.hidden = i !== source));
    for (const row of this.lit) row.classList.remove("now");
    this.lit.forEach((row) => row.removeAttribute("aria-current"));
    const rows = this.listings[source].children;
    const last = spans?.[line] ?? line;
    this.lit = Array.from({ length: last - line + 1 }, (_, i) => rows[line - first_line + i]).filter(Boolean);
    this.lit.forEach((row) => row.classList.add("now"));
    const [here] = this.lit;
    if (!here) return;
    here.setAttribute("aria-current", "step");
    this.placeChip(k, this.lit.at(-1));
    if (this.moved) this.scrollTo(here, this.lit.at(-1));
  }

  placeChip(k, row) {
    const changes = this.story.changes(k);
    this.chip.hidden = !changes.length;
    if (!changes.length) return;
    const called = k === this.story.frameStart[k];
    const shown = called ? [] : changes.slice(0, CHIPS);
    this.chip.replaceChildren(...shown.map(({ label, value }) => {
      const span = element("span");
      const name = element("b", "", label);
      if (this.quantityOf.has(label)) name.dataset.q = this.quantityOf.get(label);
      span.append(name, ` ${this.glance(label, value)}`);
      return span;
    }));
    const rest = changes.length - shown.length;
    if (rest) this.chip.append(element("span", "", called ? plural(rest, "argument") : `and ${rest} more`));
    row.append(this.chip);
    const text = row.querySelector(".text");
    const ends = text.lastChild ? lastLineEnd(text) : { right: 0 };
    this.chip.classList.toggle("below", ends.right + 8 > this.chip.getBoundingClientRect().left);
  }

  scrollTo(first, last) {
    const code = this.$(".code");
    const top = first.offsetTop, bottom = last.offsetTop + last.offsetHeight;
    const margin = code.clientHeight * 0.28;
    if (top < code.scrollTop + margin * 0.6 || bottom > code.scrollTop + code.clientHeight - margin) code.scrollTop = top - margin;
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

  // --- the equation ---

  renderEquation(k) {
    const { trace } = this.story;
    const source = trace.source[k], line = trace.line[k];
    const equation = this.annotations.sources[source].equations[line];
    const changed = equation && this.story.changes(k).find(({ label }) => label === equation.variable);
    const box = this.$(".formula");
    if (!changed) {
      this.head("equation", "What this line does", "", `line ${line}`);
      const said = this.describe(k);
      if (box.dataset.shown !== said) box.replaceChildren(element("p", "note", (box.dataset.shown = said)));
      return;
    }
    const key = `${source} ${line}`;
    if (!this.formulas.has(key)) this.formulas.set(key, this.buildFormula(equation));
    const formula = this.formulas.get(key);
    if (box.dataset.shown !== key) box.replaceChildren(formula.root);
    box.dataset.shown = key;
    const where = this.fill(formula, changed, k);
    this.head("equation", "What this line does", "", where ? `line ${line} · for ${where}` : `line ${line}`);
  }

  buildFormula({ plain, numbers }) {
    const colourOf = (variable) => this.quantityOf.get(variable);
    const root = element("div", "formulae");
    const places = [];
    const wrap = (tree, className) => {
      const row = element("div", className);
      row.append(mathElement(["math", tree], colourOf, places));
      return row;
    };
    root.append(wrap(plain, "plain"));
    const worked = numbers ? wrap(numbers, "worked") : null;
    if (worked) root.append(worked);
    return { root, places, worked };
  }

  /** Puts this row's numbers into the equation; says for which element they are, "" when there are none. */
  fill({ places, worked }, { label, value }, k) {
    if (!worked) return "";
    const context = { ...this.at, isOutput: this.quantityOf.get(label) === "acc" && value.shape?.[1] !== this.colCount };
    const tiled = value.shape?.length === 2 && value.shape[0] === this.rowCount && (this.quantityOf.has(label) || value.shape[1] === this.colCount);
    const readable = value.shape && (value.shape.length === 0 || tiled || (value.shape.length === 1 && isFloat(value.dtype)));
    worked.hidden = !readable;
    if (!readable) return "";
    for (const { slot, place, otherwise } of places) {
      const text = this.number(place, k, context) ?? otherwise;
      if (slot.textContent !== text) slot.textContent = text;
    }
    const row = this.rowCount > 1 || this.view.row_labels ? this.label("row", this.at.row) : "";
    if (value.shape.length === 2) return `${row ? `${row}, ` : ""}${context.isOutput ? `dimension ${this.at.dim}` : this.label("column", this.at.col)}`;
    if (value.shape.length === 1 && value.shape[0] !== this.rowCount) return this.label("column", this.at.col);
    return value.shape.length || (this.rowCount === 1 && this.quantityOf.has(label)) ? row : "";
  }

  number(place, k, context) {
    const [how, ...parts] = place.split("|");
    const current = (name) => this.lookup(name, k);
    if (how === "pid") return String(this.story.programs[this.story.programAt[k]].id[Number(parts[0])]);
    if (how === "dot") {
      const product = dotted(current(parts[0]), current(parts[1]), parts[2] === "T", context.row, context.isOutput ? context.dim : context.col);
      return product === null ? null : short(product);
    }
    if (parts.length) {
      const result = reduced(current(parts[0]), how, parts[1], context);
      return result === null ? null : short(result);
    }
    const [name, when, hint] = place.split(":");
    const value = this.lookup(name, when === "old" ? k - 1 : k, k);
    const at = elementOf(value, hint || undefined, { ...context, isOutput: context.isOutput && this.quantityOf.get(name) === "acc" });
    if (at < 0) return null;
    return value.dtype === "i1" ? (value.data[at] ? "true" : "false") : short(value.data[at], !isFloat(value.dtype));
  }

  /** The variable `name` of step `of`'s function, as it is after step k. */
  lookup(name, k, of = k) {
    const index = this.story.byName.get(`${this.story.trace.source[of]} ${name}`);
    return index === undefined || k < 0 ? null : this.story.at(index, k);
  }

  /** A line that is no equation, in words: what it moved. */
  describe(k) {
    const { story } = this;
    const moved = story.accesses(k).map(({ kind, buffer, bytes: n }) => {
      const { name } = story.launchAt(k).buffers[buffer];
      return `${["reads", "writes", "updates"][kind]} ${bytes(n)} ${kind === 0 ? "from" : kind === 1 ? "to" : "in"} ${name}`;
    });
    if (moved.length) return `${moved.join(", ")} (HBM)`;
    const changed = story.changes(k);
    if (k === story.frameStart[k]) return story.trace.depth[k] ? "a helper begins" : `program (${story.programs[story.programAt[k]].id.join(", ")}) begins`;
    if (!changed.length) return story.branch(k) ?? "no variable changes";
    return changed.slice(0, CHIPS).map(({ label, value }) => `${label} is ${this.glance(label, value)}`).join(" · ");
  }

  // --- pictures ---

  renderMap(k) {
    const { story, palette } = this;
    const map = story.scoreMap;
    this.group = story.mapGroup(map, k);
    this.scores.advance(this.group, k, palette);
    const [down, across] = (this.view.axes ?? ["", ""]).map((word) => word && ` ${word}`);
    const whole = `${map.height}${down} × ${map.width}${across}`;
    const shape = this.tile ? `${whole}, tile ${this.tile.rows.length} × ${this.tile.cols.length}` : whole;
    const { nans } = this.scores;
    this.head("map", `scores ${this.view.roles.scores}`, "scores", shape, nans ? `${nans} NaN` : "");
    this.hits.map = paintMap(this.surfaces.map, palette, this.scores, {
      group: this.group, tile: this.tile, selected: this.at.row, rowLabels: this.view.row_labels, colLabels: this.view.col_labels, stamp: this.stamp,
    });
    this.renderLegend(map, palette);
    this.surfaces.map.canvas.setAttribute("aria-label", this.tile
      ? `Scores. The current tile is rows ${this.tile.rows[0]} to ${this.tile.rows.at?.(-1)}, columns ${this.tile.cols[0]} to ${this.tile.cols.at?.(-1)}.` : "Scores.");
  }

  renderLegend(map, palette) {
    if (this.legendOf === this.stamp) return;
    this.legendOf = this.stamp;
    const key = (className, label, fill) => {
      const item = element("li", className);
      const swatch = element("i");
      if (fill) swatch.style.background = fill;
      item.append(swatch, label);
      return item;
    };
    const stops = [0, 85, 170, 255, 340, 425, 510].map((i) => palette.css(palette.scores[i]));
    const scale = element("li", "scale");
    const bar = element("i");
    bar.style.background = `linear-gradient(90deg, ${stops})`;
    scale.append(short(-map.largest), bar, short(map.largest));
    const onMap = ({ rows, cols }, i) => rows[Math.floor(i / cols.length)] < map.height && cols[i % cols.length] < map.width;
    const masked = map.groups.some((group) => group.some((write) => write.data.some((x, i) => x === -Infinity && onMap(write, i))));
    const skips = map.groups.some((group) => this.scores.skipped(group));
    const { row_labels: rowWords, col_labels: colWords } = this.view;
    const { rowEvery, colEvery } = mapLayout(this.surfaces.map, palette, map, rowWords, colWords);
    const named = [rowWords && rowEvery > 1 && `1 row in ${rowEvery}`, colWords && colEvery > 1 && `1 column in ${colEvery}`].filter(Boolean);
    this.$(".legend").replaceChildren(scale, ...(masked ? [key("", "−∞ (masked)", palette.css(palette.masked))] : []), ...(skips ? [key("skipped", "skipped by the mask")] : []), ...(named.length ? [element("li", "", `${named.join(", ")} named`)] : []));
  }

  /** A role's values along the selected row of the tile, if it was set in this visit and lies on it. */
  alongRow(role, k) {
    if (!this.visit || this.story.changedAt(role, this.visit.begin, k) < 0) return null;
    const value = this.story.role(role, k);
    if (value?.data?.length !== this.rowCount * this.colCount) return null;
    return value.data.slice(this.at.row * this.colCount, (this.at.row + 1) * this.colCount);
  }

  renderStrip(k) {
    const { view, palette, story } = this;
    const blank = new Array(this.colCount).fill(undefined);
    const line = (role, quantity, ramp, largest, diverging) => {
      if (!story.roles[role]) return null;
      const data = this.tile ? this.alongRow(role, k) : null;
      return { label: view.roles[role], quantity, ramp, largest, diverging, data: data ?? blank, known: Boolean(data) };
    };
    this.lines = [
      line("scores", "scores", "scores", story.scoreMap.largest, true),
      line("probabilities", "p", "share", this.largestP, false),
      story.outputMap && line("output", "acc", "share", story.outputMap.largest, false),
    ].filter(Boolean);
    const title = !this.tile ? "no tile" : this.rowCount > 1 ? `row ${this.tile.rows[this.at.row]} of this tile` : "this tile";
    this.head("strip", title, "", this.tile && this.view.row_labels ? `“${this.view.row_labels[this.tile.rows[this.at.row]] ?? "–"}”` : "");
    const known = this.lines.filter((l) => l.known);
    this.hint("strip", known.length ? "" : "one row of the current tile, number by number");
    const labels = this.tile ? Array.from(this.tile.cols, (col) => view.col_labels?.[col] ?? String(col)) : null;
    this.hits.strip = paintStrip(this.surfaces.strip, palette, { lines: known, labels, selected: this.at.col });
    this.known = known;
    this.surfaces.strip.canvas.setAttribute("aria-label", `${title}: ${known.map(({ label, data }) => `${label} ${Array.from(data.slice(0, 16), (x) => short(x)).join(" ")}`).join("; ")}`);
  }

  /** The state of the current rows: as this tile found it, and as it is after the update, if that has been made. */
  rowState(k) {
    const { story } = this;
    const has = (...roles) => roles.some((role) => story.roles[role]);
    const start = story.programs[story.programAt[k]].first;
    const since = Math.max(start, story.changedAt("rows", start, k));
    const begin = this.visit?.begin ?? k + 1;
    const read = (role, at) => (story.changedAt(role, since, at) >= 0 ? story.role(role, at)?.data : undefined);
    const updated = (role, from) => (story.changedAt(role, from, k) >= 0 ? story.firstChange(role, from) : -1);
    const alpha = updated("rescale", begin);
    // A sum that was set before alpha was fetched, not updated.
    const update = (next, running, from) => {
      const role = story.roles[next] ? next : running;
      const at = updated(role, from);
      return at < 0 ? { before: read(running, k) } : { before: read(running, at - 1), now: read(role, k) };
    };
    return {
      rows: this.rowCount,
      labels: this.rowLabels(),
      max: has("running_max", "new_max") ? update("new_max", "running_max", begin) : null,
      alpha: has("rescale") ? (alpha < 0 ? new Array(this.rowCount) : read("rescale", k)) : null,
      sum: has("running_sum") ? update("new_sum", "running_sum", has("rescale") ? (alpha < 0 ? k + 1 : alpha + 1) : begin) : null,
      span: this.maxSpan,
      largestSum: this.largestSum,
    };
  }

  renderRows(k) {
    this.state = this.rowState(k);
    const { max: m, sum: l } = this.state;
    const known = [m?.before, m?.now, l?.before, l?.now].some(Boolean);
    this.head("rows", "running state", "", !known ? "not set yet" : this.visit ? "before this tile → now" : "");
    const parts = [m && "maximum", this.state.alpha && "rescale factor", l && "sum"].filter(Boolean);
    this.hint("rows", known ? "" : `each row's running ${parts.join(", ")}`);
    this.surfaces.rows.clear();
    this.hits.rows = !known ? null : paintRows(this.surfaces.rows, this.palette, this.state, this.at.row);
    const { max, alpha, sum } = this.state;
    const read = (name, value) => (value === undefined ? "" : `${name} ${short(value)}; `);
    const r = this.at.row;
    this.surfaces.rows.canvas.setAttribute("aria-label", `Row ${r}: ${read("maximum", (max?.now ?? max?.before)?.[r])}${read("rescale factor", alpha?.[r])}${read("sum", (sum?.now ?? sum?.before)?.[r])}`);
  }

  renderOutput(k) {
    const { story, view, palette } = this;
    if (story.outputMap && !story.roles.accumulator) {
      const group = story.mapGroup(story.outputMap, k);
      this.outputs.advance(group, k, palette);
      const row = this.tile?.rows[this.at.row] ?? story.tile(k)?.rows[this.at.row] ?? 0;
      let total = 0, done = 0;
      for (let col = 0; col < story.outputMap.width; col++) {
        const cell = row * story.outputMap.width + col;
        if (this.outputs.done[cell]) done++, (total += this.outputs.values[cell]);
      }
      this.head("output", `output ${view.roles.output}`, "acc", done ? `row ${row} adds up to ${short(total)}` : "nothing written yet", total !== total ? "NaN" : "");
      this.hits.output = paintMap(this.surfaces.output, palette, this.outputs, { group, tile: this.flat ? this.tile : null, selected: this.at.row, rowLabels: null, colLabels: this.flat ? view.col_labels : null, stamp: this.stamp });
      return;
    }
    const finished = story.changedAt("output", story.frameStart[k], k) > story.changedAt("accumulator", story.frameStart[k], k);
    const role = finished && story.role("output", k)?.shape?.length === 2 ? "output" : "accumulator";
    const value = story.role(role, k);
    this.array = value?.shape?.length === 2 ? value : null;
    const nans = countNaN(value);
    this.head("output", `${role === "output" ? "output" : "accumulator"} ${view.roles[role]}`, "acc", this.array ? times(value.shape) : "not set yet", nans ? `${nans} NaN` : "");
    this.hint("output", this.array ? "" : "the unfinished output, row by row");
    if (!this.array) {
      this.surfaces.output.clear();
      this.hits.output = null;
      return;
    }
    const [rows, cols] = value.shape;
    this.hits.output = paintArray(this.surfaces.output, palette, { data: value.data, rows, cols, ramp: "output", largest: this.largest[role], selected: rows === this.rowCount ? this.at.row : -1 });
    this.surfaces.output.canvas.setAttribute("aria-label", `${view.roles[role]}, ${rows} rows of ${cols} values.`);
  }

  /** Every variable of the running function: numbers as numbers, arrays as small pictures. */
  renderVariables(k) {
    const { story } = this;
    const here = story.trace.source[k];
    const live = [];
    story.trace.header.names.forEach(([source, label], name) => {
      const change = source === here ? story.lastChange(name, k, story.frameStart[k]) : -1;
      if (change >= 0) live.push({ name, label, step: story.historyStep[change], index: story.historyValue[change] });
    });
    live.sort((a, b) => b.step - a.step).splice(SMALL_ARRAYS);
    this.head("variables", "variables", "", "latest change first");
    this.items ??= new Map();
    const fresh = [];
    const items = live.map(({ name, label, step, index }) => {
      const key = `${index} ${this.stamp}`;
      let item = this.items.get(name);
      if (item?.dataset.key !== key) {
        item = this.variable(label, story.trace.value(index), fresh);
        item.dataset.key = key;
        this.items.set(name, item);
      }
      item.classList.toggle("changed", step === k);
      return item;
    });
    this.$(".variables ul").replaceChildren(...items);
    for (const paint of fresh) paint();
  }

  /** A variable's line; where it is drawn, `fresh` gets what draws it once it is on the page. */
  variable(label, value, fresh) {
    const { shape, data, dtype } = value;
    const item = element("li");
    const title = element("span", "name", label);
    if (shape?.length) title.append(element("small", "", `${times(shape)} ${dtype}`));
    item.append(title);
    if (!data || shape.length === 0 || shape.length > 2 || data.length === 0) {
      item.append(element("span", "value", this.glance(label, value)));
      return item;
    }
    const [rows, cols] = shape.length === 1 ? [1, shape[0]] : shape;
    const canvas = element("canvas");
    canvas.style.height = `${Math.min(120, Math.max(20, rows * Math.min(20, 220 / cols)))}px`;
    item.append(canvas);
    let largest = 0;
    for (const x of data) if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
    fresh.push(() => {
      const surface = new Surface(canvas);
      surface.measure();
      paintArray(surface, this.palette, { data, rows, cols, ramp: "scores", largest: largest || 1, whole: !isFloat(dtype) });
    });
    return item;
  }

  // --- under the pointer ---

  /** What a tooltip says at (x, y) of a panel's canvas, or null. */
  hover(name, x, y) {
    const at = this.hits[name]?.(x, y);
    if (!at) return null;
    const word = (labels, i) => (labels?.[i] === undefined ? String(i) : `${i} “${labels[i]}”`);
    const { view, tile } = this;
    const cell = (map, values, done, title, dtype) => {
      const i = at.row * map.width + at.col;
      const skipped = this.scores?.skipped(this.group)?.holds(at.row, at.col);
      return `row ${word(view.row_labels, at.row)}, column ${word(view.col_labels, at.col)}\n${done[i] ? `${title} = ${exact(values[i], dtype)}` : skipped ? "skipped: the mask hides all of it" : "not computed yet"}`;
    };
    if (name === "map") return cell(this.story.scoreMap, this.scores.values, this.scores.done, view.roles.scores, this.group[0].dtype);
    if (name === "strip") return `column ${word(view.col_labels, tile?.cols[at.col])}\n${this.known.map((line) => `${line.label} = ${exact(line.data[at.col], "f32")}`).join("\n")}`;
    if (name === "rows") {
      const { max, alpha, sum, labels } = this.state;
      const row = [`row ${labels?.[at.row] ?? at.row}`];
      const change = (title, before, after) => row.push(`${title}  ${before === undefined ? "" : exact(before, "f32")}${after === undefined ? "" : ` → ${exact(after, "f32")}`}`);
      if (max) change("max", max.before?.[at.row], max.now?.[at.row]);
      if (alpha && alpha[at.row] !== undefined) row.push(`α  ${exact(alpha[at.row], "f32")}`);
      if (sum) change("sum", sum.before?.[at.row], sum.now?.[at.row]);
      return row.join("\n");
    }
    if (this.story.outputMap && !this.story.roles.accumulator) return cell(this.story.outputMap, this.outputs.values, this.outputs.done, view.roles.output, "f32");
    return this.array ? `row ${word(view.row_labels, tile?.rows[at.row] ?? at.row)}, dimension ${at.col}\n${exact(this.array.data[at.row * this.array.shape[1] + at.col], this.array.dtype)}` : null;
  }

  /** What a tooltip says of a variable in the source. */
  hoverName(name, source) {
    const index = this.story.byName.get(`${source} ${name}`);
    const value = index === undefined ? null : this.story.at(index, this.step);
    if (!value) return null;
    if (!value.data || !value.shape.length) return `${name} ${value.data ? exact(value.data[0], value.dtype) : this.glance(name, value)}`;
    let low = Infinity, high = -Infinity;
    for (const x of value.data) if (x === x) (low = Math.min(low, x)), (high = Math.max(high, x));
    const nans = countNaN(value);
    const range = low <= high ? `${exact(low, value.dtype)} … ${exact(high, value.dtype)}` : "";
    return `${name}  ${times(value.shape)} ${value.dtype}\n${range}${nans ? `  ${nans} NaN` : ""}`;
  }

  /** The step in one plain sentence, for the selected row. */
  sentence() {
    return sentence(this.story, this.step, this.at.row);
  }
}

/** The right end of an element's last line of text, in the window. */
function lastLineEnd(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  const boxes = range.getClientRects();
  const last = boxes[boxes.length - 1];
  let right = last?.right ?? 0;
  for (const box of boxes) if (last && Math.abs(box.bottom - last.bottom) < 4) right = Math.max(right, box.right);
  return { right };
}
