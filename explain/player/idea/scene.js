// What a beat has on chip, and what it moves between there and HBM.

import { bufferSymbol, roleSymbol } from "../beat_words.js";
import { HbmState } from "../panels/hbm.js";
import { isFloat, itemBytes } from "../trace.js";
import { ATTENTION, DEEP } from "./attention.js";
import { BACKWARD, OF_KEYS } from "./backward.js";
import { LOOKS, QUANTITY_WORDS } from "./column.js";
import { LOSS, LOSS_BACKWARD } from "./loss.js";
import { MERGE } from "./merge.js";
import { SOFTMAX } from "./softmax.js";
import { VECTOR } from "./vector.js";

const FAMILIES = [MERGE, BACKWARD, LOSS, LOSS_BACKWARD, ATTENTION, SOFTMAX, VECTOR];
const FROM_ZERO = new Set(["target", "lse", "loss"]);      // numbers whose bars have a place for 0
const DROPPED = new Set(["queries", "keys", "values", "scores", "exponentials", "gradient"]); // if no later line reads it
const EMPTY = /^\s*\w+\s*=\s*tl\.zeros\(/;               // zeros that a tile's matmuls are added to: not there yet
const CARRIED = new Set(["running_max", "new_max", "running_sum", "new_sum", "accumulator", "target", // from tile to tile
  "queries_gradient", "keys_gradient", "values_gradient", "input_gradient", "weight_gradient"]);

function largestOf(data) {
  let most = 0;
  for (const x of data) if (Math.abs(x) > most && Number.isFinite(x)) most = Math.abs(x);
  return most || 1;
}

/** What a line's call stores: its second argument. */
function storedBy(text) {
  const parts = [""], call = /\btl\.store\(/.exec(text);
  let depth = 0;
  for (const letter of call ? text.slice(call.index + call[0].length) : "") {
    if (/[([{]/.test(letter)) depth++;
    if (/[)\]}]/.test(letter) && depth-- === 0) break;
    if (letter === "," && !depth) parts.push("");
    else parts.push(parts.pop() + letter);
  }
  return parts[1]?.trim() ?? "";
}

/** The scenes of a lane's run. */
export class Scenes {
  constructor(lane) {
    this.lane = lane;
    this.story = lane.story;
    this.roles = lane.view.roles ?? {};
    this.launches = new Map();                             // launch → its columns and the state of its HBM
  }

  /** The scene of a beat after step k: {k, program, columns, moves, hbm, launch, whole}; a column is {main, above,
   * state}, of items as `item` makes them. */
  of(beat, k) {
    const { story } = this;
    const program = story.programs[beat.program];
    const { columns, hbm } = this.launched(program.launch);
    // The first step of the beat's tile or merge; outside of them, the one after the tile before.
    const own = story.beats.filter((one) => one.program === beat.program);
    const since = beat.tile >= 0 ? own.find((one) => one.tile === beat.tile).begin
      : own.findLast((one) => one.tile >= 0 && one.begin < beat.begin)?.end ?? program.first;
    const made = (column) => this.made(column, { beat, k, program, since });
    return {
      beat, k, program, hbm, launch: program.launch,
      whole: this.launched(program.launch).whole,
      columns: columns.map((column) => ({ main: made(column), state: column.state,
        above: column.above && made({ roles: [column.above] }) })).filter(({ main }) => main),
      moves: this.accesses(beat.begin, Math.max(beat.begin, k + 1)),
    };
  }

  /** A launch's columns: the tiles that it loads into variables without a role, and the roles that it sets. */
  launched(launch) {
    if (!this.launches.has(launch)) {
      const { story } = this;
      const { source } = story.trace.header.launches[launch];
      const sets = (role) => story.roles[role]?.has(source);
      const { columns, words } = FAMILIES.find(({ of }) => of.some(sets)) ?? VECTOR;
      const own = columns.map(({ roles, above, state }) => ({ roles: roles.filter(sets), state,
        above: sets(above) ? above : null })).filter(({ roles }) => roles.length);
      this.launches.set(launch, { columns: [...this.loaded(launch), ...own], hbm: new HbmState(story, launch),
        words: { ...QUANTITY_WORDS, ...words?.(sets, { x: bufferSymbol("x", story.view), begins: this.begins(launch) }) },
        whole: sets("scores") ? this.neverWhole(launch) : null });
    }
    return this.launches.get(launch);
  }

  /** The order in which a launch's buffers stand in HBM: as its kernel has them, but those that one beat moves in the
   * order of their tiles on chip, where their ways cross least. */
  order(launch) {
    const { beats, programs } = this.story, { columns, hbm } = this.launched(launch);
    const own = columns.map((column) => [...this.named(column), ...(column.above ? [[, this.roles[column.above]]] : [])]
      .map(([, name]) => name));
    const placeOf = (name) => own.findIndex((names) => names.includes(name));
    const out = [...hbm.buffers.keys()], first = programs.findIndex((program) => program.launch === launch);
    for (const { begin, end } of beats.filter(({ program }) => program === first)) {
      const moved = new Map(this.accesses(begin, end).filter(({ name }) => placeOf(name) >= 0)
        .map(({ buffer, name }) => [buffer, placeOf(name)]));
      const buffers = [...moved.keys()], places = buffers.map((one) => out.indexOf(one)).sort((a, b) => a - b);
      buffers.sort((one, other) => moved.get(one) - moved.get(other)).forEach((one, i) => (out[places[i]] = one));
    }
    return out;
  }

  /** Whether a launch's programs set m and ℓ before the first tile: else each tile has its own. */
  begins(launch) {
    const { beats, programs } = this.story;
    const first = beats.find(({ tile, program }) => tile === 0 && programs[program].launch === launch);
    return first && ["running_max", "running_sum"].some((role) =>
      this.story.changedAt(role, programs[first.program].first, first.begin - 1) >= 0);
  }

  /** The shape of the whole S, if the launch never writes its tiles; else null. */
  neverWhole(launch) {
    const { programs } = this.story, { first, end } = programs.find((program) => program.launch === launch);
    const isWritten = this.accesses(first, end).some(({ store, name }) => store && name === this.roles.scores);
    return isWritten ? null : this.lane.view.score_shape ?? null;
  }

  loaded(launch) {
    const { story } = this;
    const known = new Set(Object.values(this.roles));
    const loads = story.beats.filter(({ kind, program }) => kind === "load"
      && story.programs[program].launch === launch);
    const names = loads.flatMap(({ begin, end }) => this.accesses(begin, end).map(({ name }) => name));
    return [...new Set(names)].filter((name) => name && !known.has(name)).map((variable) => ({ variable }));
  }

  /** The loads and stores of steps begin … end − 1: {step, buffer, store, name: the variable; of a store that computes
   * what it writes, the first one in it, stored: the written value as an index, −1 where the trace lacks it}. */
  accesses(begin, end) {
    const { access_at: at, access_kind: kind, access_buffer: buffer, access_stored: values } = this.story.trace;
    const out = [];
    for (let step = begin; step < end; step++) {
      for (let a = at[step]; a < at[step + 1]; a++) {
        const store = kind[a] === 1;
        const told = store ? storedBy(this.story.text(step).replace(/#.*/, "")) : "";
        const name = store ? /[a-z_]\w*/i.exec(told)?.[0] : this.story.changes(step)[0]?.label;
        out.push({ step, buffer: buffer[a], store, name, stored: values?.[a] ?? -1, plain: name === told });
      }
    }
    return out;
  }

  /** A column's variables by role: [[role, name]]. */
  named({ roles, variable }) {
    return variable ? [[null, variable]] : roles.map((role) => [role, this.roles[role]]);
  }

  /** What stands in a column: the variable that the tile has set, or one that is carried on, or the latest; before any
   * is set, the shape of the first. Null for none. */
  made(column, { beat, k, program, since }) {
    const found = this.named(column).map(([role, variable]) => ({ role, variable, ...this.held(variable, k, program) }))
      .filter(({ role, value, set }) => value && !(DROPPED.has(role) && EMPTY.test(this.story.text(set))));
    const live = found.filter((one) => one.set >= since || this.isCarried(one, k, program));
    const now = live.length ? live.reduce((last, one) => (one.set > last.set ? one : last)) : found[0];
    const shape = now ?? this.first(column, program);
    if (!shape) return null;
    const before = Math.max(program.first, beat.begin) - 1;
    const earlier = before < program.first ? null : this.held(shape.variable, before, program);
    const old = earlier && this.sameRows(earlier.set, k, program, shape.role) ? earlier.value.data : null;
    const item = this.item(shape, k), { words } = this.launched(program.launch);
    return { ...item, word: words[item.role] ?? words[item.quantity], old, now: now ? now.value.data : null,
      here: Boolean(now) && this.stays(now, { beat, k, program, since }) };
  }

  /** Whether a variable goes on from tile to tile: state of the rows that are on chip. */
  isCarried({ role, set }, k, program) {
    return CARRIED.has(role) && this.sameRows(set, k, program, role);
  }

  /** Whether a program has the rows that it had at step `then`, or had none there; the rows of a gradient of keys are
   * the tile's columns. */
  sameRows(then, k, program, role) {
    const side = OF_KEYS.has(role) ? "cols" : "rows";
    const [before, now] = [then, k].map((at) => this.held(this.roles[side], at, program)?.value.data.join());
    return before === undefined || before === now;
  }

  /** A variable of the running kernel after step k: {value, set: the step that set it}; null if it has none. */
  held(name, k, program) {
    const { story } = this;
    const index = story.byName.get(`${story.launchAt(k).source} ${name}`);
    const change = index === undefined ? -1 : story.lastChange(index, k, program.first);
    if (change < 0) return null;
    const value = story.trace.value(story.historyValue[change]);
    return value.data ? { value, set: story.historyStep[change] } : null;
  }

  /** A column's first value in a launch. */
  first(column, { launch }) {
    const { story } = this;
    const { source } = story.trace.header.launches[launch];
    for (const [role, variable] of this.named(column)) {
      const index = story.byName.get(`${source} ${variable}`);
      for (let at = story.historyStart[index]; at < story.historyStart[index + 1]; at++) {
        const value = story.trace.value(story.historyValue[at]);
        if (value.data) return { role, variable, value, set: story.historyStep[at] };
      }
    }
    return null;
  }

  /** Whether a variable is on chip: set in this tile and not dropped, carried on, or still read by a later line. */
  stays({ role, variable, set }, { beat, k, program, since }) {
    if (set >= since ? !(beat.kind === "drop" && DROPPED.has(role)) : this.isCarried({ role, set }, k, program))
      return true;
    const { trace } = this.story;
    const { alive } = this.lane.annotations.sources[trace.source[k]];
    return (alive[trace.line[k]] ?? []).includes(variable);
  }

  /** How the values of a buffer are drawn that is loaded into the variable `name`: as on chip. */
  lookOf({ name, values }) {
    const { lane, story, roles } = this;
    const role = Object.keys(roles).find((one) => roles[one] === name) ?? this.elsewhere(name);
    const [quantity = null, ramp = "reads", diverging = false] = LOOKS[lane.output(role)] ?? [];
    const largest = { scores: story.scoreMap?.largest, p: lane.ranges.p }[quantity] ?? largestOf(values);
    return { ramp, diverging, largest, shade: ramp === "reads" ? Math.abs : (x) => x };
  }

  /** The role that another launch's variable has for what this one calls `name`: x is S again. */
  elsewhere(name) {
    const other = this.story.view.also?.[name];
    return other && Object.keys(this.roles).find((role) => this.roles[role] === other);
  }

  /** A tile, or a number for each row: its sides, its symbol, its colours. */
  item({ role, variable, value, set }, k) {
    const { lane, story } = this;
    const { data, shape, dtype } = value;
    const look = lane.output(role ?? this.elsewhere(variable));
    const [quantity = null, ramp = "reads", diverging = false] = LOOKS[look] ?? [];
    const { max: [lowest, highest], sum } = lane.ranges;
    const range = { max: [Math.min(0, lowest), Math.max(0, highest)], sum: [0, sum], alpha: [0, 1] }[quantity]
      ?? (quantity === "slate" || FROM_ZERO.has(role) ? this.extent(role) : undefined);
    const rows = shape.length === 2 ? shape[0] : range ? data.length : 1;
    const end = lane.view.score_shape?.[0] ?? Infinity;
    const padded = story.tile(k)?.rows.findIndex((row) => row >= end) ?? -1;
    const { accumulator, output } = lane.ranges;           // Õ grows with ℓ, O does not: each has its own scale
    const sums = role === "output" ? output : accumulator;
    const largest = /gradient$/.test(role) ? Math.max(...this.extent(role).map(Math.abs))
      : { scores: story.scoreMap?.largest, p: lane.ranges.p, acc: diverging ? sums : 1 }[quantity];
    return {
      role, variable, set, dtype, rows, cols: data.length / rows, itemBytes: itemBytes(dtype || "f32"),
      symbol: role ? roleSymbol(story, role, k) : bufferSymbol(variable, story.view), quantity, ramp, diverging,
      range, turned: role === "keys" || (role === "values" && Boolean(story.roles.weights_gradient)), inside: padded < 0 ? rows : padded, // rows of S; what follows is padding
      root: quantity === "acc" || /gradient$/.test(role) || (quantity === "p" && Boolean(story.roles.weights_gradient)),
      deep: DEEP.has(role) || (role === "output" && Boolean(story.roles.accumulator)), whole: !isFloat(dtype),
      largest: quantity ? largest || 1 : largest ?? largestOf(data), ofKeys: OF_KEYS.has(role),
    };
  }

  /** The least and the largest finite number of a role in the run, and 0. */
  extent(role) {
    this.extents ??= {};
    return (this.extents[role] ??= this.story.eventsOf(role).reduce(([low, high], { value }) => {
      const finite = Array.from(this.story.trace.value(value).data ?? []).filter(Number.isFinite);
      return [Math.min(low, ...finite), Math.max(high, ...finite)];
    }, [0, 0]));
  }
}
