// Two runs compared: their first difference, and what differs at the step shown. Values are matched by their place in S
// (row, column) or in O (row, dimension), and only where both runs have seen the same columns: a sum over half a row
// always differs from one over the whole row.

import { bufferSymbol, roleSymbol } from "./beat_words.js";
import { LOADED } from "./idea/contents.js";
import { counted, grouped, number, range, times } from "./numbers.js";
import { isFloat } from "./trace.js";
import { isVisit, stretchesOfBoth, stretchOrder } from "./weave.js";
import { element, largestFinite } from "./words.js";

const BY_ROW = ["running_max", "new_max", "rescale", "running_sum", "new_sum"];
const BY_CELL = ["scores", "exponentials"];
const BY_FEATURE = ["accumulator", "output"];
/** The quantities compared, each with the roles that may hold it: the updated maximum is m_new in one kernel, m_i in
 * another. What a kernel keeps for its next tile is compared as well: it may differ from the updated one. */
const COMPARED = [
  ["scores"], ["new_max", "running_max"], ["running_max"], ["rescale"], ["new_sum", "running_sum"], ["running_sum"],
  ["exponentials"], ["accumulator"], ["output", "accumulator"],
];
/** Whether a quantity is the same one in both runs. A kernel without an output of its own divides its accumulator at
 * each visit: that is O of the keys so far, and another kernel's Õ is not. */
const isOne = ([one, other], held) => held.every(Boolean)
  && (held.some((role) => role !== "accumulator") || !one.roles.output === !other.roles.output);
const ROUNDING = { bf16: 2 ** -6, f16: 2 ** -8 };          // a few roundings of the dtype; other floats have float32's
const SINGLE = 2 ** -16;
// Added to the tolerance: sums of large numbers leave such errors in small ones.
const OF_LARGEST = 0.1;

/** The elements of a role's value at step k that lie on the matrix: {value, rows, across, width}, or null. */
function placed(story, role, k) {
  const value = story.role(role, k);
  const tile = story.tile(k) ?? (BY_ROW.includes(role) && story.isBefore(k) ? { rows: story.rowsAt(k) } : null);
  if (!value?.data || !tile) return null;
  const rows = tile.rows;
  const byCell = BY_CELL.includes(role) || (role === "output" && story.outputMap);
  const width = value.data.length / rows.length;
  if (BY_ROW.includes(role)) return width === 1 ? { value, rows, across: null, width } : null;
  if (byCell) return width === tile.cols.length ? { value, rows, across: tile.cols, width } : null;
  if (!Number.isInteger(width) || value.shape.length !== 2) return null;
  return { value, rows, across: Array.from({ length: width }, (_, d) => d), width };
}

/** Whether two numbers differ by more than a relative tolerance; `floor` is added to the larger one's size. */
function farApart(left, right, tolerance, floor = 0) {
  if (left === right || (left !== left && right !== right)) return false;
  const size = Math.max(Math.abs(left), Math.abs(right)) + floor;
  return !Number.isFinite(left - right) || Math.abs(left - right) > tolerance * size;
}

/** The test whether two numbers of two values differ by more than rounding. */
function apartIn(a, b) {
  const tolerance = Math.max(ROUNDING[a.dtype] ?? SINGLE, ROUNDING[b.dtype] ?? SINGLE);
  const floor = OF_LARGEST * Math.max(largestFinite(a.data), largestFinite(b.data));
  return (left, right) => farApart(left, right, tolerance, floor);
}

/** The elements of two placed values that differ by more than rounding: [{row, across, left, right}]; `most` ends
 * the search. */
function differing(a, b, [height, width], most = Infinity) {
  const out = [];
  const apart = apartIn(a.value, b.value);
  const twinRow = new Map(Array.from(b.rows, (row, r) => [row, r]));
  const twinAcross = b.across && new Map(Array.from(b.across, (at, c) => [at, c]));
  for (let r = 0; r < a.rows.length; r++) {
    const other = twinRow.get(a.rows[r]);
    if (other === undefined || a.rows[r] >= height) continue;
    for (let c = 0; c < a.width; c++) {
      const twin = a.across ? twinAcross?.get(a.across[c]) : 0;
      if (twin === undefined || (a.across && a.across[c] >= width)) continue;
      const left = a.value.data[r * a.width + c], right = b.value.data[other * b.width + twin];
      if (!apart(left, right)) continue;
      out.push({ row: a.rows[r], r, across: a.across ? a.across[c] : null, left, right });
      if (out.length >= most) return out;
    }
  }
  return out;
}

/** The columns that a role's value stands for after each of its steps: Map(step → text). A score stands for itself. */
function coverage(story, role) {
  const out = new Map(), seen = new Map();
  const [, width] = story.view.score_shape ?? [0, Infinity];
  for (const { step } of role === "scores" ? [] : story.eventsOf(role)) {
    const tile = story.tile(step);
    if (!tile) continue;
    const key = `${story.programAt[step]} ${tile.rows[0]}`;
    if (!seen.has(key)) seen.set(key, { cols: new Set(), text: "" });
    const so = seen.get(key), before = so.cols.size;
    const isLoaded = LOADED.test(story.text(step));      // as an earlier tile left it, without this one's columns
    for (const col of isLoaded ? [] : tile.cols) if (col < width) so.cols.add(Number(col));
    if (so.cols.size > before) so.text = [...so.cols].sort((a, b) => a - b).join();
    out.set(step, role === "rescale" ? `${so.text} after ${tile.cols[0]}` : so.text);      // α is of one tile
  }
  return out;
}

/** Where a step is: its tile, and with `lines` its line. */
const place = (story, step, lines) => {
  const visit = story.visit(step);
  return [visit && story.placeOf(visit), lines && `line ${story.trace.line[step]}`].filter(Boolean).join(", ");
};
const extent = (list) => range(list[0], list[list.length - 1]);
const earliest = (found) => found.filter(Boolean).sort((a, b) => a.t - b.t)[0] ?? null;

/** Whether two runs execute the same lines of the same kernel: then their steps are compared one by one. */
function sameLines([one, other]) {
  const alike = one.view.kernel === other.view.kernel && one.steps === other.steps;
  return alike && one.trace.line.every((line, k) => line === other.trace.line[k]);
}

/** What step k sets; of a foreign kernel also what it touches and stores in HBM, where its mask lets it. */
function made(story, k) {
  const { trace } = story;
  const out = new Map();
  for (const { label, value } of story.changes(k)) {
    const points = value.kind === "p";
    out.set(label, points ? { ...trace.value(value.tile), text: `points into buffer ${value.buffer}` } : value);
  }
  if (story.view.kernel) return out;
  story.accesses(k).forEach(({ buffer, elements, mask, stored }, i) => {
    const name = `${story.launchAt(k).buffers[buffer].name.replace(/_ptr$/, "")}${i ? `, access ${i + 1}` : ""}`;
    const lanes = mask < 0 ? null : trace.value(mask);
    if (lanes) out.set(`mask of ${name}`, lanes);
    const active = (value) => lanes && value.data?.length === lanes.data.length
      ? { ...value, data: value.data.map((x, lane) => (lanes.data[lane] ? x : 0)) } : value;
    out.set(`elements of ${name}`, active(trace.value(elements)));
    if (stored >= 0) out.set(`stored in ${name}`, active(trace.value(stored)));
  });
  return out;
}

/** What a value is besides its numbers, in words: two of different kinds differ. */
function kindOf(value) {
  if (!value) return "is not there";
  const { shape, data, text, items } = value;
  if (items) return `has ${counted(items.length, "value")}`;
  if (!data) return `is ${text ?? "set"}`;
  return data.length === 1 ? "is one number" : `has ${times(shape)} numbers`;
}

/** Whether all programs of two runs, recorded or not, moved and computed equally much. */
function sameTotals(stories) {
  const [one, other] = stories.map(({ trace }) =>
    JSON.stringify(trace.header.launches.map(({ grid, totals }) => [grid, totals])));
  return one === other;
}

const VERBS = [["reads", "from"], ["writes", "to"], ["updates", "in"]]; // by the kind of an access

/** A run's first access to each buffer, of a tile or of single numbers: Map(name → {step, verb, part}). */
function firstAccesses(story) {
  const out = new Map();
  for (let step = 0; step < story.steps; step++) {
    for (const { kind, buffer, elements } of story.accesses(step)) {
      const name = story.launchAt(step).buffers[buffer].name.replace(/_ptr$/, "");
      const part = story.trace.value(elements).shape?.length > 1 ? "a tile of " : "";
      if (!out.has(name)) out.set(name, { step, verb: VERBS[kind], part });
    }
  }
  return out;
}

export class Comparison {
  constructor(player) {
    this.player = player;
  }

  /** Whether there are two runs, of the same inputs: else a first difference says nothing. */
  get compares() {
    const { stories } = this.player;
    return stories.length === 2 && !stories[0].view.unlike;
  }

  load() {
    const { stories } = this.player;
    const two = this.compares;
    this.first = null;
    this.said = "";
    const box = this.player.$(".difference"), button = this.player.$(".tools [data-do=difference]");
    box.hidden = button.hidden = !two;
    if (!two) return;
    const holders = (roles) => stories.map((story) => roles.find((role) => story.roles[role]));
    const unique = (held, at, all) => all.findIndex((one) => one.join() === held.join()) === at;
    this.quantities = COMPARED.map(holders).filter((held) => isOne(stories, held)).filter(unique);
    this.parts = stretchesOfBoth(stories);
    this.stretchOf = this.parts.map((part, i) => {
      const out = new Array(stories[i].steps);
      for (const [key, steps] of part) for (const k of steps) out[k] = key;
      return out;
    });
    this.covered = stories.map((story) => new Map(this.quantities.flat().map((role) => [role, coverage(story, role)])));
    this.shapes = stories.map(({ view }) => view.score_shape ?? [Infinity, Infinity]);
    this.joined = this.joinsApart();
    const inStep = sameLines(stories);
    const byTile = () => [this.firstByVisit() ?? this.firstByTile(), this.firstByJoin(), this.firstByBuffer()];
    this.first = earliest(inStep ? [this.firstByStep()] : byTile());
    const unrecorded = inStep && !this.first && !stories[0].view.kernel && !sameTotals(stories);
    const comparable = (inStep && !unrecorded) || this.quantities.length > 0;
    button.disabled = !this.first;
    const { name = "", index = [], left = "", right = "" } = this.first ?? {};
    Object.assign(box.dataset, { name, index: index.join(), left, right });
    const keys = stories[0].view.axes?.[1] ?? "columns";
    this.equal = comparable
      ? `No difference up to rounding${inStep ? "" : `, after the same ${keys}`}.`
      : unrecorded ? "The recorded programs do not differ up to rounding, but the bytes or FLOPs of all programs do."
      : "Not compared: the runs have different lines, and their variables have no known roles.";
    box.dataset.comparable = comparable;
    button.textContent = this.first || !comparable ? "First difference" : "No difference";
    button.title = this.first ? "Go to the first difference · D" : this.equal;
  }

  /** The first difference in words: with the symbols of Idea, or with the names and lines of Code. Elsewhere than at
   * its own step it says at which. */
  told() {
    const { stories, depth } = this.player, code = depth.shown === "code";
    const { name, symbol, index, left, right, steps, only, note = "" } = this.first;
    const [here, there] = steps.map((step, i) => place(stories[i], step, code));
    const word = stories[0].view.row_labels?.[index[0]];
    const element = index.length ? `[${index.join(",")}]` : "";
    const [a, b] = [left, right].map((x) => (typeof x === "number" ? number(x) : x));
    const called = (code ? "" : symbol) || `${this.called(name, steps[0])}${code && symbol && symbol.toLowerCase()
      !== name ? ` (${symbol})` : ""}`;
    const where = !there || here === there ? here || there : `left: ${here}; right: ${there}`;
    const inside = [where, word !== undefined && `row “${word}”`].filter(Boolean).join(", ");
    const says = only ? `the ${only.side} ${only.verb[0]} ${only.part}${called} ${only.verb[1]} HBM; ${only.instead}`
      : `${called}${element}${typeof left === "number" ? " =" : ""} ${a} on the left, ${b} on the right`;
    return `First difference${this.elsewhere()}: ${says}${inside && ` (${inside})`}.${note}`;
  }

  /** “, at beat 6”, where another beat or step is shown; "" at its own. */
  elsewhere() {
    const { player, player: { steps, transport } } = this, { t } = this.first;
    if (!steps || (t >= steps.begin && t <= steps.last)) return "";
    return transport.countsBeats ? `, at beat ${player.beatAt(t)}` : `, at step ${grouped(t)}`;
  }

  /** A variable's name in Code; in Idea the symbol of its role in the left run, if it has one. */
  called(name, step) {
    const { stories: [story], depth } = this.player, { roles = {} } = story.view;
    const role = depth.shown !== "code" && Object.keys(roles).find((one) => name.split(" / ").includes(roles[one]));
    return role ? roleSymbol(story, role, step) : name;
  }

  /** The part of the matrix that both runs have. */
  bounds(role) {
    const [height, width] = this.shapes.reduce(([h, w], [height, width]) => [Math.min(h, height), Math.min(w, width)]);
    return [height, BY_FEATURE.includes(role) && !this.player.stories[0].outputMap ? Infinity : width];
  }

  /** Whether a quantity set at these steps is made of the same columns in both runs. */
  alike(held, set) {
    const [left, right] = set.map((step, i) => this.covered[i].get(held[i]).get(step));
    return left === right;
  }

  /** The two runs' values of a quantity at their own steps, if both have set it in this stretch, from the same
   * columns; else null. */
  pair(held, steps, key) {
    const { stories } = this.player;
    const since = this.parts.map((part) => part.get(key)?.[0]);
    if (since.some((step) => step === undefined)) return null;
    const set = stories.map((story, i) => story.changedAt(held[i], since[i], steps[i]));
    if (set.some((step) => step < 0) || !this.alike(held, set)) return null;
    const values = stories.map((story, i) => placed(story, held[i], steps[i]));
    return values.every(Boolean) ? { values, set } : null;
  }

  /** The same, of runs that are not in a stretch of both, where each has set the quantity in its visit of the same
   * tile: one run may be in another pass. */
  pairOfTile(held, steps) {
    const { stories } = this.player;
    const visits = stories.map((story, i) => story.visit(steps[i]));
    if (!visits.every(Boolean)) return null;
    const [left, right] = stories.map((story, i) => story.tile(steps[i]));
    if (!left || !right || left.rows[0] !== right.rows[0] || left.cols[0] !== right.cols[0]) return null;
    const set = stories.map((story, i) => story.changedAt(held[i], visits[i].begin, steps[i]));
    if (set.some((step) => step < 0) || !this.alike(held, set)) return null;
    const values = stories.map((story, i) => placed(story, held[i], steps[i]));
    return values.every(Boolean) ? { values, set } : null;
  }

  /** The same, of numbers of rows and of outputs, where each is finished in its own visit of the tile. */
  pairStanding(held, steps) {
    const { stories } = this.player;
    const set = stories.map((story, i) => story.changedAt(held[i], story.programs[story.programAt[steps[i]]].first,
      steps[i]));
    const isLast = (step, i) => {
      const visit = stories[i].visit(step);
      return !visit || stories[i].changedAt(held[i], step, visit.end - 1) === step;
    };
    if (BY_CELL.includes(held[0]) || set.some((step) => step < 0) || !set.every(isLast) || !this.alike(held, set))
      return null;
    const values = stories.map((story, i) => placed(story, held[i], steps[i]));
    return values.every(Boolean) ? { values, set } : null;
  }

  /** The first difference of any variable, of two runs of the same lines: {t, row, said}; null where there is none. */
  firstByStep() {
    const { stories } = this.player;
    const [one, other] = stories;
    for (let k = 0; k < one.steps; k++) {
      const [mine, theirs] = [made(one, k), made(other, k)];
      for (const label of new Set([...mine.keys(), ...theirs.keys()])) {
        const value = mine.get(label), twin = theirs.get(label);
        const exact = !isFloat(value?.dtype ?? "");        // a foreign kernel's integers may be its result
        if (exact && one.view.kernel) continue;
        const t = this.player.positionOf[0].get(k), here = { t, name: label, steps: [k, k] };
        const [left, right] = [value, twin].map(kindOf);
        if (left !== right && !one.view.kernel) return { ...here, row: 0, index: [], left, right };
        if (left !== right || !value.data) continue;
        const apart = exact ? (x, y) => x !== y : apartIn(value, twin);
        const at = value.data.findIndex((x, i) => apart(x, twin.data[i]));
        if (at < 0) continue;
        const rows = one.tile(k)?.rows.length ?? 1;
        const row = Math.floor((at * rows) / value.data.length);
        return { ...here, row, index: this.indexOf(label, k, value, at), left: value.data[at], right: twin.data[at] };
      }
    }
    return null;
  }

  /** The index of element `at` of a variable: a role's in the matrix's own rows and columns. */
  indexOf(label, k, { shape }, at) {
    const [story] = this.player.stories;
    const index = shape.map((side, axis) => Math.floor(at / shape.slice(axis + 1).reduce((a, b) => a * b, 1)) % side);
    const [role] = Object.entries(story.view.roles ?? {}).find(([, name]) => name === label) ?? [];
    if (!role || !index.length) return index;
    const byCell = BY_CELL.includes(role) || (role === "output" && story.outputMap);
    const { rows, cols } = story.tile(k) ?? {};
    const [r, c] = index;
    const row = Number(rows?.length > r ? rows[r] : r);
    if (BY_ROW.includes(role)) return [row];
    if (c === undefined) return [Number(rows?.[0] ?? 0), Number(cols?.[r] ?? r)];
    return [row, Number((byCell ? cols?.[c] : undefined) ?? c)];
  }

  /** The first difference within a tile visit that both make: {t, row, said}; null where there is none. */
  firstByVisit() {
    const { positionOf } = this.player;
    const shared = [...this.parts[0].keys()].filter((key) => isVisit(key) && this.parts[1].has(key));
    const keys = shared.sort((a, b) => stretchOrder(a) - stretchOrder(b));
    for (const key of keys) {
      const ends = this.parts.map((part) => part.get(key).at(-1));
      let found = null;
      for (const held of this.quantities) {
        const both = this.pair(held, ends, key);
        if (!both || !differing(...both.values, this.bounds(held[0]), 1).length) continue;
        const begins = this.parts.map((part, i) => positionOf[i].get(part.get(key)[0]));
        const one = this.firstWithin(held, key, Math.min(...begins));
        if (!found || one.t < found.t) found = one;
      }
      if (found) return found;
    }
    return null;
  }

  /** Where a quantity first differs in a visit that it ends with another value; it may be set more than once there. */
  firstWithin(held, key, from) {
    const { woven } = this.player;
    for (let t = from; t < woven[0].length; t++) {
      const both = this.pair(held, woven.map((steps) => steps[t]), key);
      const [element] = both ? differing(...both.values, this.bounds(held[0]), 1) : [];
      if (element) return { t, ...this.found(held, both.set, element) };
    }
    return null;
  }

  /** The first difference between finished tiles of the same columns, whatever the order or number of passes in each
   * run. */
  firstByTile() {
    const { stories, positionOf } = this.player;
    let first = null;
    for (const held of this.quantities) {
      const [left, right] = stories.map((story, i) => this.finished(story, held[i], this.covered[i].get(held[i])));
      for (const [tile, one] of left) {
        const other = right.get(tile);
        if (!other) continue;
        const t = Math.max(positionOf[0].get(one.step), positionOf[1].get(other.step));
        if (first && t >= first.t) continue;
        const [element] = differing(one.here, other.here, this.bounds(held[0]), 1);
        if (element) first = { t, ...this.found(held, [one.step, other.step], element) };
      }
    }
    return first;
  }

  /** A role's value at the end of each tile: Map(first row, columns covered, which time → {step, here}). */
  finished(story, role, covered) {
    const last = new Map();                                // of each visit; a program without visits counts as one
    for (const { step } of story.eventsOf(role)) {
      const program = story.programAt[step], visit = story.visitAt[step];
      if (visit < 0 && story.programs[program].visits) continue; // a start value, not a tile's
      last.set(`${program} ${visit}`, step);
    }
    const times = new Map(), out = new Map();
    for (const step of last.values()) {
      const here = placed(story, role, step);
      if (!here) continue;
      const tile = `${here.rows[0]} ${covered.get(step) ?? here.across[0]}`;
      times.set(tile, (times.get(tile) ?? 0) + 1);
      out.set(`${tile} ${times.get(tile)}`, { step, here });
    }
    return out;
  }

  /** Merged pairs of the same columns that differ: [{row, name, cols, set: each run's step, left, right}], of all
   * rows. */
  joinsApart() {
    const { stories } = this.player;
    if (!stories.every((story) => story.joins)) return [];
    const rows = Math.min(...this.shapes.map(([height]) => height));
    const out = [];
    for (let row = 0; row < rows; row++) {
      const merged = (story) => story.pairs(row).filter(({ children }) => children.length);
      const [left, right] = stories.map((story) => new Map(merged(story).map((pair) => [pair.cols.join(), pair])));
      for (const [columns, one] of left) {
        const other = right.get(columns);
        for (const [part, role] of other ? [["m", "running_max"], ["l", "running_sum"]] : []) {
          if (!farApart(one[part], other[part], SINGLE)) continue;
          const set = [one, other].map(({ begin, step }, i) => stories[i].changedAt(role, begin, step));
          out.push({ row, role, name: stories[0].view.roles[role], cols: one.cols, set, left: one[part],
            right: other[part] });
        }
      }
    }
    return out;
  }

  /** The first merge with a difference: {t, row, …}; null where there is none. */
  firstByJoin() {
    const { positionOf } = this.player;
    const timed = this.joined.map((join) => ({ ...join,
      t: Math.max(...join.set.map((step, i) => positionOf[i].get(step))) }));
    const found = earliest(timed);
    if (!found) return null;
    const { t, row, name, cols, set, left, right } = found;
    return { t, row: 0, name, index: [row], left, right, steps: set,
      note: ` Columns ${extent(cols)} are merged there.` };
  }

  /** The first access to a buffer in HBM that the other run never touches, with the other run's step at that moment:
   * {t, row, …}; null where there is none. */
  firstByBuffer() {
    const { stories, positionOf, woven } = this.player;
    const touched = stories.map(firstAccesses);
    const own = touched.flatMap((accesses, i) => {
      const alone = [...accesses].filter(([name]) => !touched[1 - i].has(name));
      return alone.map(([name, access]) => ({ i, name, ...access, t: positionOf[i].get(access.step) }));
    });
    const found = earliest(own);
    if (!found) return null;
    const { i, name, verb, part, t } = found;
    const steps = woven.map((own) => own[t]), other = stories[1 - i], symbol = bufferSymbol(name, stories[i].view);
    const computes = Object.keys(other.roles).some((role) => roleSymbol(other, role, steps[1 - i]) === symbol);
    const instead = `the ${["right", "left"][i]} ${verb === VERBS[1] && computes ? "drops it" : "never does"}`;
    return { t, row: 0, name, symbol, index: [], steps, only: { side: ["left", "right"][i], verb, part, instead } };
  }

  /** A difference in an element of a quantity: {row (of the tile), name, index, left, right, steps, note}. */
  found(held, steps, { row, r, across, left, right }) {
    const { stories } = this.player;
    const names = new Set(stories.map((story, i) => story.view.roles[held[i]]));
    const tiles = stories.map((story, i) => story.tile(steps[i])).map((tile) => tile && extent(tile.cols));
    const same = tiles[0] === tiles[1] || tiles.includes(null);
    const note = same ? "" : ` The left is at columns ${tiles[0]}, the right at ${tiles[1]}.`;
    const index = [row, across].filter((at) => at !== null).map(Number);
    return { row: r, name: [...names].join(" / "), index, left, right, steps, note };
  }

  goToFirst() {
    const { player, first } = this;
    if (!this.compares) return false;
    if (!first) return undefined;
    player.tour.leave();                                   // its caption is of another step
    player.go(first.t);
    return player.picked(0, { row: first.row, col: 0 });
  }

  /** Before the lanes are drawn: the rows, cells and roles that differ at this step. */
  render(t) {
    const { lanes, stories, woven } = this.player;
    if (!this.compares) return;
    const steps = woven.map((own) => own[t]);
    const keys = steps.map((k, i) => this.stretchOf[i][k]);
    const marks = { rows: new Set(), cells: new Set(), roles: new Set(), said: new Map() };
    const together = keys[0] === keys[1] && isVisit(keys[0]);
    for (const held of this.quantities) {
      const both = (together ? this.pair(held, steps, keys[0]) : this.pairOfTile(held, steps))
        ?? this.pairStanding(held, steps);
      const [role] = held;
      const found = both ? differing(...both.values, this.bounds(role)) : [];
      if (!found.length) continue;
      for (const one of held) marks.roles.add(one);
      if (BY_ROW.includes(role)) for (const { row } of found) marks.rows.add(row);
      if (role === "scores") for (const { row, across } of found) marks.cells.add(`${row},${across}`);
      const unit = BY_ROW.includes(role) ? "row" : "element";
      const called = this.called(stories[0].view.roles[role], steps[0]);
      const isSaid = marks.said.has(called);               // of the updated m: it has the symbol of the one that is kept
      if (!isSaid) marks.said.set(called, `${called} in ${counted(found.length, unit)} of this tile`);
    }
    for (const { row, role, name, set } of this.joined) {
      if (!set.every((step, i) => this.holds(stories[i], step, steps[i]))) continue;
      marks.rows.add(row);
      marks.roles.add(role);
      const called = this.called(name, steps[0]);
      marks.said.set(`${called} ${row}`, `${called} in 1 row`);
    }
    const isWrong = lanes.some(({ view }) => view.wrong);    // then the other one is right: only what is wrong is marked
    lanes.forEach((lane) => (lane.marks = isWrong && !lane.view.wrong ? null : marks));
    this.said = marks.said.size ? `≠ ${[...marks.said.values()].join(", ")}` : "";
  }

  /** Whether a program still holds at step k the pair that it merged at step `set`. */
  holds(story, set, k) {
    return k >= set && story.programAt[k] === story.programAt[set] && story.changedAt("other_at", set, k) < 0;
  }

  /** After they are drawn: what differs at this step. */
  write() {
    const { said, player, player: { stories } } = this;
    if (!this.compares) return;
    const box = player.$(".difference .now"), first = player.$(".difference .says");
    const told = this.first ? this.told() : this.equal;
    if (first.textContent !== told) first.textContent = told;
    if (box.textContent !== said) box.replaceChildren(said ? element("span", "", said) : "");
  }
}
