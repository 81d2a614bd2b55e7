// What a step does, in one short sentence made from its numbers. Roles of the catalog's kernels are told for the
// selected row, in the algorithm's symbols; every other variable is told by what it holds.

import { counted, grouped, number, range, times } from "./numbers.js";
import { sourceOfOdd } from "./provenance.js";
import { countNaN, isNormalised } from "./story.js";
import { isFloat } from "./trace.js";
import { minMax } from "./words.js";

const LONGEST_OUTPUT = 400;  // the end of what a run that failed has printed, in characters
const LONGEST_NAME = 24, LONGEST_FUNCTION = 32, LONGEST_OWNED = 48;
const LONGEST_LIST = 6;
const LONGEST_CONDITION = 48;
const MATRICES = new Set(["q", "k", "v", "o", "s", "p", "h", "w"]);  // written as capitals in the catalog's kernels
const NEARLY = 1e-5;                                        // relative; sums here are float64, the kernel's float32

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const named = (one, many, from, to) => `${from === to ? one : many} ${range(from, to)}`;
const nearlyEqual = (a, b) => Math.abs(a - b) <= NEARLY * Math.max(1, Math.abs(a), Math.abs(b));
const summed = (list) => list.reduce((sum, x) => sum + x, 0);
const topmost = (list) => list.reduce((top, x) => (x > top ? x : top), -Infinity);

/** The sentence of step k for row `row` of the current tile. */
export function sentence(story, k, row) {
  return new Telling(story, k, row).sentence();
}

export class Telling {
  constructor(story, k, row) {
    this.story = story;
    this.k = k;
    this.rows = story.rowCount(k);
    this.row = Math.min(row, this.rows - 1);
    this.line = story.text(k).trim();
    this.program = story.programs[story.programAt[k]];
    this.begin = story.visit(k)?.begin ?? this.program.first;
  }

  sentence() {
    const { story, k } = this;
    const { failure, output = "" } = story.trace.header.report ?? {};
    if (failure?.step === k) {
      const printed = output.trim() && `Printed: ${output.trim().slice(-LONGEST_OUTPUT)}`;
      return ["The run stopped here.", failure.message, failure.traceback, printed].filter(Boolean).join("\n");
    }
    const found = (story.trace.header.report?.findings ?? []).filter(({ step }) => step === k);
    const said = found.map(({ words, remedy }) => `${words}.${remedy ? ` → ${remedy}.` : ""}`);
    const odd = story.firstOdd?.step === k ? sourceOfOdd(story, k) : null;
    const read = odd?.of.map(({ words }) => words).join(", ");
    return [...said, this.ofStep(), odd && read && `${odd.made}, the first, from ${read}.`].filter(Boolean).join("\n");
  }

  /** The step alone, without what was found there. */
  ofStep() {
    const { story, k, line } = this;
    if (k === story.frameStart[k]) return this.opening();
    const moved = this.moved();
    if (moved) return moved;
    const changes = story.changes(k);
    if (!changes.length) return this.still();
    if (/^for\b/.test(line)) return this.next(changes);
    for (const change of changes) {
      const role = Object.keys(story.roles).find((one) => story.nameOf(one, k) === change.name);
      const told = role && this[TOLD_BY[role]]?.(change.value, role);
      if (told) return told;
    }
    return this.plainly(changes);
  }

  /** “Row 3 “cat”: …”; a kernel of one row needs no name for it. */
  say(text) {
    const { story, row } = this;
    const at = story.tile(this.k)?.rows[row] ?? row;
    const word = story.view.row_labels?.[at];
    if (this.rows === 1 && word === undefined) return `${this.capital(text)}.`;
    return `Row ${at}${word === undefined ? "" : ` “${clipped(word, LONGEST_NAME)}”`}: ${text}.`;
  }

  // --- the selected row's numbers ---

  /** A role's number for the row after step k; undefined where it has none. */
  number(role, k = this.k) {
    return this.pick(this.story.role(role, k));
  }

  pick(value) {
    if (!value?.data) return undefined;
    if (value.data.length === 1) return value.data[0];
    return value.shape.length === 1 && value.shape[0] === this.rows ? value.data[this.row] : undefined;
  }

  /** The row's part of a tile, as an array; null where the value is not a tile of these rows. */
  along(value) {
    if (!value?.data || !value.shape.length) return null;
    const { shape, data } = value;
    if (shape.length === 2 && shape[0] === this.rows)
      return Array.from(data.slice(this.row * shape[1], (this.row + 1) * shape[1]));
    return shape.length === 1 && this.rows === 1 ? Array.from(data) : null;
  }

  /** A role's part along the row, if it was set in this tile. */
  fresh(role) {
    return this.setHere(role) ? this.along(this.story.role(role, this.k)) : null;
  }

  setHere(role, k = this.k) {
    return this.story.changedAt(role, this.begin, k) >= 0;
  }

  // --- what begins, what moves, what stays ---

  opening() {
    const { story, k, program } = this;
    const { launches, sources } = story.trace.header;
    const running = clipped(sources[story.trace.source[k]].function, LONGEST_FUNCTION);
    if (story.trace.depth[k] > 0) return `Helper ${running} starts.`;
    const launch = launches[program.launch];
    const kernel = clipped(sources[launch.source].function, LONGEST_FUNCTION);
    const word = launches.length > 1 ? `Launch ${program.launch + 1} of ${launches.length}, ${kernel}: program`
      : "Program";
    const name = story.view.program_names?.[program.id.join(",")];
    const owns = name ? `: ${`${story.view.pick_program?.toLowerCase() ?? ""} ${name}`.trim()}` : "";
    const axes = [0, 1, 2].filter((axis) => launch.grid[axis] > 1);
    const each = (said) => `(${axes.map(said).join(", ")})`;
    const [only] = axes, at = program.id[only], of = launch.grid[only];
    const id = axes.length > 1 ? `${each((axis) => program.id[axis])} of ${each((axis) => `0–${launch.grid[axis] - 1}`)}`
      : axes.length ? `${at}, ${at ? "one" : "the first"} of ${counted(of, "program")} (0 to ${of - 1}),`
      : "0, the only one,";
    return `${word} ${id} starts${clipped(owns, LONGEST_OWNED)}.`;
  }

  /** A loop's header: the part of the tile that its variable chooses, where it chooses one. */
  next(changes) {
    const { story, k, program } = this;
    const again = story.nextAt(k);
    for (const which of [1, 0]) {
      const role = ["rows", "cols"][which];
      const name = story.nameOf(role, k);
      const change = name === undefined ? undefined : story.firstChange(role, k);
      if (!(change < Math.min(again, program.end))) continue;
      const words = story.text(change).split(/\W+/);
      const { data } = story.at(name, change) ?? {};
      if (data?.length && changes.some(({ label }) => words.includes(label))) return `Next: ${this.part(data, which)}.`;
    }
    return `Next: ${changes.map(({ label, value }) => `${label} = ${this.value(value)}`).join(", ")}.`;
  }

  /** What the step loads, stores or updates; "" for nothing. */
  moved() {
    const { story, k } = this;
    const { access_at: at } = story.trace;
    const accesses = Array.from({ length: at[k + 1] - at[k] }, (_, i) => this.access(at[k] + i));
    if (!accesses.length) return "";
    if (accesses.length > 1) {
      const parts = accesses.slice(0, 3).map(({ verb, bytes, name }) => `${verb} ${grouped(bytes)} bytes of ${name}`);
      const rest = accesses.length - parts.length;
      return `${this.capital(parts.join(", "))}${rest ? ` and ${rest} more` : ""} (HBM).`;
    }
    const [{ verb, way, where, name, lanes, shape, bytes }] = accesses;
    if (!lanes) return `${this.capital(verb)} nothing of ${name}: all lanes are masked off.`;
    const tiled = shape.length > 1 && shape.reduce((n, side) => n * side, 1) === lanes;
    const many = tiled ? `${times(shape)} numbers` : counted(lanes, "number");
    const scores = this.rows === 1 && /load/i.test(verb) && this.fresh("scores");
    const top = scores && this.changes("scores") ? `; the largest is ${number(topmost(scores))}` : "";
    const what = `${where ? `${where} of ` : ""}${name}`;
    return `${this.capital(verb)} ${what} ${way} HBM: ${many}, ${counted(bytes, "byte")}${top}.`;
  }

  /** The text with a capital first letter; a symbol stays as it is. */
  capital(text) {
    return /^([mℓαβ]|P\u0303?|exp)[ ,]/.test(text) ? text : text[0].toUpperCase() + text.slice(1);
  }

  changes(role) {
    return this.story.changedAt(role, this.k, this.k) >= 0;
  }

  /** One access: what it is called, how many lanes took part, and which part of the buffer they touched. */
  access(a) {
    const { story } = this;
    const { trace } = story;
    const buffer = story.launchAt(this.k).buffers[trace.access_buffer[a]];
    const bare = buffer.name.replace(/_(ptr|desc)$/, "");
    const index = trace.value(trace.access_value[a]);
    const mask = trace.access_mask[a] < 0 ? null : trace.value(trace.access_mask[a]).data;
    const lanes = trace.access_bytes[a] / buffer.item_bytes;
    const [verb, way] = [["loads", "from"], ["writes", "to"], ["updates", "in"]][trace.access_kind[a]];
    return {
      verb, way, lanes, bytes: trace.access_bytes[a], ...this.touched(buffer, index, mask, lanes),
      name: story.view.kernel && MATRICES.has(bare) ? bare.toUpperCase() : clipped(bare, LONGEST_NAME),
    };
  }

  /** The rows and columns of a buffer that the active lanes of a tile touch, in words: {where, shape}. */
  touched({ shape, strides }, { data, shape: tile }, mask, lanes) {
    const nowhere = { where: "", shape: [] };
    if (!data || !tile || !lanes || strides.some((stride) => stride < 1)) return nowhere;
    const active = (i) => !mask || mask[mask.length === 1 ? 0 : i];
    let first = 0, last = data.length - 1;
    while (first < last && !active(first)) first++;
    while (last > first && !active(last)) last--;
    const axes = strides.map((_, axis) => axis).sort((a, b) => strides[b] - strides[a]);
    const place = (element) => {
      const out = [];
      for (const axis of axes) {
        out[axis] = Math.floor(element / strides[axis]);
        element -= out[axis] * strides[axis];
      }
      return out;
    };
    const from = place(data[first]), to = place(data[last]);
    const sides = from.map((at, axis) => to[axis] - at + 1);
    const touched = sides.map((side, axis) => [side, axis]).filter(([side]) => side !== 1);
    if (sides.some((side) => side < 1) || sides.reduce((n, side) => n * side, 1) !== lanes) return nowhere;
    const rank = shape.length, row = rank - 2, col = rank - 1;
    const part = (one, many, axis) => named(one, many, from[axis], to[axis]);
    if (touched.some(([, axis]) => axis < row)) return { where: "", shape: touched.map(([side]) => side) };
    if (rank !== 2 && tile.length < 2) {
      const flat = touched.length > 1;                      // the lanes run through several axes: counted from the start
      const where = flat ? named("entry", "entries", data[first], data[last])
        : part("entry", "entries", touched[0]?.[1] ?? col);
      return { where, shape: [lanes] };
    }
    const rows = part("row", "rows", row), cols = part("column", "columns", col);
    const whole = sides[col] === shape[col];
    if (tile.length < 2) return { where: sides[row] === 1 ? cols : whole || sides[col] === 1 ? rows
      : "", shape: [lanes] };
    return { where: whole ? rows : `${rows}, ${cols}`, shape: [sides[row], sides[col]] };
  }

  /** A step that changes no variable. */
  still() {
    const { story, k, line } = this;
    const holds = story.branch(k);
    if (holds !== null) {
      const test = /^(?:el)?(?:if|while)\s+(.*?):\s*(?:#.*)?$/.exec(line)?.[1] ?? "";
      const condition = test && test.length <= LONGEST_CONDITION ? test : "The condition";
      const loop = /^while\b/.test(line);
      if (holds) return `${condition} is true: ${loop ? "the loop runs again" : "the lines inside run"}.`;
      return `${condition} is false: ${loop ? "the loop ends" : "the lines inside are skipped"}.`;
    }
    if (/^(el)?if\b|^while\b/.test(line)) return "Tests a condition.";
    if (/barrier/.test(line)) return "All threads wait here for each other.";
    if (/^return\b/.test(line)) return story.trace.depth[k] ? "The helper returns its result." : "The program ends.";
    if (/^break\b/.test(line)) return "Leaves the loop.";
    if (/^continue\b/.test(line)) return "Goes on to the next iteration.";
    return "No variable changes.";
  }

  // --- the roles ---

  rowsTaken(value) {
    return isCoordinates(value) ? `${this.rows === 1 ? "This program" : "This tile"}: ${this.part(value.data, 0)}.`
      : "";
  }

  colsTaken(value) {
    return isCoordinates(value) ? `This tile: ${this.part(value.data, 1)}.` : "";
  }

  /** “keys 16–31”: a tile's rows (which 0) or columns (1), and where the matrix ends within them. */
  part(data, which) {
    const word = this.story.view.axes?.[which] ?? ["rows", "columns"][which];
    const one = { queries: "query", keys: "key", rows: "row", columns: "column", tokens: "token" }[word] ?? word;
    const last = data[data.length - 1], end = this.story.view.score_shape?.[which] - 1;
    const beyond = last > end ? ` (the last ${one} is ${end})` : "";
    return `${named(one, word, data[0], last)}${beyond}`;
  }

  /** What a score is called: a loss's is a logit, that of a softmax alone an element. */
  get score() {
    const { roles, axes } = this.story.view;
    return roles?.target ? "logit" : axes?.length ? "score" : "element";
  }

  scoresMade(value) {
    const now = this.along(value);
    if (!now) return "";
    if (/\bzeros\b/.test(this.line)) return `${this.capital(this.score)}s start at 0: ${times(value.shape)} on chip.`;
    const old = this.setHere("scores", this.k - 1) ? this.story.role("scores", this.k - 1) : null;
    if (old?.data?.length === value.data.length) return this.masked(old.data, value.data) || this.rowOfScores(now);
    return this.rowOfScores(now);
  }

  masked(old, now) {
    let hidden = 0, left = 0, other = false;
    for (let i = 0; i < now.length; i++) {
      if (now[i] === -Infinity) hidden += old[i] !== -Infinity;
      else left++, (other ||= now[i] !== old[i] && now[i] === now[i]);
    }
    if (other) return "";
    if (!hidden) return `No ${this.score} of this tile is masked.`;
    if (!left) return `The mask hides the whole tile: all its ${this.score}s become −∞.`;
    return `The mask hides ${grouped(hidden)} of this tile's ${grouped(now.length)} ${this.score}s: they become −∞.`;
  }

  rowOfScores(now) {
    const nans = now.filter((x) => x !== x).length;
    if (nans) return this.say(`${nans} of ${now.length} ${this.score}s ${nans === 1 ? "is" : "are"} NaN`);
    const top = topmost(now);
    if (now.length === 1) return this.say(`${this.score} = ${number(top)}`);
    return this.say(top === -Infinity ? `all ${now.length} ${this.score}s are −∞`
      : `${now.length} ${this.score}s, the largest is ${number(top)}`);
  }

  maximumMade(value, role) {
    const now = this.pick(value);
    if (now === undefined) return "";
    const before = this.number("running_max", this.k - 1);
    const fixed = /\bwhere\b/.test(this.line);
    if (role === "running_max" && this.setHere("new_max", this.k - 1) && this.mentions("new_max")) {
      return this.say(`m = ${number(now)}${this.story.visit(this.k) ? " is kept for the next tile" : ""}`);
    }
    if (now !== now) return this.say("m is NaN");
    if (before === undefined && now === -Infinity) return this.everyRow(`m starts at −∞: no ${this.score}s yet`);
    if (fixed && before === -Infinity && now === 0) return this.say(`no ${this.score}s yet: 0 replaces m = −∞`);
    if (fixed && now === before) return this.say(`m stays ${number(now)}`);
    const [from, to] = [number(before ?? -Infinity), number(now)];
    if (this.joins()) return this.say(`m = max(${from}, ${number(this.number("other_max"))}) = ${to}`);
    const ignored = this.fresh("scores")?.some((x) => x !== x) ? " (max ignores NaN)" : "";
    if (now === -Infinity) return this.say(`m = −∞: all ${this.score}s so far are −∞${ignored}`);
    const { tileName: tile } = this.story;
    const alone = !this.mentions("running_max", this.line.replace(/^[^=]*=/, ""));
    if (alone && before !== undefined)
      return this.say(`m = ${number(now)}, of this ${tile} only: the earlier ${number(before)} is lost`);
    if (alone) return this.say(`m = ${number(now)}${ignored}`);
    if (before === undefined || before === -Infinity)
      return this.say(`m = ${number(now)}, the first maximum${ignored}`);
    const one = this.story.view.axes ? this.score : "element"; // attention's and a loss's, a softmax's
    const larger = tile === one ? "is larger" : `has a larger ${one}`;
    if (now > before) return this.say(`m rises from ${from} to ${to}: this ${tile} ${larger}${ignored}`);
    return this.say(`m ${now === before ? `stays ${to}: no larger ${one}` : `falls from ${from} to ${to}`}${ignored}`);
  }

  /** Whether the step joins the (m, ℓ) of two tiles. */
  joins() {
    return this.story.role("other_max", this.k) !== null;
  }

  /** Whether it joins parts of attention: each is divided by its sum, so that its pair is (lse, 1). */
  joinsParts() {
    return this.joins() && !this.story.view.roles.other_sum;
  }

  everyRow(text) {
    return this.rows > 1 ? `All rows: ${text}.` : `${this.capital(text)}.`;
  }

  rescaleMade(value) {
    const alpha = this.pick(value);
    if (alpha === undefined) return "";
    const before = this.number("running_max", this.k - 1), now = this.number("new_max");
    if (alpha !== alpha) return this.say("α is NaN, so the rest of this row is NaN");
    if (this.joins()) return this.say(this.factor("α", alpha, before, now, "first"));
    if (alpha === 0 && before === -Infinity) return this.say("α = 0: there is nothing to keep yet");
    if (alpha === 0) return this.say("α = 0: the new m is so much larger that nothing before it counts");
    if (alpha === 1) return this.say("α = 1: m did not rise, so nothing is rescaled");
    const written = this.exponential("α", alpha, before, now);
    return this.say(`${written}: everything so far ${alpha < 1 ? "shrinks" : "grows"}`);
  }

  otherRescaleMade(value) {
    const beta = this.pick(value);
    return beta === undefined ? "" : this.say(this.factor("β", beta, this.number("other_max"), this.number("new_max"),
      "second"));
  }

  /** What a factor of a join does to its sum. */
  factor(letter, value, from, to, which) {
    if (this.joinsParts()) {
      const own = which === "first" ? "the parts so far" : "this part";
      if (from === -Infinity) return `${letter} = 0: nothing ${which === "first" ? "is merged yet" : "was seen in this part"}`;
      if (value === 1) return `${letter} = 1: ${own} ${which === "first" ? "keep" : "has"} the largest lse`;
      return `${this.exponential(letter, value, from, to)} is the weight of ${own}`;
    }
    if (value === 1) return `${letter} = 1: the ${which} tile already has the larger m`;
    return `${this.exponential(letter, value, from, to)} rescales the ${which} sum`;
  }

  /** “α = exp(0.2 − 0.7) = 0.6065”, or without the formula where the kernel's own is another. */
  exponential(letter, value, from, to) {
    const written = `${number(from)} − ${to < 0 ? `(${number(to)})` : number(to)}`;
    if (nearlyEqual(Math.exp(from - to), value)) return `${letter} = exp(${written}) = ${number(value)}`;
    if (nearlyEqual(2 ** (from - to), value)) return `${letter} = 2^(${written}) = ${number(value)}`;
    return `${letter} = ${number(value)}`;
  }

  exponentialsMade(value) {
    const now = this.along(value);
    if (!now) return "";
    const sum = summed(now), top = topmost(now);
    const name = isNormalised(this.story, this.k) ? "P" : "P̃";
    if (sum !== sum) return this.say(`${name} contains NaN`);
    if (top === Infinity) return this.say(`exp overflows to ∞: the ${this.score} is too large`);
    const masked = this.fresh("scores")?.every((x) => x === -Infinity);
    if (sum === 0) return this.say(`${name} = 0${masked ? `: all ${this.score}s of this tile are −∞` : " in this tile"}`);
    if (now.length === 1) return this.say(`${name} = ${number(top)}`);
    const state = name === "P" ? "" : ", not yet divided by ℓ";
    return this.say(`${name}${state}: the largest is ${number(top)}, the sum ${number(sum)}`);
  }

  sumMade(value) {
    const now = this.pick(value);
    if (now === undefined) return "";
    const old = this.number("running_sum", this.k - 1);
    if (now !== now) return this.say(old !== old ? "ℓ stays NaN" : "ℓ becomes NaN");
    if (old !== old) return this.say(`ℓ was NaN and becomes ${number(now)}: the NaN is lost`);
    if (now === Infinity) return this.say("ℓ overflows to ∞");
    if (/\bwhere\b/.test(this.line)) {
      if (old === 0 && now === 1) return this.say("ℓ = 0 becomes 1, to avoid a division by 0");
      if (old === now) return this.say(`ℓ stays ${number(now)}`);
    }
    const other = this.number("other_sum");
    if (old !== undefined && other !== undefined && !/\bload\b/.test(this.line)) return this.joined(old, other, now);
    if (old !== undefined && this.joinsParts() && this.mentions("other_rescale")) {
      const [alpha, beta] = [this.number("rescale"), this.number("other_rescale")].map((x) => number(x));
      return this.say(`ℓ = ${number(old)} × ${alpha} + ${beta} (this part) = ${number(now)}`);
    }
    const terms = this.fresh("exponentials");
    if (!terms) return old === undefined && now === 0 ? this.everyRow("ℓ starts at 0") : "";
    const added = summed(terms);
    const alpha = this.setHere("rescale") ? this.number("rescale") : 1;
    const [from, to] = [number(old ?? 0), number(now)];
    const { tileName: tile } = this.story;
    if (!old) return this.say(now === 0 ? `ℓ stays 0: this ${tile} adds 0` : `ℓ was 0, so ℓ = ${to} (this ${tile})`);
    if (nearlyEqual(now, old * alpha + added)) {
      const kept = alpha === 1 ? from : `${from} × ${number(alpha)}`;
      return this.say(`ℓ = ${kept} + ${number(added)} (this ${tile}) = ${to}`);
    }
    if (nearlyEqual(now, added)) return this.say(`ℓ = ${to}, of this ${tile} only: the earlier ${from} is lost`);
    return this.say(now === old ? `ℓ stays ${to}` : `ℓ changes from ${from} to ${to}`);
  }

  /** Two sums become one: each rescaled, or, wrongly, as they are. */
  joined(old, other, now) {
    const alpha = this.number("rescale"), beta = this.number("other_rescale");
    if (nearlyEqual(now, old * alpha + other * beta)) {
      return this.say(`ℓ = ${number(old)} × ${number(alpha)} + ${number(other)} × ${number(beta)} = ${number(now)}`);
    }
    const apart = this.number("running_max") !== this.number("other_max");
    const note = apart ? ", not rescaled though the two tiles have different m" : "";
    return this.say(`ℓ = ${number(old)} + ${number(other)} = ${number(now)}${note}`);
  }

  keptMade({ shape, data }) {
    if (shape?.length !== 1 || !data.length) return "";
    const kept = Array.from(data).filter((x) => x > -Infinity);
    return kept.length ? `Top ${kept.length} so far: ${listed(kept)}.`
      : `Nothing is kept yet: ${counted(data.length, "place")}.`;
  }

  keptWeightsMade({ shape, data }) {
    return shape?.length === 1 && data.length ? `The kept scores, as weights: ${listed(Array.from(data))}.` : "";
  }

  accumulatorMade(value) {
    const now = value.shape?.length === 2 ? this.along(value) : null;
    if (!now) return "";
    const { story, k, line } = this;
    const before = story.role("accumulator", k - 1);
    const old = this.along(before);
    if (!old) return countNaN(value) || value.data.some((x) => x) ? ""
      : `The accumulator starts at 0: ${times(value.shape)} numbers on chip.`;
    const alpha = this.setHere("rescale") ? this.number("rescale") : undefined;
    const turned = now.some((x) => x !== x) && !old.some((x) => x !== x);
    if (/\bdot\b/.test(line)) {
      if (turned) return this.say("the output becomes NaN");
      const name = isNormalised(story, k) ? "P" : "P̃";
      if (this.fresh("exponentials")?.every((x) => x === 0))
        return this.say(`${name} V of this tile is 0: the output stays`);
      const divided = /\/\s*\w/.test(line) ? ", then divided by ℓ" : "";
      return this.say(`${name} V of this tile is added to the output${divided}`);
    }
    if (/\bwhere\b/.test(line)) return this.say(turned ? "a NaN in V reaches this row's output"
      : "no NaN of V reaches this row's output");
    if (alpha === undefined) return "";
    if (this.joinsParts()) {
      const [before, own] = [alpha, this.number("other_rescale")].map((x) => number(x));
      return this.say(`output so far × ${before} (α) + output of this part × ${own} (β)`);
    }
    if (this.mentions("running_sum")) {
      const factor = number(this.number("running_sum") * alpha);
      return this.say(`output so far × ${factor} (ℓ × α): undo the division by ℓ, then rescale`);
    }    const effect = { 0: ": nothing to keep yet", 1: ": it stays" }[alpha] ?? "";
    return this.say(`output so far × ${number(alpha)} (α)${effect}`);
  }

  mentions(role, text = this.line) {
    const name = this.story.view.roles?.[role];
    return Boolean(name) && text.split(/\W+/).includes(name);
  }

  // --- a backward pass ---

  rowGradientMade(value) {
    const now = this.pick(value);
    if (now === undefined) return "";
    return this.say(now === now ? `δ = ${number(now)}, one number for all its keys` : "δ is NaN");
  }

  weightsGradientMade(value) {
    const now = this.along(value);
    if (!now) return "";
    const [low, high] = minMax(now) ?? [NaN, NaN];
    return this.say(`dP = dO · V: ${counted(now.length, "number")} from ${number(low)} to ${number(high)}`);
  }

  scoresGradientMade(value) {
    const now = this.along(value);
    if (!now) return "";
    const delta = this.number("row_gradient"), p = this.fresh("exponentials"), dp = this.fresh("weights_gradient");
    if (now.some((x) => x !== x)) return this.say("dS contains NaN");
    const at = p ? p.indexOf(topmost(p)) : -1;
    if (delta === undefined || !dp || at < 0) return this.say(`dS: its sum is ${number(summed(now))}`);
    const shown = `${number(p[at])} × (${number(dp[at])} − ${number(delta)}) = ${number(now[at])}`;
    return this.say(`dS = P (dP − δ), for its largest weight ${shown}`);
  }

  gradientSumMade(value, role) {
    const [now, of] = [value.shape?.length === 2, { queries_gradient: "dS K", keys_gradient: "dSᵀ Q",
      values_gradient: "Pᵀ dO" }[role]];
    if (!now) return "";
    const symbol = { queries_gradient: "dQ", keys_gradient: "dK", values_gradient: "dV" }[role];
    if (/\bdot\b/.test(this.line)) {
      const adds = this.line.split("=")[1].split(/\W+/).includes(this.story.view.roles[role]);
      return `${of} of this tile is ${adds ? `added to ${symbol}` : `this tile's part of ${symbol}`}.`;
    }
    if (/\bwhere\b/.test(this.line)) return "";
    return value.data.some((x) => x) ? "" : `${symbol} starts at 0: ${times(value.shape)} numbers on chip.`;
  }

  // --- a loss ---

  targetMade() {
    const old = this.number("target", this.k - 1), now = this.number("target");
    if (now === undefined) return "";
    if (old === undefined) return this.everyRow("the target's logit is not found yet: −∞");
    if (now > old) return this.say(`the target is in this tile: its logit is ${number(now)}`);
    return this.say(old === -Infinity ? "the target is not in this tile" : "the target's logit is found already");
  }

  lossMade() {
    const now = this.number("loss"), lse = this.number("lse"), target = this.number("target");
    if (now === undefined || lse === undefined) return "";
    if (now === 0 && lse !== target) return this.say("this token does not count: its loss is 0");
    const subtracted = target < 0 ? `(${number(target)})` : number(target);
    return this.say(`loss = L − xₜ = ${number(lse)} − ${subtracted} = ${number(now)}`);
  }

  gradientMade(value) {
    const now = this.along(value), before = this.along(this.story.role("gradient", this.k - 1));
    if (!now || (before && this.setHere("gradient", this.k - 1))) return "";
    const [low, high] = [Math.min(...now), Math.max(...now)].map((x) => number(x));
    return this.say(`dX = (P − 1 at the target) × dloss: from ${low} to ${high}`);
  }

  gradientAdded(value, role) {
    const [symbol, product] = role === "weight_gradient" ? ["dW", "dXᵀ H"] : ["dH", "dX W"];
    if (!/\bdot\b/.test(this.line)) return `${symbol} starts at 0: ${times(value.shape)} numbers on chip.`;
    return `${product} of this tile is added to ${symbol}.`;
  }

  outputMade(value) {
    const now = this.along(value);
    if (!now || !this.line.includes("/")) return "";
    const sum = this.number("running_sum");
    if (now.some((x) => x !== x)) return this.say(sum === Infinity ? "∞ ÷ ∞ = NaN" : "the output contains NaN");
    if (this.story.roles.accumulator)
      return this.say(sum === 0 ? "output = 0: no key was seen"
      : `the output is divided by ℓ = ${number(sum)}, once, at the end`);
    const made = now.length === 1 ? `the output is ${number(now[0])}` : `these outputs sum to ${number(summed(now))}`;
    return this.say(`P̃ ÷ ℓ, with ℓ = ${number(sum)}: ${made}`);
  }

  // --- any variable ---

  plainly(changes) {
    const [first] = changes;
    if (changes.length === 1) {
      const stays = first.value.shape?.length && this.story.at(first.name, this.k - 1) === first.value;
      if (stays) return `${clipped(first.label, LONGEST_NAME)} does not change.`;
      const value = this.pick(first.value);
      const own = value !== undefined && this.rows > 1 && first.value.data.length > 1;
      return own ? this.say(this.isNow(first)) : `${this.isNow(first)}.`;
    }
    const told = changes.slice(0, 2).map((change) => this.isNow(change)).join(", ");
    const rest = changes.length - 2;
    return `${told}${rest > 0 ? `, and ${rest} more` : ""}.`;
  }

  /** A number that a variable holds for the row, as text; undefined where it holds none. */
  value(value) {
    const own = this.pick(value);
    if (own === undefined) return undefined;
    const logical = value.dtype === "i1" || value.text === "True" || value.text === "False";
    return logical ? (own ? "true" : "false") : number(own, !isFloat(value.dtype));
  }

  /** “m_safe = 2.04”, “x_ptrs points to 16 × 32 elements of x”. */
  isNow({ label, value }) {
    const name = clipped(label, LONGEST_NAME);
    if (value.items) return `${name} has ${counted(value.items.length, "value")}`;
    if (value.kind === "p" || value.kind === "b") return this.pointsAt(name, value);
    if (!value.data) return `${name} = ${clipped(value.text ?? "set", LONGEST_CONDITION)}`;
    const { shape, data, dtype } = value;
    if (dtype === "i1" && data.length > 1) {
      const on = data.reduce((count, x) => count + (x ? 1 : 0), 0);
      return `${name} is true for ${grouped(on)} of ${grouped(data.length)} elements`;
    }
    const own = this.value(value);
    if (own !== undefined) return `${name} = ${own}`;
    if (!data.length) return `${name} is empty`;
    const nans = countNaN(value);
    const held = `${name} has ${times(shape)} numbers`, updated = this.updated(label, data);
    if (nans) return `${held}, ${nans === data.length ? "all" : grouped(nans)} of them NaN`;
    const [low, high] = minMax(data);
    const whole = !isFloat(dtype);
    return low === high ? `${updated ?? `${held},`} all ${number(low, whole)}`
      : `${updated ?? held} from ${number(low, whole)} to ${number(high, whole)}`;
  }

  /** “squares: 4 of 8 numbers change, now”, where the line makes it from its value before; else null. */
  updated(label, data) {
    const [, left, right] = /^([^=]*)=(.*)$/s.exec(this.line) ?? [];
    const words = right?.split(/\W+/) ?? [];
    const { story, k } = this, name = story.byName.get(`${story.trace.source[k]} ${label}`);
    const old = story.at(name, k - 1)?.data;
    if (old?.length !== data.length || !(words.includes(label) || /[-+*/]\s*$/.test(left))) return null;
    const changed = data.reduce((n, x, i) => n + !Object.is(x, old[i]), 0);
    return `${clipped(label, LONGEST_NAME)}: ${grouped(changed)} of ${grouped(data.length)} numbers change, now`;
  }

  pointsAt(name, value) {
    const { trace } = this.story;
    const buffer = this.story.launchAt(this.k).buffers[value.buffer]?.name.replace(/_ptr$/, "") ?? "memory";
    const index = value.tile === undefined ? null : trace.value(value.tile);
    if (!index?.data) return `${name} points into ${clipped(buffer, LONGEST_NAME)}`;
    const one = index.data.length === 1 && `element ${grouped(index.data[0])}`;
    return `${name} points to ${one || `${times(index.shape)} elements`} of ${clipped(buffer, LONGEST_NAME)}`;
  }
}

const listed = (list) => {
  const shown = list.slice(0, LONGEST_LIST).map((x) => number(x));
  return `${shown.join(", ")}${list.length > LONGEST_LIST ? " …" : ""}`;
};

const TOLD_BY = {
  rows: "rowsTaken", cols: "colsTaken", scores: "scoresMade", running_max: "maximumMade", new_max: "maximumMade",
    rescale: "rescaleMade",
  exponentials: "exponentialsMade", running_sum: "sumMade", new_sum: "sumMade", accumulator: "accumulatorMade",
    output: "outputMade",
  target: "targetMade", loss: "lossMade", gradient: "gradientMade", input_gradient: "gradientAdded",
    weight_gradient: "gradientAdded",
  other_rescale: "otherRescaleMade", kept: "keptMade", kept_weight: "keptWeightsMade",
  row_gradient: "rowGradientMade", weights_gradient: "weightsGradientMade", scores_gradient: "scoresGradientMade",
  queries_gradient: "gradientSumMade", keys_gradient: "gradientSumMade", values_gradient: "gradientSumMade",
};

const isCoordinates = (value) => Boolean(value.data?.length) && (value.shape.length === 0 || value.shape.length === 1);
