// What a step does, in one plain sentence made from its numbers. Where a kernel's variables play known roles the words are the
// algorithm's, for the selected row; any other variable, and any other kernel, is told as what it holds.

import { grouped, short, times } from "./words.js";
import { countNaN } from "./story.js";
import { isFloat } from "./trace.js";

const LONGEST_NAME = 24, LONGEST_FUNCTION = 32, LONGEST_OWNED = 48;
const LONGEST_LIST = 6;
const LONGEST_CONDITION = 48;
const MATRICES = new Set(["q", "k", "v", "o", "s", "p"]);  // written as capitals in the catalog's kernels
const NEARLY = 1e-5;                                        // relative; sums here are float64, the kernel's float32

/** A number as it is said: "2.04", not "2.040". */
const spoken = (x, whole = false) => short(x, whole).replace(/(\.\d*?)0+(?=$|·)/, "$1").replace(/\.(?=$|·)/, "");
const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const stretchOf = (one, many, from, to) => (from === to ? `${one} ${from}` : `${many} ${from} to ${to}`);
const nearlyEqual = (a, b) => Math.abs(a - b) <= NEARLY * Math.max(1, Math.abs(a), Math.abs(b));
const summed = (list) => list.reduce((sum, x) => sum + x, 0);
const topmost = (list) => list.reduce((top, x) => (x > top ? x : top), -Infinity);

/** The sentence of step k for row `row` of the current tile. */
export function sentence(story, k, row) {
  return new Telling(story, k, row).sentence();
}

class Telling {
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
    const { story, k, line } = this;
    if (k === story.frameStart[k]) return this.opening();
    const moved = this.moved();
    if (moved) return moved;
    const changes = story.changes(k);
    if (!changes.length) return this.still();
    if (/^for\b/.test(line)) return `A round of the loop begins: ${changes.map((change) => this.isNow(change)).join(", ")}.`;
    for (const change of changes) {
      const role = Object.keys(story.roles).find((one) => story.nameOf(one, k) === change.name);
      const told = role && this[TOLD_BY[role]]?.(change.value, role);
      if (told) return told;
    }
    return this.plainly(changes);
  }

  /** "Row 3 “cat”: …"; a kernel of one row needs no name for it. */
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

  /** The row's part of a tile, as an array; null where the value is no tile of these rows. */
  along(value) {
    if (!value?.data || !value.shape.length) return null;
    const { shape, data } = value;
    if (shape.length === 2 && shape[0] === this.rows) return Array.from(data.slice(this.row * shape[1], (this.row + 1) * shape[1]));
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
    if (story.trace.depth[k] > 0) return `The helper ${clipped(sources[story.trace.source[k]].function, LONGEST_FUNCTION)} begins.`;
    const launch = launches[program.launch];
    const of = launches.length > 1 ? `Launch ${program.launch + 1} of ${launches.length}, ${clipped(sources[launch.source].function, LONGEST_FUNCTION)}: program` : "Program";
    const name = story.view.program_names?.[program.id.join(",")];
    const owns = name ? `: ${(story.view.pick_program ?? "").toLowerCase()} ${name}`.replace(":  ", ": ") : "";
    const axes = program.id.filter((_, axis) => launch.grid[axis] > 1);
    return `${of} ${axes.length > 1 ? `(${axes.join(", ")})` : axes[0] ?? 0} of ${grouped(launch.programs)} begins${clipped(owns, LONGEST_OWNED)}.`;
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
      return `${this.capital(parts.join(", "))}${rest ? `, and ${rest} more` : ""}, in HBM.`;
    }
    const [{ verb, way, where, name, lanes, shape, bytes }] = accesses;
    if (!lanes) return `${this.capital(verb)} nothing of ${name}: the mask switches every lane off.`;
    const many = shape.length > 1 && shape.reduce((n, side) => n * side, 1) === lanes ? times(shape).replaceAll("×", " × ") : grouped(lanes);
    const scores = this.rows === 1 && /load/i.test(verb) && this.fresh("scores");
    const top = scores && this.changes("scores") ? `; the largest is ${spoken(topmost(scores))}` : "";
    return `${this.capital(verb)} ${where ? `${where} of ` : ""}${name} ${way} HBM: ${many} value${lanes === 1 ? "" : "s"}, ${grouped(bytes)} byte${bytes === 1 ? "" : "s"}${top}.`;
  }

  /** A sentence's beginning; ℓ and α stay what they are. */
  capital(text) {
    return /^[ℓα] /.test(text) ? text : text[0].toUpperCase() + text.slice(1);
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
    const part = (one, many, axis) => stretchOf(one, many, from[axis], to[axis]);
    if (touched.some(([, axis]) => axis < row)) return { where: "", shape: touched.map(([side]) => side) };
    if (rank !== 2 && tile.length < 2) return { where: part("entry", "entries", touched.at(-1)?.[1] ?? col), shape: [lanes] };
    const rows = part("row", "rows", row), cols = part("column", "columns", col);
    const whole = sides[col] === shape[col];
    if (tile.length < 2) return { where: sides[row] === 1 ? cols : whole || sides[col] === 1 ? rows : "", shape: [lanes] };
    return { where: whole ? rows : `${rows}, ${cols}`, shape: [sides[row], sides[col]] };
  }

  /** A step that changes no variable. */
  still() {
    const { story, k, line } = this;
    const went = story.branch(k);
    if (went) {
      const test = /^(?:el)?(?:if|while)\s+(.*?):\s*(?:#.*)?$/.exec(line)?.[1] ?? "";
      const condition = test && test.length <= LONGEST_CONDITION ? test : "The condition";
      const holds = went === "the condition holds";
      if (/^while\b/.test(line)) return `${condition} ${holds ? "holds: another round of the loop" : "does not hold: the loop ends"}.`;
      return `${condition} ${holds ? "holds: the lines inside run" : "does not hold: the lines inside are skipped"}.`;
    }
    if (/^(el)?if\b|^while\b/.test(line)) return "A condition is tested.";
    if (/barrier/.test(line)) return "Every thread waits here for all the others.";
    if (/^return\b/.test(line)) return story.trace.depth[k] ? "The helper hands its result back." : "The program ends here.";
    if (/^break\b/.test(line)) return "The loop is left here.";
    if (/^continue\b/.test(line)) return "The loop goes on with its next round.";
    return "No variable changes here.";
  }

  // --- the roles ---

  rowsTaken(value) {
    if (!isCoordinates(value)) return "";
    const { data } = value;
    const [one, many] = this.axis(0);
    const words = stretchOf(one, many, data[0], data[data.length - 1]);
    return `${data.length === 1 ? "This program takes" : "Takes"} ${words}${this.beyond(data, 0)}.`;
  }

  colsTaken(value) {
    if (!isCoordinates(value)) return "";
    const { data } = value;
    const [one, many] = this.axis(1);
    return `Turns to ${stretchOf(one, many, data[0], data[data.length - 1])}${this.beyond(data, 1)}.`;
  }

  axis(which) {
    const word = this.story.view.axes?.[which];
    if (!word) return which ? ["column", "columns"] : ["row", "rows"];
    return [({ queries: "query", keys: "key" })[word] ?? word, word];
  }

  beyond(data, which) {
    const side = this.story.view.score_shape?.[which];
    const last = data[data.length - 1];
    if (!side || last < side) return "";
    return data[0] >= side ? ", past the end" : `; there is none past ${side - 1}`;
  }

  scoresMade(value) {
    const now = this.along(value);
    if (!now) return "";
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
    if (!hidden) return "The mask hides nothing of this tile: its scores stay.";
    if (!left) return "The tile is hidden by the mask: its scores become −∞.";
    return `The mask hides ${grouped(hidden)} of this tile's ${grouped(now.length)} scores: they become −∞.`;
  }

  rowOfScores(now) {
    const nans = now.filter((x) => x !== x).length;
    if (nans) return this.say(`${nans} of its ${now.length} scores ${nans === 1 ? "is" : "are"} NaN`);
    const top = topmost(now);
    if (now.length === 1) return this.say(`the score is ${spoken(top)}`);
    return this.say(top === -Infinity ? `all ${now.length} scores are −∞` : `${now.length} scores, the largest is ${spoken(top)}`);
  }

  maximumMade(value, role) {
    const now = this.pick(value);
    if (now === undefined) return "";
    const before = this.number("running_max", this.k - 1);
    const fixed = /\bwhere\b/.test(this.line);
    if (role === "running_max" && this.setHere("new_max", this.k - 1) && this.mentions("new_max")) {
      return this.say(`the maximum so far, ${spoken(now)}, is kept${this.story.visit(this.k) ? " for the next tile" : ""}`);
    }
    if (now !== now) return this.say("the maximum is NaN");
    if (before === undefined && now === -Infinity) return this.everyRow("the maximum starts at −∞: no score is seen yet");
    if (fixed && before === -Infinity && now === 0) return this.say("no score was seen, so 0 stands in for the maximum −∞");
    if (fixed && now === before) return this.say(`the maximum stays ${spoken(now)}`);
    if (this.joins()) return this.say(`the larger of the two maxima, ${spoken(before)} and ${spoken(this.number("other_max"))}, is ${spoken(now)}`);
    const passed = this.fresh("scores")?.some((x) => x !== x) ? "; max passes over NaN" : "";
    if (now === -Infinity) return this.say(`every score so far is −∞, and so is the maximum${passed}`);
    const alone = !this.mentions("running_max", this.line.replace(/^[^=]*=/, ""));
    if (alone) return this.say(before === undefined ? `the maximum is ${spoken(now)}${passed}` : `the maximum of this tile alone is ${spoken(now)}; the ${spoken(before)} before is forgotten`);
    if (before === undefined || before === -Infinity) return this.say(`the first maximum is ${spoken(now)}${passed}`);
    if (now > before) return this.say(`a larger score arrives, the maximum rises from ${spoken(before)} to ${spoken(now)}${passed}`);
    return this.say(now === before ? `no score above ${spoken(before)}, so the maximum stays${passed}` : `the maximum falls from ${spoken(before)} to ${spoken(now)}`);
  }

  /** Whether the step joins two pairs (m, ℓ) of which the second is known. */
  joins() {
    return this.story.role("other_max", this.k) !== null;
  }

  everyRow(text) {
    return this.rows > 1 ? `In every row ${text}.` : `${this.capital(text)}.`;
  }

  rescaleMade(value) {
    const alpha = this.pick(value);
    if (alpha === undefined) return "";
    const before = this.number("running_max", this.k - 1), now = this.number("new_max");
    if (alpha !== alpha) return this.say("α is NaN, and with it all that follows in this row");
    if (this.joins()) return this.say(this.shrunk("the first sum", "α", alpha));
    if (alpha === 0 && before === -Infinity) return this.say("no score came before, so α = 0: there is nothing to keep");
    if (alpha === 0) return this.say("the new maximum is so far above the old that α = 0: all before it vanishes");
    if (alpha === 1) return this.say(before === undefined ? "α = 1, so nothing is rescaled" : `no score above ${spoken(before)}, so nothing is rescaled`);
    const arrived = now > before ? `a larger score, ${spoken(now)}, arrived. Everything` : "everything";
    return this.say(`${arrived} so far ${alpha < 1 ? "shrinks" : "grows"} by α = ${spoken(alpha)}`);
  }

  otherRescaleMade(value) {
    const beta = this.pick(value);
    return beta === undefined ? "" : this.say(this.shrunk("the second sum", "β", beta));
  }

  shrunk(what, letter, factor) {
    return factor === 1 ? `${what} was measured against the joined maximum: ${letter} = 1` : `${what} was measured against a smaller maximum, so it shrinks by ${letter} = ${spoken(factor)}`;
  }

  weightsMade(value) {
    const now = this.along(value);
    if (!now) return "";
    const sum = summed(now), top = topmost(now);
    if (sum !== sum) return this.say("the weights hold NaN");
    if (top === Infinity) return this.say("a score is too large for exp: its weight overflows to ∞");
    if (sum === 0) return this.say(this.fresh("scores")?.every((x) => x === -Infinity) ? "every score of this tile is −∞, so every weight is 0" : "every weight of this tile is 0");
    if (now.length === 1) return this.say(`the score becomes the weight ${spoken(top)}`);
    return this.say(`the scores become weights; the largest is ${spoken(top)}, together they make ${spoken(sum)}`);
  }

  sumMade(value) {
    const now = this.pick(value);
    if (now === undefined) return "";
    const old = this.number("running_sum", this.k - 1);
    if (now !== now) return this.say(old !== old ? "ℓ stays NaN" : "ℓ turns NaN");
    if (old !== old) return this.say(`ℓ was NaN and becomes ${spoken(now)}: the NaN is lost`);
    if (now === Infinity) return this.say("ℓ overflows to ∞");
    if (/\bwhere\b/.test(this.line)) {
      if (old === 0 && now === 1) return this.say("ℓ was 0 and becomes 1, so that nothing is divided by 0");
      if (old === now) return this.say(`ℓ stays ${spoken(now)}`);
    }
    const other = this.number("other_sum");
    if (old !== undefined && other !== undefined && !/\bload\b/.test(this.line)) return this.joined(old, other, now);
    const weights = this.fresh("probabilities");
    if (!weights) return old === undefined && now === 0 ? this.everyRow("ℓ starts at 0: nothing is added up yet") : "";
    const added = summed(weights);
    const alpha = this.setHere("rescale") ? this.number("rescale") : 1;
    if (!old) return this.say(now === 0 ? "ℓ stays 0: this tile adds nothing" : `ℓ starts with this tile's weights, ${spoken(now)}`);
    if (nearlyEqual(now, added) && !nearlyEqual(now, old * alpha + added)) return this.say(`ℓ is ${spoken(now)}, this tile's weights alone; the ${spoken(old)} before is dropped`);
    if (alpha < 1) return this.say(`ℓ was ${spoken(old)}; shrunk by α = ${spoken(alpha)} and with this tile's ${spoken(added)} it is ${spoken(now)}`);
    return this.say(now === old ? `ℓ stays ${spoken(now)}: this tile adds nothing` : `ℓ grows from ${spoken(old)} to ${spoken(now)}`);
  }

  /** Two sums become one: each measured anew, or, wrongly, as they are. */
  joined(old, other, now) {
    const alpha = this.number("rescale"), beta = this.number("other_rescale");
    if (nearlyEqual(now, old * alpha + other * beta)) return this.say(`the sums are joined: ${spoken(old)} · ${spoken(alpha)} + ${spoken(other)} · ${spoken(beta)} = ${spoken(now)}`);
    const apart = this.number("running_max") !== this.number("other_max");
    return this.say(`the sums are added as they are: ${spoken(old)} + ${spoken(other)} = ${spoken(now)}${apart ? ", though measured against different maxima" : ""}`);
  }

  keptMade({ shape, data }) {
    if (shape?.length !== 1 || !data.length) return "";
    const kept = Array.from(data).filter((x) => x > -Infinity);
    return kept.length ? `Kept so far, the largest first: ${listed(kept)}.` : `Nothing is kept yet: ${data.length} place${data.length === 1 ? "" : "s"} for the largest scores.`;
  }

  keptWeightsMade({ shape, data }) {
    return shape?.length === 1 && data.length ? `The kept scores become probabilities: ${listed(Array.from(data))}.` : "";
  }

  accumulatorMade(value) {
    const now = value.shape?.length === 2 ? this.along(value) : null;
    if (!now) return "";
    const { story, k, line } = this;
    const before = story.role("accumulator", k - 1);
    const old = this.along(before);
    if (!old) return countNaN(value) || value.data.some((x) => x) ? "" : `The output starts at 0: ${times(value.shape).replace("×", " × ")} values, kept on chip.`;
    const alpha = this.setHere("rescale") ? this.number("rescale") : undefined;
    const turned = now.some((x) => x !== x) && !old.some((x) => x !== x);
    if (/\bdot\b/.test(line)) {
      if (turned) return this.say("the output turns NaN");
      if (this.fresh("probabilities")?.every((x) => x === 0)) return this.say("this tile adds nothing to the output: its weights are all 0");
      return this.say(`this tile's part, its weights times V, is added to the output${/\/\s*\w/.test(line) ? ", and divided by ℓ" : ""}`);
    }
    if (/\bwhere\b/.test(line)) return this.say(turned ? "a NaN of V reaches its output" : "no NaN of V reaches it: the output stays");
    if (alpha === undefined) return "";
    if (alpha === 0) return this.say("α = 0, and there was no output to keep");
    if (this.mentions("running_sum")) return this.say(`times ℓ · α = ${spoken(this.number("running_sum") * alpha)}: the output's last division is undone, and it is rescaled`);
    return this.say(alpha === 1 ? "α = 1, so the output so far stays as it is" : `the output so far shrinks by α = ${spoken(alpha)}`);
  }

  mentions(role, text = this.line) {
    const name = this.story.view.roles?.[role];
    return Boolean(name) && text.split(/\W+/).includes(name);
  }

  outputMade(value) {
    const now = this.along(value);
    if (!now || !this.line.includes("/")) return "";
    const sum = this.number("running_sum");
    if (now.some((x) => x !== x)) return this.say(sum === Infinity ? "∞ divided by ∞: the output is NaN" : "the output holds NaN");
    if (this.story.roles.accumulator) return this.say(sum === 0 ? "no key was seen: the output is 0" : `the output is divided by ℓ = ${spoken(sum)}, once, at the end`);
    return this.say(`divided by ℓ = ${spoken(sum)}, the weights become outputs; together they make ${spoken(summed(now))}`);
  }

  // --- any variable ---

  plainly(changes) {
    const [first] = changes;
    if (changes.length === 1) {
      const stays = first.value.shape?.length && this.story.at(first.name, this.k - 1) === first.value;
      if (stays) return `${clipped(first.label, LONGEST_NAME)} stays as it is.`;
      const value = this.pick(first.value);
      const own = value !== undefined && this.rows > 1 && first.value.data.length > 1;
      return own ? this.say(this.isNow(first)) : `${this.isNow(first)}.`;
    }
    const told = changes.slice(0, 2).map((change) => this.isNow(change)).join(", ");
    const rest = changes.length - 2;
    return `${told}${rest > 0 ? `, and ${rest} more` : ""}.`;
  }

  /** "m_safe is 2.04", "x_ptrs points at 16 × 32 places of x". */
  isNow({ label, value }) {
    const name = clipped(label, LONGEST_NAME);
    if (value.items) return `${name} holds ${value.items.length} values`;
    if (value.kind === "p" || value.kind === "b") return this.pointsAt(name, value);
    if (!value.data) return `${name} is ${clipped(value.text ?? "set", LONGEST_CONDITION)}`;
    const { shape, data, dtype } = value;
    const own = this.pick(value);
    if (dtype === "i1" && data.length > 1) {
      const on = data.reduce((count, x) => count + (x ? 1 : 0), 0);
      return `${name} is true for ${on === data.length ? "all" : on ? `${grouped(on)} of` : "none of"} ${grouped(data.length)} places`;
    }
    if (own !== undefined) return `${name} is ${dtype === "i1" || value.text === "True" || value.text === "False" ? (own ? "true" : "false") : spoken(own, !isFloat(dtype))}`;
    if (!data.length) return `${name} is empty`;
    const nans = countNaN(value);
    const sides = times(shape).replaceAll("×", " × ");
    if (nans) return `${name} holds ${sides} values, ${nans === data.length ? "all" : grouped(nans)} of them NaN`;
    let low = Infinity, high = -Infinity;
    for (const x of data) (low = Math.min(low, x)), (high = Math.max(high, x));
    if (low === high) return `${name} holds ${sides} values, all ${spoken(low, !isFloat(dtype))}`;
    return `${name} holds ${sides} values from ${spoken(low, !isFloat(dtype))} to ${spoken(high, !isFloat(dtype))}`;
  }

  pointsAt(name, value) {
    const { trace } = this.story;
    const buffer = this.story.launchAt(this.k).buffers[value.buffer]?.name.replace(/_ptr$/, "") ?? "memory";
    const index = value.tile === undefined ? null : trace.value(value.tile);
    if (!index?.data) return `${name} points into ${clipped(buffer, LONGEST_NAME)}`;
    if (index.data.length === 1) return `${name} points at element ${grouped(index.data[0])} of ${clipped(buffer, LONGEST_NAME)}`;
    return `${name} points at ${times(index.shape).replaceAll("×", " × ")} places of ${clipped(buffer, LONGEST_NAME)}`;
  }
}

const listed = (list) => `${list.slice(0, LONGEST_LIST).map((x) => spoken(x)).join(", ")}${list.length > LONGEST_LIST ? " …" : ""}`;

const TOLD_BY = {
  rows: "rowsTaken", cols: "colsTaken", scores: "scoresMade", running_max: "maximumMade", new_max: "maximumMade", rescale: "rescaleMade",
  probabilities: "weightsMade", running_sum: "sumMade", new_sum: "sumMade", accumulator: "accumulatorMade", output: "outputMade",
  other_rescale: "otherRescaleMade", kept: "keptMade", kept_weight: "keptWeightsMade",
};

const isCoordinates = (value) => Boolean(value.data?.length) && (value.shape.length === 0 || value.shape.length === 1);
