// Idea: the tiles of a beat on chip, the whole matrices in HBM below, what moves between them, and the followed row's
// numbers.

import { beatName, beatSentence, bufferSymbol, roleSymbol } from "../beat_words.js";
import { exact, number, times, bytes } from "../numbers.js";
import { paintTile, placeTiles } from "../pictures/chip.js";
import { write } from "../surface.js";
import { isFloat, itemBytes, product } from "../trace.js";
import { element } from "../words.js";
import { HbmState, nameBuffers, paintBuffer, placeBuffers } from "./hbm.js";
import { Panel } from "./panel.js";

/** The columns on chip, from left to right: the roles of which the latest set is shown, and what stands above. */
const COLUMNS = [
  { roles: ["queries"] }, { roles: ["scores"], above: "keys" }, { roles: ["new_max", "running_max"], state: true },
  { roles: ["rescale"], state: true }, { roles: ["exponentials"] },
  { roles: ["new_sum", "running_sum"], state: true }, { roles: ["output", "accumulator"], above: "values" },
  { roles: ["result"] }, { roles: ["weights"] }, { roles: ["kept"] }, { roles: ["kept_weight"] },
];
/** The same where two pairs are merged: its own, the other, the factors. */
const MERGED = [
  ...["running_max", "running_sum", "other_max", "other_sum", "rescale", "other_rescale"]
    .map((role) => ({ roles: [role], state: true })),
];
// Along one side these have the head's dimensions.
const DEEP = new Set(["queries", "keys", "values", "accumulator"]);
const LOCAL = new Set(["keys", "values", "scores", "exponentials"]);
const LOOKS = {
  scores: ["scores", "scores", true], kept: ["scores", "scores", true], exponentials: ["p", "share", false],
  weights: ["acc", "share", false], kept_weight: ["acc", "share", false], accumulator: ["acc", "output", true],
  output: ["acc", "output", true], running_max: ["max"], new_max: ["max"], other_max: ["max"], running_sum: ["sum"],
  new_sum: ["sum"], other_sum: ["sum"], rescale: ["alpha"], other_rescale: ["alpha"],
};
const HBM_SHARE = 0.34;                                    // of the picture's height
const NARROW_EM = 44, TRAFFIC_EM = 9;                      // of the picture's width

const ease = (t) => t * t * (3 - 2 * t);
const mix = (a, b, t) => a + (b - a) * t;

export class IdeaPanel extends Panel {
  constructor(lane) {
    super(lane, "idea");
    this.head("Idea", "");
    this.cells = document.createElement("canvas");
    this.states = new Map();
    this.kinds = new Map();                                // launch → its columns
    this.strip = this.root.querySelector(".beats");
    this.says = this.root.querySelector(".says");
    this.numbers = this.root.querySelector(".numbers");
    this.strip.addEventListener("click", (event) => {
      const at = event.target.closest("button")?.dataset.at;
      if (at) lane.select({ step: Number(at) });
    });
  }

  get shown() {
    return this.story.beats.length > 0;
  }

  // --- what a beat has on chip ---

  /** The columns of a launch: those whose variables its kernel sets, or which it loads without a role. */
  columns(program) {
    const { story } = this;
    const { launch } = program;
    if (!this.kinds.has(launch)) {
      const { source } = story.trace.header.launches[launch];
      const sets = (role) => story.roles[role]?.has(source);
      const known = sets("other_max") ? MERGED : COLUMNS;
      const made = known.map(({ roles, above, state }) => ({ roles: roles.filter(sets), state,
        above: above && sets(above) ? above : null }));
      this.kinds.set(launch, [...this.loaded(launch), ...made.filter(({ roles }) => roles.length)]);
    }
    return this.kinds.get(launch);
  }

  /** Tiles that a launch loads into variables without a role. */
  loaded(launch) {
    const { story } = this;
    const known = new Set(Object.values(this.view.roles));
    const names = new Set(story.beats.filter(({ kind, program }) => kind === "load"
      && story.programs[program].launch === launch).flatMap(({ begin, end }) => this.accessesOf(begin, end)
      .map(({ name }) => name)).filter((name) => name && !known.has(name)));
    return [...names].map((name) => ({ roles: [], variable: name }));
  }

  /** The loads and stores of steps begin … end − 1: {step, buffer, store, name: the variable}. */
  accessesOf(begin, end) {
    const { access_at: at, access_kind: kind, access_buffer: buffer } = this.story.trace;
    const out = [];
    for (let step = begin; step < end; step++) {
      for (let a = at[step]; a < at[step + 1]; a++) {
        const store = kind[a] === 1;
        const stored = () => /,\s*(\w+)\s*(?:,\s*mask\b|\))/.exec(this.story.text(step).replace(/#.*/, ""))?.[1];
        out.push({ step, buffer: buffer[a], store, name: store ? stored() : this.story.changes(step)[0]?.label });
      }
    }
    return out;
  }

  /** A variable of the running kernel after step k: {value, set}, the step that set it; null if it has none. */
  held(name, k, program) {
    const { story } = this;
    const index = story.byName.get(`${story.launchAt(k).source} ${name}`);
    const change = index === undefined ? -1 : story.lastChange(index, k, program.first);
    if (change < 0) return null;
    const value = story.trace.value(story.historyValue[change]);
    return value.data ? { value, set: story.historyStep[change] } : null;
  }

  /** What stands in a column at step k: {role, variable, value, set}. */
  latest({ roles, variable }, k, program, since = program.first) {
    const own = variable ? [[null, variable]] : roles.map((role) => [role, this.view.roles[role]]);
    const found = own.map(([role, name]) => ({ role, variable: name, ...this.held(name, k, program) }))
      .filter(({ value }) => value);
    const fresh = found.find(({ set, role }) => set >= since || role === "running_max"
      || role === "running_sum" || role === "accumulator");
    return fresh ?? found[0] ?? null;
  }

  /** A matrix of a column: what is drawn of it, and how. */
  item(role, variable, { value, set }, k) {
    const { lane, story } = this;
    const { data, shape, dtype } = value;
    const rows = lane.rowCount;
    const tall = shape.length === 2 ? shape[0] : shape[0] === rows && rows > 1 ? rows : 1;
    const [quantity = "hbm", ramp = "reads", diverging = false] = LOOKS[role] ?? [];
    const range = { max: lane.ranges.max, sum: [0, lane.ranges.sum], alpha: [0, 1] }[quantity];
    const largest = { scores: story.scoreMap?.largest, p: lane.ranges.p, acc: diverging ? Math.max(
      lane.ranges.accumulator, lane.ranges.output) : 1 }[quantity] ?? 1;
    return {
      role, variable, set, data, dtype, rows: tall, cols: data.length / tall, item_bytes: itemBytes(dtype || "f32"),
      symbol: role ? roleSymbol(story, role, k) : bufferSymbol(variable),
      quantity: quantity === "hbm" ? null : quantity, range, state: Boolean(range), turned: role === "keys",
      deep: DEEP.has(role) || (role === "output" && Boolean(story.roles.accumulator)),
      whole: !isFloat(dtype), largest: ramp === "reads" ? this.largestOf(data) : largest, diverging,
      size: ramp === "reads", ramp,
    };
  }

  largestOf(data) {
    let most = 0;
    for (const x of data) if (Math.abs(x) > most && Number.isFinite(x)) most = Math.abs(x);
    return most || 1;
  }

  // --- the beat ---

  render(k) {
    const { lane, story, surface } = this;
    const { beat } = lane;
    this.beat = beat;
    if (!beat || !surface.visible) return;
    const shown = lane.hides ? k : beat.end - 1;
    const program = story.programs[beat.program];
    this.scene = this.sceneOf(beat, shown, program, this.tileBegin(beat));
    this.paint();
    this.at = (x, y) => this.under(x, y);
    this.canvas.setAttribute("aria-label", this.described());
  }

  /** The first step of a beat's tile, or of the merge; undefined outside of them. */
  tileBegin({ program, tile }) {
    return tile < 0 ? undefined : this.story.beats.find((one) => one.program === program && one.tile === tile).begin;
  }

  /** What is drawn: the columns with their items now and before, the moves, HBM's state. */
  sceneOf(beat, k, program, since) {
    const { story } = this;
    const before = Math.max(program.first, beat.begin) - 1;
    const columns = this.columns(program).map((column) => {
      const now = this.latest(column, k, program, since);
      const shape = now ?? this.first(column, program);
      if (!shape) return null;
      const main = this.item(shape.role, shape.variable, shape, k);
      main.here = Boolean(now) && this.stays(main, k, since);
      main.now = now ? main.data : null;
      main.old = before >= program.first ? this.held(main.variable, before, program)?.value.data ?? null : null;
      const over = column.above && this.above(column.above, k, program, since);
      return { main, above: over, state: main.state };
    }).filter(Boolean);
    const { launch } = program;
    if (!this.states.has(launch)) this.states.set(launch, new HbmState(story, launch));
    const moves = this.accessesOf(beat.begin, Math.max(beat.begin, k + 1));
    return { beat, k, program, columns, moves, hbm: this.states.get(launch), launch };
  }

  above(role, k, program, since) {
    const name = this.view.roles[role];
    const now = this.held(name, k, program);
    const shape = now ?? this.first({ roles: [role] }, program);
    if (!shape) return null;
    const item = this.item(role, name, shape, k);
    item.here = Boolean(now) && this.stays(item, k, since);
    item.now = now ? item.data : null;
    return item;
  }

  /** A column's first value in a launch: its shape, before it is set. */
  first({ roles, variable }, { launch }) {
    const { story } = this;
    const { source } = story.trace.header.launches[launch];
    for (const [role, name] of variable ? [[null, variable]] : roles.map((one) => [one, this.view.roles[one]])) {
      const index = story.byName.get(`${source} ${name}`);
      for (let at = story.historyStart[index]; at < story.historyStart[index + 1]; at++) {
        const value = story.trace.value(story.historyValue[at]);
        if (value.data) return { role, variable: name, value, set: story.historyStep[at] };
      }
    }
    return null;
  }

  /** Whether an item is on chip: set in this tile and not dropped, or still read by a later line. */
  stays(item, k, since) {
    const { story, lane, beat } = this;
    if (item.set >= since && !(beat.kind === "drop" && LOCAL.has(item.role))) return true;
    const { trace } = story;
    const { alive } = lane.annotations.sources[trace.source[k]];
    return (alive[trace.line[k]] ?? []).includes(item.variable);
  }

  // --- the picture ---

  paint() {
    const { surface, palette, scene } = this;
    if (!scene || !surface.visible) return;
    const { columns, hbm, k } = scene;
    const em = palette.size;
    const { width, height } = surface;
    this.placeHbm(width, height);
    const { band } = this.hbmPlace;
    const chip = { x: 1, y: 1, width: width - 2, height: height - band - em * 0.9 };
    const ctx = surface.clear();
    ctx.fillStyle = palette.raised;
    ctx.beginPath();
    ctx.roundRect(chip.x, chip.y, chip.width, chip.height, em * 0.6);
    ctx.fill();
    const held = columns.flatMap(({ main, above }) => [main, above]).filter((item) => item?.here);
    const total = held.reduce((sum, { rows, cols, item_bytes: size }) => sum + rows * cols * size, 0);
    const quiet = { size: em * 0.86, font: palette.font, colour: palette.muted };
    write(ctx, `on chip · ${bytes(total)}`, chip.x + em * 0.8, chip.y + em * 1.1, quiet);
    // Where there is little room, only the tiles: the state of the followed row stands below.
    const wide = width >= em * NARROW_EM || columns.every(({ state }) => state);
    const drawn = wide ? columns : columns.filter(({ state }) => !state);
    const inside = { x: em * 0.8, y: em * 0.7, width: width - em * 1.6, height: chip.height - em * 0.7 };
    const { places } = (this.placed = placeTiles(ctx, palette, drawn, inside));
    hbm.advance(k, palette);
    this.paintHbm(ctx, quiet);
    this.paintMoves(ctx, places);
    const t = ease(this.lane.phase);
    for (const place of places) this.paintItem(ctx, place, t);
    this.markRow(ctx, places);
  }

  paintItem(ctx, place, t) {
    const { item } = place;
    const move = this.scene.moves.find(({ name, store }) => !store && name === item.variable);
    const born = item.set >= this.beat.begin && item.now;
    const gone = !item.here && item.now && this.beat.kind === "drop";
    const opacity = item.here ? (born && !item.old?.length && !move ? t : 1) : gone ? 1 - t : 0;
    const { old, now } = item;
    const moving = t < 1 && old?.length === now?.length && born && !move;
    const data = moving ? Array.from(now, (x, i) => (Number.isFinite(x) && Number.isFinite(old[i]) ? mix(old[i], x, t)
      : x)) : now;
    const from = move && t < 1 ? this.boxOf(move) : null;
    const at = from ? { ...place, x: mix(from.x, place.x, t), y: mix(from.y, place.y, t),
      width: mix(from.width, place.width, t), height: mix(from.height, place.height, t) } : place;
    if (from) paintTile(ctx, this.palette, this.cells, place, { data: null, opacity: 0 });
    paintTile(ctx, this.palette, this.cells, at, { data: opacity > 0 ? data : null, opacity,
      note: this.coordinates(item) });
  }

  /** “keys 16–31”, for K and V. */
  coordinates({ role, here }) {
    if (!here || !["keys", "values"].includes(role)) return "";
    const cols = this.story.role("cols", this.scene.k)?.data;
    return cols?.length ? `keys ${cols[0]}–${Math.min(cols[cols.length - 1], (this.view.score_shape?.[1] ?? 1e9) - 1)}`
      : "";
  }

  /** The places of the buffers in HBM's band, and its height. */
  placeHbm(width, height) {
    const { palette, lane, surface, scene } = this;
    const { hbm, launch } = scene;
    const em = palette.size;
    const narrow = width < em * NARROW_EM;
    this.hbmPlace = surface.remember(`hbm ${launch}`, `${lane.stamp} ${width} ${height}`, () => {
      const left = narrow ? 0 : em * TRAFFIC_EM, above = narrow ? em * 2.2 : 0;
      const named = hbm.buffers.map((buffer) => {
        const { rows, cols, matrices } = buffer;
        const shape = times([...(matrices > 1 ? [matrices] : []), rows, cols]);
        return { buffer, name: bufferSymbol(buffer.name), size: palette.smallest ? "" : `${shape} · ${bytes(buffer.bytes)}` };
      });
      const room = { width: width - left - em, height: height * HBM_SHARE - above };
      const drawn = placeBuffers(surface.ctx, palette, named, room, em * 2.4);
      const bottom = Math.max(...drawn.places.map(({ buffer, top, cell }) => top + buffer.height * cell));
      const right = Math.max(...drawn.places.map(({ x, width }) => x + width));
      const band = Math.max(bottom + above + 3, em * 4);
      const from = { x: left + Math.max(0, (room.width - right) / 2), y: height - band + above };
      const places = drawn.places.map((place) => ({ ...place, x: place.x + from.x, top: place.top + from.y }));
      return { ...drawn, places, band };
    });
  }

  paintHbm(ctx, quiet) {
    const { palette, scene, surface } = this;
    const { hbm } = scene;
    const em = palette.size;
    const narrow = surface.width < em * NARROW_EM;
    const { band, places } = this.hbmPlace;
    const y = surface.height - band + em * 0.75;
    write(ctx, "HBM", em * 0.8, y, { ...quiet, weight: 650, colour: palette.quantity.hbm.ink });
    const told = this.traffic();
    if (narrow) write(ctx, told.join(", "), em * 3.4, y, quiet);
    else told.forEach((text, i) => write(ctx, text, em * 0.8, y + em * 1.25 * (i + 1), quiet));
    this.buffers = places;
    nameBuffers(ctx, palette, this.hbmPlace);
    for (const place of this.buffers) {
      place.buffer.touched = null;
      place.buffer.stored = false;
    }
    for (const move of scene.moves) {
      const { buffer } = this.buffers[move.buffer];
      buffer.touched = this.cellsOf(move) ?? buffer.touched;
      buffer.stored = move.store;
    }
    for (const place of this.buffers) {
      paintBuffer(ctx, palette, place);
      this.paintGrid(ctx, place);
    }
    ctx.fillStyle = palette.quantity.hbm.fill;
    for (const move of scene.moves.filter(({ store }) => !store)) {
      const box = this.boxOf(move);
      if (box) ctx.fillRect(box.x + 1, box.y + 1, Math.max(1, box.width - 2), Math.max(1, box.height - 2));
    }
  }

  /** The tiles of a buffer as a grid, by the largest part that one access of the launch touches. */
  paintGrid(ctx, { buffer, x, top, cell }) {
    const { palette } = this;
    const tile = this.tileOf(buffer);
    if (!tile) return;
    ctx.strokeStyle = palette.muted;
    ctx.lineWidth = 0.75;
    ctx.beginPath();
    for (let row = tile.rows; row < buffer.height; row += tile.rows) {
      ctx.moveTo(x, top + row * cell);
      ctx.lineTo(x + buffer.width * cell, top + row * cell);
    }
    for (let col = tile.cols; col < buffer.width; col += tile.cols) {
      ctx.moveTo(x + col * cell, top);
      ctx.lineTo(x + col * cell, top + buffer.height * cell);
    }
    ctx.stroke();
  }

  tileOf(buffer) {
    const { hbm, launch, program } = this.scene;
    if (buffer.tile === undefined && buffer.drawn) {
      const all = this.accessesOf(program.first, program.end).filter((move) => hbm.buffers[move.buffer] === buffer);
      const boxes = all.map((move) => this.cellsOf(move)).filter(Boolean);
      const most = (low, high) => Math.max(0, ...boxes.map((box) => box[high] - box[low] + 1));
      buffer.tile = boxes.length ? { rows: most("top", "bottom"), cols: most("left", "right"), launch } : null;
    }
    return buffer.tile;
  }

  /** The cells of its buffer that a move touches: {top, bottom, left, right}; null for none. */
  cellsOf({ step, buffer: wanted }) {
    const { hbm } = this.scene;
    let box = null;
    hbm.touch(step, (buffer, cell) => {
      if (buffer !== hbm.buffers[wanted]) return;
      const col = cell % buffer.width, row = (cell - col) / buffer.width;
      box ??= { top: row, bottom: row, left: col, right: col };
      box = { top: Math.min(box.top, row), bottom: Math.max(box.bottom, row), left: Math.min(box.left, col),
        right: Math.max(box.right, col) };
    });
    return box;
  }

  /** The part of HBM's picture that a move touches. */
  boxOf(move) {
    const place = this.buffers[move.buffer], cells = this.cellsOf(move);
    if (!cells) return null;
    const { x, top, cell } = place;
    return { x: x + cells.left * cell, y: top + cells.top * cell, width: (cells.right - cells.left + 1) * cell,
      height: (cells.bottom - cells.top + 1) * cell };
  }

  /** A line from each tile in HBM to the same tile on chip, in the way that it moves. */
  paintMoves(ctx, places) {
    const { palette, scene } = this;
    for (const move of scene.moves) {
      const box = this.boxOf(move);
      const place = places.find(({ item }) => item.variable === move.name);
      if (!box || !place) continue;
      const low = { x: box.x + box.width / 2, y: box.y - 2 };
      const main = place.item === place.column.main;
      const under = place.y + place.height + palette.size * (place.column.state || palette.smallest ? 0.3 : 2.5);
      const high = main ? { x: place.x + place.width / 2, y: under } : { x: place.x - 3, y: place.y + place.height };
      const [from, to] = move.store ? [high, low] : [low, high];
      ctx.strokeStyle = ctx.fillStyle = palette.quantity.hbm.fill;
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.moveTo(from.x, from.y);
      ctx.bezierCurveTo(from.x, mix(from.y, to.y, 0.5), to.x, mix(from.y, to.y, 0.5), to.x, to.y);
      ctx.stroke();
      const way = Math.sign(to.y - from.y) * palette.size * 0.55;
      ctx.beginPath();
      ctx.moveTo(to.x, to.y);
      ctx.lineTo(to.x - way * 0.6, to.y - way);
      ctx.lineTo(to.x + way * 0.6, to.y - way);
      ctx.fill();
    }
  }

  /** “12,288 B read” and “0 B written”: the run's traffic so far. */
  traffic() {
    const { story } = this;
    const { k } = this.scene;
    const total = (counted) => story.programs.reduce((sum, { first, end }) => {
      const at = Math.min(end - 1, k);
      if (at < first) return sum;
      const row = counted.subarray(at * story.bufferCount, (at + 1) * story.bufferCount);
      return sum + row.reduce((all, n) => all + n, 0);
    }, 0);
    return [`${bytes(total(story.read))} read`, `${bytes(total(story.written))} written`];
  }

  markRow(ctx, places) {
    const { row, rows } = this.lane.at;
    if (rows < 2) return;
    ctx.strokeStyle = this.palette.text;
    ctx.lineWidth = 1.5;
    for (const { item, x, y, width, height, column } of places) {
      if (item !== column.main || item.rows !== rows || !item.here) continue;
      const high = height / rows;
      ctx.strokeRect(x - 1.5, y + row * high - 0.5, width + 3, high + 1);
    }
  }

  // --- in words ---

  write() {
    const { story, lane, beat, scene } = this;
    if (!beat || !scene || !this.surface.visible) return;
    const text = lane.hides ? lane.sentence() : beatSentence(story, beat, lane.at.row);
    if (this.says.textContent !== text) this.says.textContent = text;
    this.writeStrip();
    this.writeNumbers();
  }

  /** The beats of this tile, or of the stretch between tiles, the current one marked. */
  writeStrip() {
    const { story, beat, strip, lane } = this;
    const own = story.beats.filter(({ program, tile }) => program === beat.program && tile === beat.tile);
    const here = beat.tile < 0 ? own.slice(...this.stretch(own, beat)) : own;
    const key = `${here[0].begin} ${here.length}`;
    if (strip.dataset.key !== key) {
      strip.dataset.key = key;
      const title = element("li", "place", this.placeName(beat));
      strip.replaceChildren(title, ...here.map((one) => {
        const item = element("li"), button = element("button", "", beatName(story, one));
        button.type = "button";
        button.dataset.at = one.at;
        button.dataset.kind = one.kind;
        button.setAttribute("aria-label", beatName(story, one));
        item.append(button);
        return item;
      }));
    }
    strip.querySelectorAll("button").forEach((button, i) => {
      if (here[i].begin === beat.begin) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    strip.classList.toggle("waits", Boolean(lane.waits));
  }

  /** The part of a program's beats outside its tiles that is one stretch. */
  stretch(own, beat) {
    let from = own.indexOf(beat), to = from + 1;
    while (from > 0 && own[from - 1].end === own[from].begin) from--;
    while (to < own.length && own[to].begin === own[to - 1].end) to++;
    return [from, to];
  }

  placeName({ program, tile, begin }) {
    const { story } = this;
    const most = story.beats.findLast((beat) => beat.program === program && beat.tile >= 0)?.tile + 1;
    if (tile >= 0) return `${story.visit(begin) ? "Tile" : "Merge"} ${tile + 1} of ${most}`;
    const first = story.beats.find((beat) => beat.program === program && beat.tile >= 0);
    if (!first) return `Program ${story.programs[program].id[0]}`;
    return begin < first.begin ? "Before" : "After";
  }

  /** The followed row's m, α and ℓ, and what this beat makes of them. */
  writeNumbers() {
    const { lane, numbers, scene } = this;
    const { row, rows } = lane.at;
    const of = (data) => (data?.length === rows ? data[row] : data?.length === 1 ? data[0] : undefined);
    const states = scene.columns.filter(({ state }) => state).map(({ main }) => main);
    const lines = states.map((item) => {
      const now = item.here ? of(item.now) : undefined;
      const old = item.set >= scene.beat.begin ? of(this.previous(item)) : undefined;
      const changed = old !== undefined && !Object.is(old, now) && Number.isFinite(old);
      return { item, text: now === undefined ? "–" : number(now), old: changed ? `${number(old)} → ` : "" };
    });
    const name = rows > 1 || this.view.row_labels ? lane.label("row", row) : "";
    const key = [name, ...lines.map(({ item, text, old }) => `${item.symbol}${old}${text}`)].join("|");
    if (numbers.dataset.key === key) return;
    numbers.dataset.key = key;
    const nodes = lines.flatMap(({ item, text, old }) => {
      const term = element("dt", "", item.symbol), value = element("dd");
      term.dataset.q = value.dataset.q = item.quantity;
      value.append(element("small", "", old), element("b", "", text));
      return [term, value];
    });
    numbers.replaceChildren(...(name && nodes.length ? [element("dt", "of", name)] : []), ...nodes);
  }

  /** What a column of state held before this beat: its sum or maximum, whichever variable had it. */
  previous(item) {
    const { scene, story } = this;
    const running = { new_max: "running_max", new_sum: "running_sum" }[item.role] ?? item.role;
    const k = scene.beat.begin - 1;
    return k < scene.program.first || item.role === "rescale" ? undefined : story.role(running, k)?.data;
  }

  described() {
    const { scene } = this;
    const said = scene.columns.flatMap(({ main, above }) => [main, above]).filter((item) => item?.here)
      .map(({ symbol, rows, cols }) => `${symbol} ${rows} by ${cols}`);
    const moved = scene.moves.map(({ buffer, store }) => `${bufferSymbol(scene.hbm.buffers[buffer].name)} ${store
      ? "written" : "loaded"}`);
    return `On chip: ${said.join(", ") || "nothing"}. HBM: ${moved.join(", ") || "no access"}.`;
  }

  /** A beat is drawn as a movement wherever it is on screen. */
  moves() {
    return this.surface.visible;
  }

  // --- under the pointer ---

  under(x, y) {
    for (const { item, x: left, y: top, width, height, column } of this.placed?.places ?? []) {
      if (!item.here || x < left || x > left + width || y < top || y > top + height) continue;
      const [high, wide] = item.turned ? [item.cols, item.rows] : [item.rows, item.cols];
      const down = Math.min(high - 1, Math.floor(((y - top) / height) * high));
      const across = Math.min(wide - 1, Math.floor(((x - left) / width) * wide));
      const [r, c] = item.turned ? [across, down] : [down, across];
      return { item, r, c, row: item === column.main && item.rows === this.lane.at.rows ? r : this.lane.at.row };
    }
    return null;
  }

  nameAt(x, y) {
    return this.at?.(x, y)?.item.variable ?? null;
  }

  glow() {}

  told({ item, r, c }) {
    const index = item.cols > 1 ? `[${r}, ${c}]` : item.rows > 1 ? `[${r}]` : "";
    const { data, rows, cols, dtype, symbol } = item;
    return `${symbol}${index} = ${exact(data[r * cols + c], dtype)}\n${times([rows, cols])} ${dtype}, ${bytes(
      product([rows, cols]) * item.item_bytes)}`;
  }
}
