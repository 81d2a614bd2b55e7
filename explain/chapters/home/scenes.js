// The opening's scenes. Each draws its picture at a moment `p` of its time, 0 to 1, from the packet alone; nothing is
// kept between two moments.

import { format } from "../../player/numbers.js";
import { box } from "./layouts.js";

const fixed = format(1, 4);                                // 7.096
const between = (a, b, t) => a + (b - a) * t;
const clamped = (t) => Math.max(0, Math.min(1, t));
/** How far a motion from `a` to `b` of a scene's time has come, straight or eased. */
const straight = (p, a, b) => clamped((p - a) / (b - a));
const eased = (p, a, b) => ((t) => t * t * (3 - 2 * t))(straight(p, a, b));
const moving = (from, to, t) =>
  Object.fromEntries(Object.keys(to).map((side) => [side, between(from[side], to[side], t)]));
/** Part i of n of a matrix in HBM: one tile's rows. */
const band = ({ x, y, w, h }, i, n) => box(x, y + (h * i) / n, w, h / n);

// --- what every scene stands on: HBM below, the chip above ---

const NAMES = { q: "Q", k: "K", v: "V", o: "O" };
const ROLES = { q: "queries", k: "keys", v: "values", o: "output" };

/** HBM with Q, K, V and O: how much of them is there, as shares of their rows; `asides` are words beside them. Of a
 * longer run (`longer`) they have no numbers. */
function hbm(pen, data, { q = 1, k = q, v = q, o = [], empty = false, asides = {}, longer = false } = {}) {
  const { layout } = pen, there = { q, k, v };
  pen.box(layout.hbm, null, { stroke: pen.palette.line, radius: 12 });
  pen.text("HBM", ...layout.title, { size: layout.small, weight: 600, ink: "hbm" });
  pen.text("GPU memory", ...layout.aside, { size: layout.small, ink: "muted" });
  if (empty) return;
  for (const [name, label] of Object.entries(NAMES)) {
    const at = layout.memory[name], [x, y, under, low] = layout.beside(at);
    if (longer) pen.box(at, pen.fill(PARTS[name]));
    else pen.empty(at);
    pen.text(label, x, y, { weight: 600 });
    if (asides[name]) pen.text(asides[name], under, low, { size: layout.small, ink: "muted" });
    if (longer) continue;
    const shown = Math.round(data.rows * (there[name] ?? 0));
    pen.cells(name, { ...at, h: (at.h * shown) / data.rows }, { rows: [0, shown] });
    if (name !== "o") continue;
    for (const i of o) pen.cells("o", band(at, i, data.programs), { rows: data.ownRows(i) });
  }
}

function chip(pen) {
  pen.box(pen.layout.chip, pen.palette["code-ground"], { radius: 12 });
  pen.text("on chip", ...pen.layout.onChip, { size: pen.layout.small, weight: 600, ink: "slate" });
}

// --- the problem ---

/** The words flow into lines; each becomes a row of Q, K and V. */
function sentence(pen, data, p) {
  const { layout } = pen, { words, token, leading } = layout;
  const made = straight(p, 0.04, 0.6), now = Math.floor(made * data.rows);
  hbm(pen, data, { q: made, asides: ROLES });
  for (const name of now < data.rows ? ["q", "k", "v"] : []) {       // the rows that this word becomes
    const { x, y, w, h } = band(layout.memory[name], now, data.rows);
    pen.box(box(x - 4, y - 3, w + 8, h + 6), null, { stroke: pen.palette.text, radius: 3 });
  }
  const small = { size: layout.small, ink: "muted" };
  ["amber: above 0", "blue-grey: below 0"].forEach((text, i) => pen.text(text, ...layout.colours[i], small));
  const gap = pen.width(" ", token);
  let { x, y } = words;
  data.tokens.forEach((text, i) => {
    const width = pen.width(text, token, 400);
    if (x + width > layout.width - words.x && /\w/.test(text)) {   // no line begins with a comma
      x = words.x;
      y += leading;
    }
    const mark = box(x - 5, y - leading * 0.42, width + 10, leading * 0.84);
    if (i === now) pen.box(mark, pen.palette.raised, { radius: 5 });
    pen.faded(i <= now ? 1 : 0.45, () => pen.text(text, x, y, { size: token, ink: i <= now ? "text" : "muted" }));
    x += width + gap;
  });
  pen.text("[CLS] and [SEP] mark the beginning and the end.", words.x, y + leading, small);
}

/** Row by row, S grows from Q and Kᵀ. */
function scores(pen, data, p) {
  const { layout } = pen, { q, k, s, said } = layout.whole;
  const rows = Math.round(data.rows * straight(p, 0.06, 0.8));
  hbm(pen, data, { asides: ROLES });
  chip(pen);
  pen.cells("q", q);
  pen.cells("kt", k);
  pen.box(s, null, { stroke: pen.palette.line });
  pen.cells("s", { ...s, h: (s.h * rows) / data.rows }, { rows: [0, rows] });
  if (rows > 0 && rows < data.rows) {
    const y = s.y + (s.h * (rows - 1)) / data.rows;
    pen.box(box(q.x - 3, y - 1, s.x + s.w - q.x + 6, s.h / data.rows + 2), null, { stroke: pen.palette.text });
  }
  pen.text("Q", q.x - 12, q.y + 14, { weight: 600, align: "right" });
  pen.text("Kᵀ", k.x - 12, k.y + k.h / 2, { weight: 600, align: "right" });
  pen.text("S = QKᵀ / √d", said[0], said[1], { size: layout.large, weight: 600, ink: "scores" });
  pen.text(`${data.rows} × ${data.rows}`, said[2], said[3], { ink: "muted" });
  if (layout.whole.dot) pen.faded(eased(p, 0.3, 0.42), () => oneScore(pen, data));
}

/** The followed row's largest score: its query times its key, number by number, and their sum. */
function oneScore(pen, data) {
  const { layout } = pen, { q, k, s, dot } = layout.whole, { row, dims, arrays, tokens } = data;
  const rowScores = arrays.s.subarray(row * data.rows, (row + 1) * data.rows), score = Math.max(...rowScores);
  const key = rowScores.indexOf(score), [of, by] = [[arrays.q, row], [arrays.k, key]].map(([values, i]) =>
    [...values.subarray(i * dims, (i + 1) * dims)],
  );
  const products = of.map((value, d) => value * by[d]), [x, y] = [key / data.rows, row / data.rows];
  const mark = (at) => pen.box(at, null, { stroke: pen.palette.text });
  mark(box(q.x - 2, q.y + q.h * y - 2, q.w + 4, q.h / data.rows + 4));
  mark(box(k.x + k.w * x - 2, k.y - 2, k.w / data.rows + 4, k.h + 4));
  mark(box(s.x + s.w * x - 3, s.y + s.h * y - 3, s.w / data.rows + 6, s.h / data.rows + 6));
  pen.text(`one score: “${tokens[row]}” and “${tokens[key]}”`, layout.row.x, layout.row.title, { weight: 600 });
  const most = Math.max(...[...of, ...by].map(Math.abs)), largest = Math.max(...products.map(Math.abs));
  const lines = [["q", "query", of, most], ["k", "key", by, most], ["q × k", "", products, largest]];
  lines.forEach(([name, word, values, end], i) => {
    const at = [dot.q, dot.k, dot.each][i], ink = i < 2 ? "hbm" : "scores";
    symbol(pen, name, word, at, ink);
    bars(pen, values, at, end, ink);
  });
  const sum = [["sum ÷ √d =", "text"], [fixed(score), "scores"]];
  sumOf(pen, sum, dot.sum);
}

/** S and all the shared memory, as squares. Their areas are their bytes. */
function scale(pen, data, p) {
  const { layout, palette } = pen, { x, y, chip: side, most, said, step } = layout.scale;
  pen.computed = true;
  const start = data.sizes.findIndex(({ bytes }) => 8 * bytes > data.chip.bytes);   // S can be seen beside the chip
  const at = data.chosen ?? between(start, data.sizes.length - 1, eased(p, 0.06, 0.86));
  const shown = data.sizes[(data.shown = Math.round(at))];
  const bytes = data.sizes[0].bytes * 4 ** (Math.floor(at) + eased(at % 1, 0.3, 0.7));
  const perByte = Math.min(side / Math.sqrt(data.chip.bytes), most / Math.sqrt(bytes));
  const square = (size) => box(x, y - perByte * Math.sqrt(size), perByte * Math.sqrt(size), perByte * Math.sqrt(size));
  const [chipAt, sAt] = [square(data.chip.bytes), square(bytes)];
  const drawChip = () => pen.box(chipAt, palette.raised, { stroke: palette.muted });
  if (bytes < data.chip.bytes) drawChip();
  pen.box(sAt, pen.fill("scores"));
  if (bytes >= data.chip.bytes) drawChip();
  const larger = bytes >= data.chip.bytes, onS = pen.onFill("scores");
  named(`S  ${shown.s}`, sAt, layout.large, larger ? layout.large : sAt.h / 2, onS, "scores");
  named(`shared memory  ${data.chip.text}`, chipAt, layout.label, layout.label * 1.2, "text", larger ? onS : "text");

  /** A square's caption: inside it, right beside one that is too small, or above one that the chip covers. */
  function named(text, at, size, down, within, beside) {
    const covered = at === sAt && larger && sAt.h - chipAt.h < 2 * size;
    const fits = pen.width(text, size, 600) + size < at.w && !covered;
    const outside = covered ? [at.x, at.y - size] : [at.x + at.w + 8, at.y + at.h - size * 0.6];
    const [left, top] = fits ? [at.x + size / 2, at.y + down] : outside;
    pen.text(text, left, Math.min(top, y - size * 0.6), { size, weight: 600, ink: fits ? within : beside });
  }

  const fit = shown.bytes > data.chip.bytes ? `S is ${shown.chips} all the shared memory` : "S fits into the shared memory";
  pen.text(fit, said[0], said[1], { size: layout.large, weight: 600 });
  const each = `S: N × N numbers of ${data.item} bytes, ${data.formats.computed}`;
  pen.text(each, said[0], said[1] + step, { ink: "muted" });
  pen.text(`shared memory: of all ${data.chip.sms} SMs of an ${data.chip.name}`, said[0], said[1] + 2 * step, { ink: "muted" });
}

const TRIPS = [["S to HBM", "s"], ["S back", "s"], ["P to HBM", "p"], ["P back", "p"]];

const TRIP_TILES = 4;                                      // along a side

/** S and P, N × N each, go down to HBM and come back, a tile at a time. */
function trips(pen, data, p) {
  const { layout } = pen, { up, down, side, list, step } = layout.trips;
  pen.computed = true;
  const shown = data.sizes[(data.shown = data.chosen ?? data.sizes.length - 1)];
  const at = TRIPS.map((_, i) => straight(p, 0.04 + 0.22 * i, 0.22 + 0.22 * i));
  hbm(pen, data, { empty: true });
  chip(pen);
  const small = side / TRIP_TILES, last = TRIP_TILES ** 2;
  ["s", "p"].forEach((name, i) => {
    const [go, back] = [at[2 * i], at[2 * i + 1]], x = layout.trips[name], letter = name.toUpperCase();
    const place = (k) => box(x + small * (k % TRIP_TILES), down + small * Math.floor(k / TRIP_TILES), small, small);
    const onChip = box(x + (side - small) / 2, up + (side - small) / 2, small, small);
    const square = (where) => pen.box(where, pen.fill(PARTS[name]), { stroke: pen.palette.ground });
    pen.empty(box(x, down, side, side));
    pen.empty(onChip);
    const under = { size: layout.small, ink: "muted", align: "center" };
    pen.text(`one tile of ${letter}`, x + side / 2, up + side, under);
    if (go === 1) pen.box(box(x, down, side, side), pen.fill(PARTS[name]), { radius: 3 });
    else for (let k = 0; k < Math.floor(go * last); k++) square(place(k));
    const moved = (share, way) => {                        // the tile on its way
      if (share <= 0 || share >= 1) return;
      const k = Math.floor(share * last), from = [onChip, place(k)];
      square(moving(...(way < 0 ? from.reverse() : from), (share * last) % 1));
    };
    moved(go, 1);
    moved(back, -1);
    const look = { weight: 600, size: layout.large, align: "center", ink: go ? pen.onFill(PARTS[name]) : "muted" };
    if (go === 0 || go === 1) pen.text(letter, x + side / 2, down + side / 2, look);
  });
  const [x, y, right] = list;
  TRIPS.forEach(([label, name], i) => {
    const there = at[i] === 1;
    pen.text(label, x, y + (i + 1) * step, { ink: there ? PARTS[name] : "muted" });
    if (there) pen.text(shown.trips[i], right, y + (i + 1) * step, { align: "right" });
  });
  pen.faded(eased(p, 0.92, 0.98), () => {
    pen.text("together", x, y + 5.2 * step, { weight: 600 });
    pen.text(shown.all, right, y + 5.2 * step, { weight: 600, size: layout.large, align: "right" });
  });
}

// --- tile by tile ---

/** How far each motion of a tile's visit has come. */
const ARRIVED = { q: 1, keys: 1, scores: 1, look: 1, max: 1, shrink: 1, add: 1, drop: 0, values: 1 };

/** Visit j of the followed row's program, with its state: what moves is a number from 0 to 1. */
function visit(pen, data, j, motion, formula) {
  const { layout } = pen, { tile } = layout, { tiles, row } = data;
  const { q, keys, scores: made, values, drop, look } = { ...ARRIVED, ...motion };
  const program = Math.floor(row / data.block[0]), own = data.ownRows(program), seen = data.keysOf(j);
  hbm(pen, data);
  chip(pen);
  if (!look)
    for (const [name, at, there] of [["Q", tile.q, q], ["Kᵀ", tile.k, keys], ["S", tile.s, made]])
      if (there < 1) pen.slot(name, at);
  pen.cells("q", moving(band(layout.memory.q, program, data.programs), tile.q, q), { rows: own });
  pen.faded(1 - drop, () => {
    const from = band(layout.memory.k, j, tiles), to = moving(from, tile.k, keys);
    pen.faded(1 - straight(keys, 0.4, 0.9), () => pen.cells("k", to, { rows: seen }));
    pen.faded(straight(keys, 0.4, 0.9), () => pen.cells("kt", to, { cols: seen }));
    if (values > 0) pen.cells("v", moving(band(layout.memory.v, j, tiles), tile.v, values), { rows: seen });
    if (made > 0) {
      const high = (tile.s.h * Math.round(made * data.block[0])) / data.block[0];
      const rows = [own[0], own[0] + Math.round(made * data.block[0])];
      pen.cells("s", { ...tile.s, h: high }, { rows, cols: seen });
    }
  });
  pen.box(tile.s, null, { stroke: pen.palette.line });
  const named = (name, at, shape, there = 1) =>
    pen.faded(there, () => {
      pen.text(name, at.x, tile.under, { weight: 600 });
      if (!look) pen.text(shape, at.x + layout.label * 1.5, tile.under, { size: layout.small, ink: "muted" });
    });
  named("Q", tile.q, data.tileShape.q, straight(q, 0.8, 1));
  named("S", tile.s, data.tileShape.s, straight(made, 0, 0.2));
  pen.faded(straight(keys, 0.8, 1) * (1 - drop), () =>
    pen.text(`Kᵀ, tile ${j + 1}`, ...tile.keys, { size: layout.small, ink: "muted" }),
  );
  pen.faded(1 - look, () => mapOf(pen, data, program, j, made));
  if (look <= 0) return;
  pen.faded(look, () => followed(pen, data, j, { ...ARRIVED, ...motion }, formula));
}

/** Where tile (i, j) is in S. */
function mapOf(pen, data, i, j, made) {
  const { layout } = pen, { cell, gap, said, step, ...at } = layout.tile.map;
  places(pen, data, { ...at, cell, gap }, (r, c, place) => {
    if (r !== i || c !== j) return;
    pen.faded(made, () => pen.cells("s", place, { rows: data.ownRows(r), cols: data.keysOf(c) }));
  });
  pen.text(`S has ${data.programs * data.tiles} tiles.`, said[0], said[1], { size: layout.large, weight: 600 });
  pen.text("Only this one exists.", said[0], said[1] + step, { ink: "muted" });
}

/** The tiles of S as empty places; `fill` draws what is in one. */
function places(pen, data, { x, y, cell, gap }, fill) {
  for (let i = 0; i < data.programs; i++)
    for (let j = 0; j < data.tiles; j++) {
      const at = box(x + j * (cell + gap), y + i * (cell + gap), cell, cell);
      pen.empty(at);
      fill(i, j, at);
    }
}

/** The followed row's m, ℓ and Õ during visit j, and the row's place in the tiles. */
function followed(pen, data, j, motion, formula) {
  const { layout, palette } = pen, { tile, row: at } = layout, { row } = data;
  const { scores: made, max, shrink, add, drop, values } = motion;
  const before = data.state(j - 1), after = data.state(j), { alpha, added } = after;
  const y = tile.s.y + (tile.s.h * (row % data.block[0])) / data.block[0];
  pen.cells(`acc${add > 0 ? j : j - 1}`, j > 0 || add > 0 ? tile.o : box(0, 0, 0, 0));
  pen.box(tile.o, null, { stroke: palette.line });
  pen.text("Õ", tile.o.x, tile.under, { weight: 600, ink: "acc" });
  const v = [tile.v.x + tile.v.w + 10, tile.v.y + tile.v.h / 2];
  if (values > 0.9) pen.faded(1 - drop, () => pen.text("V", ...v, { weight: 600 }));
  const across = box(tile.q.x - 4, y - 1, tile.o.x + tile.o.w - tile.q.x + 8, tile.s.h / data.block[0] + 2);
  pen.box(across, null, { stroke: palette.text, radius: 2 });
  pen.text(`row ${row}: “${data.tokens[row]}”`, at.x, at.title, { weight: 600 });

  // m: this tile's scores on an axis, the largest so far marked
  const place = (score) => between(at.axis, at.end, clamped((score - data.low) / (data.high - data.low)));
  pen.rule(at.axis, at.end, at.m);
  pen.faded(made * (1 - drop), () => {
    const look = [pen.fill("scores"), { radius: 2 }];
    for (const score of data.rowScores(j)) pen.box(box(place(score) - 2, at.m - 11, 4, 22), ...look);
  });
  const m = before.m === null ? after.m : between(before.m, after.m, max);
  symbol(pen, "m", "largest", at.m, "max");
  pen.faded(before.m === null ? max : 1, () => {
    if (max > 0 && before.m !== null && after.m > before.m)
      pen.box(box(place(before.m) - 7, at.m - 7, 14, 14), null, { stroke: pen.fill("max"), radius: 7 });
    pen.box(box(place(m) - 8, at.m - 8, 16, 16), pen.fill("max"), { radius: 8 });
    const told = before.m === null || max === 1 ? after.m : before.m; // only numbers of the run
    pen.text(fixed(told), at.value, at.m, { ink: "max", weight: 600 });
  });

  // ℓ: what is kept of the old sum, then this tile's terms
  const long = (value) => ((at.end - at.axis) * value) / data.longest;
  const kept = before.l * between(1, alpha, shrink), top = at.l - at.thick / 2;
  symbol(pen, "ℓ", "sum", at.l, "sum");
  if (shrink > 0 && add < 1 && alpha < 1)
    pen.faded(1 - add, () => {
      const look = { stroke: pen.fill("alpha"), dash: [5, 4], radius: 3 };
      pen.box(box(at.axis, top, long(before.l), at.thick), null, look);
      const middle = at.axis + long(kept + before.l) / 2, gone = long(before.l - kept);
      if (gone > 2 * layout.large) pen.text("× α", middle, at.l, { ink: "alpha", weight: 600, align: "center" });
    });
  pen.box(box(at.axis, top, long(kept), at.thick), pen.fill("sum"), { radius: 3 });
  const joined = box(at.axis + long(kept), top, long(added * add), at.thick);
  pen.faded(0.55, () => pen.box(joined, pen.fill("sum"), { radius: 3 }));
  const sum = add === 1 ? after.l : shrink > 0.5 ? before.l * alpha : before.l;
  if (sum > 0) pen.text(fixed(sum), at.value, at.l, { ink: "sum", weight: 600 });
  if (formula) pen.faded(formula.there, () => sumOf(pen, formula.parts));

  // Õ: the row's part of the accumulator
  symbol(pen, "Õ", BEFORE, at.o, "acc");
  bars(pen, after.acc.map((value, d) => between(before.acc[d] * between(1, alpha, shrink), value, add)), at.o,
    data.largest);
}

const BEFORE = "before ÷ ℓ";                               // Õ is the output before that

/** A quantity of the followed row, with a word below it. */
function symbol(pen, name, word, y, ink) {
  const { layout } = pen, { x } = layout.row;
  pen.text(name, x, y, { size: layout.large, weight: 600, ink });
  pen.text(word, x, y + layout.large * 0.85, { size: layout.small, ink: "muted" });
}

/** A row of output numbers as bars above and below a line. */
function bars(pen, values, y, largest, ink = "acc") {
  const { axis, end, high } = pen.layout.row, wide = (end - axis) / values.length;
  pen.rule(axis, end, y);
  values.forEach((value, d) => {
    const tall = (high * value) / largest;
    pen.box(box(axis + d * wide + 1, y - Math.max(0, tall), wide - 2, Math.abs(tall)), pen.fill(ink));
  });
}

/** A calculation, each part in its quantity's colour. */
function sumOf(pen, parts, y = pen.layout.row.sum) {
  const { layout } = pen;
  let x = layout.row.axis;
  const size = layout.large, gap = pen.width(" ", size);
  for (const [text, ink, there = 1] of parts) {
    pen.faded(there, () => pen.text(text, x, y, { size, ink, weight: 600 }));
    x += pen.width(text, size, 600) + gap;
  }
}

function tile(pen, data, p) {
  const motion = { q: eased(p, 0.02, 0.22), keys: eased(p, 0.26, 0.5), scores: straight(p, 0.54, 0.86) };
  visit(pen, data, 0, { ...motion, values: 0, look: 0 });
}

function row(pen, data, p) {
  const motion = { look: eased(p, 0, 0.15), max: eased(p, 0.3, 0.45), add: eased(p, 0.55, 0.85), shrink: 0 };
  const parts = [["Õ = Σ exp(S − m) · v", "acc"]];
  visit(pen, data, 0, { ...motion, values: eased(p, 0.45, 0.55) }, { there: eased(p, 0.5, 0.6), parts });
}

const factor = (data, there) => {
  const before = data.state(data.moves - 1), after = data.state(data.moves);
  const parts = [
    ["α = exp(", "alpha"], [fixed(before.m), "max"], ["−", "alpha"], [fixed(after.m), "max"],
    [`) = ${fixed(after.alpha)}`, "alpha"],
  ];
  return { there, parts };
};

/** The tile before goes. Then comes the tile where the row's maximum rises: m goes up, and the old sum shrinks. */
function larger(pen, data, p) {
  if (p < 0.12) return visit(pen, data, data.moves - 1, { drop: eased(p, 0.02, 0.12) });
  const arrive = eased(p, 0.12, 0.26);
  const motion = { keys: arrive, values: arrive, scores: straight(p, 0.26, 0.4), max: eased(p, 0.42, 0.56), add: 0 };
  return visit(pen, data, data.moves, { ...motion, shrink: eased(p, 0.66, 0.9) }, factor(data, eased(p, 0.54, 0.62)));
}

function join(pen, data, p) {
  const before = data.state(data.moves - 1), after = data.state(data.moves);
  const there = eased(p, 0.3, 0.42), whole = eased(p, 0.46, 0.54);
  const parts = [
    [fixed(before.l), "sum"], [`× ${fixed(after.alpha)}`, "alpha"], [`+ ${fixed(after.added)}`, "sum", there],
    [`= ${fixed(after.l)}`, "sum", whole],
  ];
  visit(pen, data, data.moves, { add: eased(p, 0.1, 0.42) }, { there: 1, parts });
}

/** The tile goes, and each further one comes, adds and goes. */
function next(pen, data, p) {
  const left = data.tiles - data.moves - 1, first = left ? 0.2 : 1;
  if (p < first) return visit(pen, data, data.moves, { drop: eased(p, 0.03, first - 0.04) });
  const turn = Math.min(left - 1, Math.floor(((p - first) / (1 - first)) * left));
  const t = ((p - first) / (1 - first)) * left - turn;
  const arrive = eased(t, 0, 0.24);
  const motion = { keys: arrive, values: arrive, scores: straight(t, 0.24, 0.4), max: eased(t, 0.44, 0.5) };
  const rest = { shrink: eased(t, 0.5, 0.58), add: eased(t, 0.58, 0.72), drop: eased(t, 0.82, 1) };
  return visit(pen, data, data.moves + 1 + turn, { ...motion, ...rest });
}

/** Õ ÷ ℓ goes down to HBM as O. */
function written(pen, data, p) {
  const { layout, palette } = pen, { tile: at, row: beside } = layout;
  const program = Math.floor(data.row / data.block[0]), own = data.ownRows(program);
  const divided = eased(p, 0.1, 0.3), moved = eased(p, 0.42, 0.72);
  hbm(pen, data, { o: moved === 1 ? [program] : [] });
  chip(pen);
  pen.cells("q", at.q, { rows: own });
  pen.text("Q", at.q.x, at.under, { weight: 600 });
  pen.box(at.s, null, { stroke: palette.line });
  pen.text("S", at.s.x, at.under, { weight: 600 });
  const inside = { size: layout.small * 0.9, ink: "muted", align: "center" };
  pen.text("dropped", at.s.x + at.s.w / 2, at.s.y + at.s.h / 2, inside);
  pen.box(at.o, null, { stroke: palette.line });
  if (moved < 1) {
    const to = along([at.o, ...layout.away, band(layout.memory.o, program, data.programs)], moved);
    pen.faded(1 - divided, () => pen.cells(`acc${data.tiles - 1}`, to));
    pen.faded(divided, () => pen.cells("o", to, { rows: own }));
  }
  pen.text(divided < 0.5 ? "Õ" : "O", at.o.x, at.under, { weight: 600, ink: "acc" });
  const last = data.state(data.tiles - 1), start = data.row * data.dims;
  pen.text(`row ${data.row}: “${data.tokens[data.row]}”`, beside.x, beside.title, { weight: 600 });
  symbol(pen, "Õ", BEFORE, beside.m, "acc");
  const largest = Math.max(...last.acc.map(Math.abs));
  bars(pen, last.acc, beside.m, largest);
  pen.faded(eased(p, 0.06, 0.14), () =>
    pen.text(`÷ ℓ = ${fixed(last.l)}`, beside.axis, beside.l + layout.small / 2, { size: layout.large, ink: "sum" }),
  );
  pen.faded(divided, () => {
    const row = data.arrays.o.subarray(start, start + data.dims), own = Math.max(...row.map(Math.abs));
    symbol(pen, "O", `drawn × ${Math.round(largest / own)}`, beside.sum, "acc");  // a scale of its own: else it is flat
    bars(pen, row, beside.sum, own);
  });
  if (moved > 0) arrow(pen, [at.o, ...layout.away, layout.memory.o]);
  const numbers = `${data.tileShape.o} numbers, ${data.written}`;
  pen.faded(eased(p, 0.66, 0.76), () => pen.text(numbers, beside.axis, beside.o));
}

/** The box at a moment of a way through several boxes, each stretch in the same time. */
function along(stops, t) {
  const way = t * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(way));
  return moving(stops[i], stops[i + 1], way - i);
}

/** The way from a place on chip, past the words, to the top of a matrix in HBM. */
function arrow(pen, stops) {
  const { ctx } = pen, end = stops.at(-1);
  const [first] = stops, middle = ({ x, w }) => x + w / 2;
  const passed = stops.slice(1, -1).map((stop) => [middle(stop), stop.y + stop.h / 2]);
  const ways = [[middle(first), first.y + first.h], ...passed, [middle(end), end.y - 4]];
  const [[x0, y0], [x1, y1]] = ways.slice(-2), turn = Math.atan2(y1 - y0, x1 - x0);
  ctx.beginPath();
  ways.forEach((point, i) => (i ? ctx.lineTo(...point) : ctx.moveTo(...point)));
  for (const side of [-0.4, 0.4]) {
    ctx.moveTo(x1, y1);
    ctx.lineTo(x1 - 16 * Math.cos(turn + side), y1 - 16 * Math.sin(turn + side));
  }
  Object.assign(ctx, { strokeStyle: pen.fill("hbm"), lineWidth: 3 });
  ctx.stroke();
}

/** All programs at once: each has one tile of its scores at a time. */
function programs(pen, data, p) {
  const { layout } = pen, { said, step, ...grid } = layout.grid;
  const t = straight(p, 0, 0.86) * data.tiles, j = Math.min(data.tiles - 1, Math.floor(t)), done = t >= data.tiles;
  hbm(pen, data, { o: done ? [...Array(data.programs).keys()] : [] });
  chip(pen);
  places(pen, data, grid, (i, c, at) => {
    const share = c !== j || done ? 0 : j ? Math.min(1, 4 * (t - j)) : 1;
    pen.faded(share, () => pen.cells("s", at, { rows: data.ownRows(i), cols: data.keysOf(c) }));
    const look = { size: layout.small * 0.9, ink: "muted", align: "center" };
    if (c < j || done) pen.text("dropped", at.x + at.w / 2, at.y + at.h / 2, look);
  });
  const lines = [
    [`${data.programs} programs run at once.`, { size: layout.large, weight: 600 }],
    [`Each makes its own ${data.block[0]} rows of O.`, {}],
    [`S has ${data.programs * data.tiles} tiles. At most ${data.programs} exist at a time.`, { ink: "scores" }],
  ];
  lines.forEach(([text, look], i) => pen.text(text, said[0], said[1] + i * step, look));
}

const TWICE = new Set(["s", "p"]);                         // written to HBM and read back
const PARTS = { q: "hbm", k: "hbm", v: "hbm", s: "scores", p: "p", o: "acc", lse: "sum" };

/** The words beside each matrix in HBM: its bytes in a bill; where it fits, whether they were read or written. */
function trafficOf(pen, { parts }) {
  const { memory, beside, small } = pen.layout, room = memory.k.x - beside(memory.q)[2];
  const told = parts.map(([name, , moved]) => [name, `${name === "o" ? "written once" : "read"}: ${moved}`, moved]);
  const fits = told.every(([, words]) => pen.width(words, small) < room);
  return Object.fromEntries(told.map(([name, words, moved]) => [name, fits ? words : moved]));
}

const SPARED = "S and P stay on chip";                     // where the other kernel's bar has them

/** The bytes of both kernels between HBM and the chip: of this run, then at the largest N. */
function bills(pen, data, p) {
  const { layout, palette } = pen, { x, w, size, y, thick, big, times, said } = layout.bills;
  const large = eased(p, 0.5, 0.64), longer = large >= 0.5;
  const shown = data.bills[longer ? 1 : 0], [, flash] = shown.each;
  pen.computed = longer;
  hbm(pen, data, { o: [...Array(data.programs).keys()], asides: trafficOf(pen, flash), longer });
  const shares = data.bills.map(({ each }) => {
    const most = Math.max(...each.map(({ bytes }) => bytes));
    return each.map(({ parts }) => parts.map(([, bytes]) => bytes / most));
  });
  shown.each.forEach(({ name: kernel, total, parts }, i) => pen.faded(i ? eased(p, 0.1, 0.3) : 1, () => {
    pen.text(kernel, x, y[i] - layout.label);
    pen.box(box(x, y[i], w, thick), null, { stroke: palette.line });
    let from = x;
    parts.forEach(([name], k) => {
      const wide = w * between(shares[0][i][k], shares[1][i][k], large);
      pen.box(box(from, y[i], wide, thick), pen.fill(PARTS[name]), { stroke: palette.ground });
      const look = { align: "center", weight: 600, ink: pen.onFill(PARTS[name]) };
      const word = TWICE.has(name) && wide > 220 ? `${name.toUpperCase()}, written and read` : name.toUpperCase();
      if (wide > 26) pen.text(word, from + wide / 2, y[i] + thick / 2, look);
      from += wide;
    });
    pen.text(total, x + w, y[i] - layout.label, { align: "right", weight: 600, size: layout.large });
    if (i > 0) pen.text(`${shown.share} of the bytes`, x, times, { size: big, weight: 600 });
    if (i > 0 && x + w - from > pen.width(SPARED, layout.label) * 1.2) {
      pen.text(SPARED, (from + x + w) / 2, y[i] + thick / 2, { ink: "muted", align: "center" });
    }
  }));
  pen.text(shown.size, x, size, { size: layout.large, weight: 600 });
  pen.text(`${flash.name}, matrix by matrix`, x, layout.hbm.y - layout.small * 0.85, { size: layout.small, weight: 600 });
  const why = ["K and V are read once for each tile of queries.", "Requested by the kernels, caches not counted."];
  pen.faded(eased(p, 0.7, 0.78), () =>
    why.forEach((text, i) => pen.text(text, x, said + i * layout.label * 1.5, { ink: "muted" })),
  );
}

/** The moment of a scene to print, where that is not its end. */
export const STILLS = { programs: 0.7 };

/** Every scene by its name: (pen, data, p) → draws it. */
export const SCENES = {
  sentence, scores, scale, trips, tile, row, larger, join, next, write: written, programs, bills,
};
