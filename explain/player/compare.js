// Two runs held against each other: where they first part, and what differs between them at the step shown.
// Values are matched by their place in S (row, column) or in O (row, dimension), and only where both runs have put the same
// columns into them: a sum over half a row and one over the whole row differ, and it means nothing.

import { STORE } from "./counters.js";
import { stretches, stretchOrder } from "./story.js";
import { isFloat } from "./trace.js";
import { element, short } from "./words.js";

const BY_ROW = ["running_max", "new_max", "rescale", "running_sum", "new_sum"];
const BY_CELL = ["scores", "probabilities"];
const BY_FEATURE = ["accumulator", "output"];
/** What is compared, and the roles that may hold it: an updated maximum is m_new in one kernel and m_i in another. */
const COMPARED = [["scores"], ["new_max", "running_max"], ["rescale"], ["new_sum", "running_sum"], ["probabilities"], ["accumulator"], ["output"]];
const ROUNDING = { bf16: 2 ** -6, f16: 2 ** -8 };          // a few roundings of the type; other floats carry float32's
const SINGLE = 2 ** -16;
const OF_LARGEST = 0.1;                                    // sums of numbers this large leave such errors in the small ones

/** The elements of a role's value at step k that lie on the matrix: {value, rows, across, width}, or null. */
function placed(story, role, k) {
  const value = story.role(role, k);
  const tile = story.tile(k);
  if (!value?.data || !tile) return null;
  const rows = tile.rows;
  const byCell = BY_CELL.includes(role) || (role === "output" && story.outputMap);
  const width = value.data.length / rows.length;
  if (BY_ROW.includes(role)) return width === 1 ? { value, rows, across: null, width } : null;
  if (byCell) return width === tile.cols.length ? { value, rows, across: tile.cols, width } : null;
  return Number.isInteger(width) && value.shape.length === 2 ? { value, rows, across: Array.from({ length: width }, (_, d) => d), width } : null;
}

function largestFinite(data) {
  let largest = 0;
  for (const x of data) if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
  return largest;
}

/** Whether two numbers differ by more than rounding; `floor` is added to the larger one's size. */
function farApart(left, right, tolerance, floor = 0) {
  if (left === right || (left !== left && right !== right)) return false;
  return !Number.isFinite(left - right) || Math.abs(left - right) > tolerance * (Math.max(Math.abs(left), Math.abs(right)) + floor);
}

/** What tells numbers of two values apart by more than rounding. */
function apartIn(a, b) {
  const tolerance = Math.max(ROUNDING[a.dtype] ?? SINGLE, ROUNDING[b.dtype] ?? SINGLE);
  const floor = OF_LARGEST * Math.max(largestFinite(a.data), largestFinite(b.data));
  return (left, right) => farApart(left, right, tolerance, floor);
}

/** The elements of two placed values that differ by more than rounding: [{row, across, left, right}]; `most` ends the search. */
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
    for (const col of tile.cols) if (col < width) so.cols.add(Number(col));
    if (so.cols.size > before) so.text = [...so.cols].sort((a, b) => a - b).join();
    out.set(step, role === "rescale" ? `${so.text} after ${tile.cols[0]}` : so.text);      // α is of one tile
  }
  return out;
}

const isVisit = (key) => !/:-1|\+/.test(key);
const SAME = "Up to rounding, the two runs hold the same values";
const place = (story, step) => `${story.visit(step) ? `tile visit ${story.visit(step).ordinal + 1}, ` : ""}line ${story.trace.line[step]}`;
const extent = (list) => (list.length > 1 ? `${list[0]}–${list[list.length - 1]}` : `${list[0]}`);

/** Whether two runs execute the same lines of the same kernel: then their steps are compared one by one. */
function sameLines([one, other]) {
  return one.view.kernel === other.view.kernel && one.steps === other.steps && one.trace.line.every((line, k) => line === other.trace.line[k]);
}

/** Where a run first stores to each of its buffers: Map(name → step). */
function firstStores(story) {
  const out = new Map();
  for (let step = 0; step < story.steps; step++) {
    for (const { kind, buffer } of story.accesses(step)) {
      const name = story.launchAt(step).buffers[buffer].name.replace(/_ptr$/, "");
      if (kind === STORE && !out.has(name)) out.set(name, step);
    }
  }
  return out;
}

export class Comparison {
  constructor(player) {
    this.player = player;
    player.on(player.$(".parting button"), "click", () => player.act("difference"));
  }

  load() {
    const { stories } = this.player;
    const two = stories.length === 2;
    this.first = null;
    this.said = "";
    this.player.$(".parting").hidden = !two;
    if (!two) return;
    this.quantities = COMPARED.map((roles) => stories.map((story) => roles.find((role) => story.roles[role]))).filter((held) => held.every(Boolean));
    this.parts = stories.map(stretches);
    this.stretchOf = this.parts.map((part, i) => {
      const out = new Array(stories[i].steps);
      for (const [key, steps] of part) for (const k of steps) out[k] = key;
      return out;
    });
    this.covered = stories.map((story) => new Map(this.quantities.flat().map((role) => [role, coverage(story, role)])));
    this.shapes = stories.map(({ view }) => view.score_shape ?? [Infinity, Infinity]);
    this.joined = this.joinsApart();
    const inStep = sameLines(stories);
    const found = inStep ? [this.firstByStep()] : [this.firstByVisit() ?? this.firstByTile(), this.firstByJoin(), this.firstByBuffer()];
    this.first = found.filter(Boolean).sort((a, b) => a.t - b.t)[0] ?? null;
    const button = this.player.$(".parting button");
    button.disabled = !this.first;
    this.player.$(".parting .says").textContent = this.first?.said() ?? (inStep ? SAME : `${SAME} wherever both have seen the same columns`) + ".";
  }

  /** The part of the matrix that both runs have; features are as many as both have. */
  bounds(role) {
    const [height, width] = this.shapes.reduce(([h, w], [height, width]) => [Math.min(h, height), Math.min(w, width)]);
    return [height, BY_FEATURE.includes(role) && !this.player.stories[0].outputMap ? Infinity : width];
  }

  /** Whether what a quantity holds since these steps is made of the same columns in both runs. */
  alike(held, set) {
    const [left, right] = set.map((step, i) => this.covered[i].get(held[i]).get(step));
    return left === right;
  }

  /** The two runs' values of a quantity at their own steps, if both have set it in this stretch, from the same columns; else null. */
  pair(held, steps, key) {
    const { stories } = this.player;
    const since = this.parts.map((part) => part.get(key)?.[0]);
    if (since.some((step) => step === undefined)) return null;
    const set = stories.map((story, i) => story.changedAt(held[i], since[i], steps[i]));
    if (set.some((step) => step < 0) || !this.alike(held, set)) return null;
    const values = stories.map((story, i) => placed(story, held[i], steps[i]));
    return values.every(Boolean) ? { values, set } : null;
  }

  /** The first difference of any variable, of two runs of the same lines: {t, row, said}; null where there is none. */
  firstByStep() {
    const { stories } = this.player;
    const [one, other] = stories;
    for (let k = 0; k < one.steps; k++) {
      const theirs = new Map(other.changes(k).map(({ label, value }) => [label, value]));
      for (const { label, value } of one.changes(k)) {
        const twin = theirs.get(label);
        if (!isFloat(value.dtype) || value.data.length !== twin?.data?.length) continue;
        const apart = apartIn(value, twin);
        const at = value.data.findIndex((x, i) => apart(x, twin.data[i]));
        if (at < 0) continue;
        const rows = one.tile(k)?.rows.length ?? 1;
        return { t: this.player.positionOf[0].get(k), row: Math.floor((at * rows) / value.data.length), said: () => this.sentenceOf(label, k, value, at, twin.data[at]) };
      }
    }
    return null;
  }

  /** An element of a role's value, in the matrix's own rows and columns. */
  spot(role, k, [r, c]) {
    const [story] = this.player.stories;
    const byCell = BY_CELL.includes(role) || (role === "output" && story.outputMap);
    const { rows, cols } = story.tile(k) ?? {};
    const row = rows?.length > r ? rows[r] : r;
    if (BY_ROW.includes(role)) return `row ${row}`;
    if (c === undefined) return `row ${rows?.[0] ?? 0}, column ${cols?.[r] ?? r}`;
    return `row ${row}, ${byCell ? `column ${cols?.[c] ?? c}` : `dimension ${c}`}`;
  }

  sentenceOf(label, k, value, at, there) {
    const [story] = this.player.stories;
    const index = value.shape.map((side, axis) => Math.floor(at / value.shape.slice(axis + 1).reduce((a, b) => a * b, 1)) % side);
    const [role] = Object.entries(story.view.roles ?? {}).find(([, name]) => name === label) ?? [];
    const where = !index.length ? "" : ` of ${role ? this.spot(role, k, index) : `element ${index.join(", ")}`}`;
    return `They first part in ${label}:${where} it is ${short(value.data[at])} on the left and ${short(there)} on the right (${place(story, k)}).`;
  }

  /** The first difference within a tile visit that both make: {t, row, said}; null where there is none. */
  firstByVisit() {
    const { positionOf } = this.player;
    const keys = [...this.parts[0].keys()].filter((key) => isVisit(key) && this.parts[1].has(key)).sort((a, b) => stretchOrder(a) - stretchOrder(b));
    for (const key of keys) {
      const ends = this.parts.map((part) => part.get(key).at(-1));
      let found = null;
      for (const held of this.quantities) {
        const both = this.pair(held, ends, key);
        const [element] = both ? differing(...both.values, this.bounds(held[0]), 1) : [];
        if (!element) continue;
        const t = Math.max(...both.set.map((step, i) => positionOf[i].get(step)));
        if (!found || t < found.t) found = { t, row: element.r, said: () => this.sentence(held, both.set, element) };
      }
      if (found) return found;
    }
    return null;
  }

  /** The first difference between what the runs made of the same columns, each in its own time: one may take more passes, or another order. */
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
        if (element) first = { t, row: element.r, said: () => this.sentence(held, [one.step, other.step], element) };
      }
    }
    return first;
  }

  /** What a role holds when a tile is done with: Map(the tile's rows, the columns it stands for, which time → {step, here}). */
  finished(story, role, covered) {
    const last = new Map();                                // of each visit; a kernel without visits is one to its program
    for (const { step } of story.eventsOf(role)) {
      const program = story.programAt[step], visit = story.visitAt[step];
      if (visit < 0 && story.programs[program].visits) continue;                                                   // a start value, not a tile's
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

  /** The pairs that both runs join of the same columns and that differ: [{row, name, cols, set: each run's step, left, right}], of all rows. */
  joinsApart() {
    const { stories } = this.player;
    if (!stories.every((story) => story.joins)) return [];
    const rows = Math.min(...this.shapes.map(([height]) => height));
    const out = [];
    for (let row = 0; row < rows; row++) {
      const [left, right] = stories.map((story) => new Map(story.pairs(row).filter(({ children }) => children.length).map((pair) => [pair.cols.join(), pair])));
      for (const [columns, one] of left) {
        const other = right.get(columns);
        for (const [part, role] of other ? [["m", "running_max"], ["l", "running_sum"]] : []) {
          if (!farApart(one[part], other[part], SINGLE)) continue;
          const set = [one, other].map(({ begin, step }, i) => stories[i].changedAt(role, begin, step));
          out.push({ row, name: stories[0].view.roles[role], cols: one.cols, set, left: one[part], right: other[part] });
        }
      }
    }
    return out;
  }

  /** The first join after which the pairs of the same columns differ: {t, row, said}; null where there is none. */
  firstByJoin() {
    const { stories, positionOf } = this.player;
    const [found] = this.joined.map((join) => ({ ...join, t: Math.max(...join.set.map((step, i) => positionOf[i].get(step))) })).sort((a, b) => a.t - b.t);
    if (!found) return null;
    const { t, row, name, cols, set, left, right } = found;
    const places = set.map((step, i) => place(stories[i], step));
    const said = () => `They first part in ${name}: of row ${row}, where the tiles of columns ${extent(cols)} are joined, it is ${short(left)} on the left (${places[0]}) and ${short(right)} on the right (${places[1]}).`;
    return { t, row: 0, said };
  }

  /** The first store to a buffer in HBM that the other run has none of: {t, row, said}; null where there is none. */
  firstByBuffer() {
    const { stories, positionOf } = this.player;
    const stored = stories.map(firstStores);
    const own = stored.flatMap((stores, i) => [...stores].filter(([name]) => !stored[1 - i].has(name)).map(([name, step]) => ({ i, name, step, t: positionOf[i].get(step) })));
    const [found] = own.sort((a, b) => a.t - b.t);
    if (!found) return null;
    const { i, name, step, t } = found;
    const [here, there] = i === 0 ? ["left", "right"] : ["right", "left"];
    const said = () => `They first part in memory: the ${here} writes ${name} to HBM (${place(stories[i], step)}); the ${there} has no ${name} there.`;
    return { t, row: 0, said };
  }

  sentence(held, steps, { row, across, left, right }) {
    const { stories } = this.player;
    const [one, other] = stories.map((story, i) => ({ name: story.view.roles[held[i]], place: place(story, steps[i]), tile: story.tile(steps[i]) }));
    const word = stories[0].view.row_labels?.[row];
    const where = `row ${row}${word === undefined ? "" : ` “${word}”`}${across === null ? "" : `, ${BY_CELL.includes(held[0]) || stories[0].outputMap ? "column" : "dimension"} ${across}`}`;
    const names = one.name === other.name ? one.name : `${one.name} and ${other.name}`;
    const said = `They first part in ${names}: of ${where} it is ${short(left)} on the left (${one.place}) and ${short(right)} on the right (${other.place}).`;
    const tiles = [one, other].map(({ tile }) => tile && extent(tile.cols));
    return tiles[0] === tiles[1] || tiles.includes(null) ? said : `${said} The left is at columns ${tiles[0]}, the right at ${tiles[1]}.`;
  }

  goToFirst() {
    const { player, first } = this;
    if (player.stories.length < 2) return false;
    if (!first) return undefined;
    player.go(first.t);
    return player.picked(0, { row: first.row, col: 0 });
  }

  /** Before the lanes are drawn: the rows and cells of each that differ from the other's at this step. */
  render(t) {
    const { lanes, stories, woven } = this.player;
    if (stories.length < 2) return;
    const steps = woven.map((own) => own[t]);
    const keys = steps.map((k, i) => this.stretchOf[i][k]);
    const marks = { rows: new Set(), cells: new Set(), said: [] };
    if (keys[0] === keys[1] && isVisit(keys[0])) {
      for (const held of this.quantities) {
        const both = this.pair(held, steps, keys[0]);
        const [role] = held;
        const found = both ? differing(...both.values, this.bounds(role)) : [];
        if (!found.length) continue;
        if (BY_ROW.includes(role)) for (const { row } of found) marks.rows.add(row);
        if (role === "scores") for (const { row, across } of found) marks.cells.add(`${row},${across}`);
        marks.said.push(`${stories[0].view.roles[role]} in ${found.length} ${BY_ROW.includes(role) ? "row" : "element"}${found.length === 1 ? "" : "s"}`);
      }
    }
    for (const { row, name, set } of this.joined) {
      if (!set.every((step, i) => this.holds(stories[i], step, steps[i]))) continue;
      marks.rows.add(row);
      marks.said.push(`${name} in 1 row`);
    }
    lanes.forEach((lane) => (lane.marks = marks));
    this.said = marks.said.length ? `≠ ${marks.said.join(", ")}` : "";
  }

  /** Whether at step k a program still holds the pair that it joined at step `set`. */
  holds(story, set, k) {
    return k >= set && story.programAt[k] === story.programAt[set] && story.changedAt("other_at", set, k) < 0;
  }

  /** After they are drawn: how many differ. */
  write() {
    const { said, player } = this;
    const box = player.$(".parting .now");
    if (box.textContent !== said) box.replaceChildren(said ? element("span", "", said) : "");
  }
}
