// What a trace tells: programs, tile visits, the state at a step, the map of scores, the counters. All worked out once, on load.

import { isFloat } from "./trace.js";

const LARGEST_MAP = 4_000_000;                            // cells; past this a map is neither readable nor quick

const indentation = (text) => text.length - text.trimStart().length;
const isLoopHeader = (text) => /^\s*(for|while)\b/.test(text);

export class Story {
  constructor(trace, view) {
    this.trace = trace;
    this.view = view;
    this.steps = trace.steps;
    this.sources = trace.header.sources.map((source) => ({ ...source, lines: source.text.split("\n") }));
    this.indexHistories();
    this.indexPrograms();
    this.indexFrames();
    this.indexRoles(view.roles ?? {});
    this.indexVisits();
    this.indexJoins();
    this.indexMapAxes();
    this.scoreMap = this.mapOf("scores");
    this.outputMap = this.mapOf("output");
    this.indexCounters();
    this.indexRescales();
    this.firstNaN = this.findNaN();
  }

  // --- variables over time ---

  indexHistories() {
    const { change_at, change_name, change_value, header } = this.trace;
    const starts = new Uint32Array(header.names.length + 1);
    for (const name of change_name) starts[name + 1]++;
    for (let i = 0; i < header.names.length; i++) starts[i + 1] += starts[i];
    const next = starts.slice();
    this.historyStart = starts;
    this.historyStep = new Uint32Array(change_name.length);
    this.historyValue = new Uint32Array(change_name.length);
    for (let k = 0; k < this.steps; k++) {
      for (let c = change_at[k]; c < change_at[k + 1]; c++) {
        const at = next[change_name[c]]++;
        this.historyStep[at] = k;
        this.historyValue[at] = change_value[c];
      }
    }
    this.byName = new Map(header.names.map(([source, name], i) => [`${source} ${name}`, i]));
  }

  /** For each role the variables that play it, by function: {role: Map(source → index of the variable)}. */
  indexRoles(roles) {
    this.roles = {};
    this.kernelSources = new Set(this.trace.header.launches.map((launch) => launch.source));
    for (const [role, variable] of Object.entries(roles)) {
      const found = [...this.sources.keys()].map((source) => [source, this.byName.get(`${source} ${variable}`)]);
      const held = new Map(found.filter(([, name]) => name !== undefined));
      if (held.size) this.roles[role] = held;
    }
  }

  /** The variable that plays a role at step k: the running kernel's own, else a helper's; undefined if none does. */
  nameOf(role, k) {
    const held = this.roles[role];
    if (!held) return undefined;
    const own = held.get(this.launchAt(k).source);
    return own ?? [...held].find(([source]) => !this.kernelSources.has(source))?.[1];
  }

  /** Every change of a role's variables, in order: [{step, value}], value an index. */
  eventsOf(role) {
    const out = [];
    for (const name of this.roles[role]?.values() ?? []) {
      for (let at = this.historyStart[name]; at < this.historyStart[name + 1]; at++) {
        out.push({ step: this.historyStep[at], value: this.historyValue[at] });
      }
    }
    return out.sort((a, b) => a.step - b.step);
  }

  /** Position in `name`'s history of its last change at or before step k, not before step `from`; −1 if there is none. */
  lastChange(name, k, from) {
    let low = this.historyStart[name], high = this.historyStart[name + 1];
    const first = low;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.historyStep[middle] <= k) low = middle + 1;
      else high = middle;
    }
    return low > first && this.historyStep[low - 1] >= from ? low - 1 : -1;
  }

  /** The value of a variable (by index) after step k, or null. A kernel's variables live as long as its program. */
  at(name, k) {
    if (name === undefined || name < 0 || k < 0) return null;
    const own = this.trace.header.names[name][0] === this.trace.source[k];
    const from = own ? this.frameStart[k] : this.programs[this.programAt[k]].first;
    const change = this.lastChange(name, k, from);
    return change < 0 ? null : this.trace.value(this.historyValue[change]);
  }

  role(role, k) {
    if (k < 0) return null;
    return this.at(this.nameOf(role, k), k);
  }

  /** The step of a role's last change within steps from … k; −1 if it did not change there. */
  changedAt(role, from, k) {
    const name = this.nameOf(role, k);
    const change = name === undefined ? -1 : this.lastChange(name, k, from);
    return change < 0 ? -1 : this.historyStep[change];
  }

  /** The step of a role's first change at or after step `from`, in that step's program. */
  firstChange(role, from) {
    const name = this.nameOf(role, from);
    let at = this.historyStart[name];
    while (this.historyStep[at] < from) at++;
    return this.historyStep[at];
  }

  /** The step at which a visit makes what it is for: its sum; in a pass that adds nothing up, what it has. */
  madeIn({ begin, end }) {
    const made = ["new_sum", "running_sum", "output", "running_max", "probabilities", "scores"].find((role) => this.changedAt(role, begin, end - 1) >= 0);
    return made ? this.firstChange(made, begin) : begin;
  }

  changes(k) {
    const { change_at, change_name, change_value } = this.trace;
    const out = [];
    for (let c = change_at[k]; c < change_at[k + 1]; c++) {
      out.push({ name: change_name[c], label: this.trace.header.names[change_name[c]][1], value: this.trace.value(change_value[c]) });
    }
    return out;
  }

  accesses(k) {
    const t = this.trace, out = [];
    for (let a = t.access_at[k]; a < t.access_at[k + 1]; a++) {
      out.push({ kind: t.access_kind[a], buffer: t.access_buffer[a], bytes: t.access_bytes[a] });
    }
    return out;
  }

  // --- programs and calls ---

  indexPrograms() {
    this.programs = [];
    this.programAt = new Int32Array(this.steps);
    this.trace.header.launches.forEach((launch, at) => {
      for (const { id, first_step, steps } of launch.recorded) {
        this.programs.push({ launch: at, id, first: first_step, end: first_step + steps, visits: 0 });
      }
    });
    this.programs.sort((a, b) => a.first - b.first);
    this.programs.forEach(({ first, end }, p) => this.programAt.fill(p, first, end));
  }

  launchAt(k) {
    return this.trace.header.launches[this.programs[this.programAt[k]].launch];
  }

  /** The first step of the call each step belongs to: a helper's variables start anew with each call. */
  indexFrames() {
    const { depth, source, line } = this.trace;
    this.frameStart = new Uint32Array(this.steps);
    const calls = [];
    for (let k = 0; k < this.steps; k++) {
      const enters = k === this.programs[this.programAt[k]].first
        || (line[k] === this.sources[source[k]].first_line && depth[k] > 0);
      if (enters) calls[depth[k]] = k;
      this.frameStart[k] = calls[depth[k]] ?? k;
    }
  }

  text(k) {
    const source = this.sources[this.trace.source[k]];
    return source.lines[this.trace.line[k] - source.first_line] ?? "";
  }

  /** What the test of an `if` or `while` at step k came to, by where the program went next; null for other lines. */
  branch(k) {
    const program = this.programs[this.programAt[k]];
    if (!/^\s*(if|elif|while)\b/.test(this.text(k))) return null;
    const { depth, line } = this.trace;
    let next = k + 1;
    while (next < program.end && depth[next] > depth[k]) next++;   // past a helper that the line inside calls
    if (next >= program.end) return null;
    const inside = line[next] > line[k] && indentation(this.text(next)) > indentation(this.text(k));
    return inside ? "the condition holds" : "the condition does not hold";
  }

  // --- tile visits ---

  /** A visit begins where a tile's coordinates are set, if scores or probabilities follow; it ends where its loop's body is left. */
  indexVisits() {
    this.visits = [];
    this.visitAt = new Int32Array(this.steps).fill(-1);
    const stepsOf = (role) => this.eventsOf(role).map(({ step }) => step);
    const begins = [...new Set([...stepsOf("rows"), ...stepsOf("cols")])].sort((a, b) => a - b);
    const writes = [...stepsOf("scores"), ...stepsOf("probabilities")].sort((a, b) => a - b);
    let write = 0;
    begins.forEach((begin, i) => {
      const program = this.programAt[begin];
      const end = Math.min(begins[i + 1] ?? this.steps, this.programs[program].end);
      while (write < writes.length && writes[write] < begin) write++;
      if (write < writes.length && writes[write] < end) this.visits.push({ begin, end, program });
    });
    this.visits.forEach((visit, v) => {
      visit.end = this.leaves(visit, this.visits[v + 1]?.begin);
      visit.ordinal = this.programs[visit.program].visits++;
      this.visitAt.fill(v, visit.begin, visit.end);
    });
  }

  leaves({ begin, program }, nextBegin) {
    const end = Math.min(nextBegin ?? this.steps, this.programs[program].end);
    const { depth } = this.trace;
    const inside = indentation(this.text(begin));
    for (let k = begin + 1; k < end; k++) {
      if (depth[k] > depth[begin] || (depth[k] === depth[begin] && indentation(this.text(k)) >= inside)) continue;
      for (let j = k; j < end; j++) if (!isLoopHeader(this.text(j))) return k;
      return end === nextBegin ? end : k;                 // only loop headers up to the next tile: still this loop
    }
    return end;
  }

  visit(k) {
    return this.visits[this.visitAt[k]] ?? null;
  }

  /** The coordinates, in the map, of the tile of step k: {rows, cols}, or null. */
  tile(k) {
    const scores = this.role("scores", k) ?? this.role("probabilities", k);
    const rows = this.role("rows", k)?.data ?? [this.programs[this.programAt[k]].id[0]];
    const cols = this.role("cols", k)?.data ?? (scores?.data ? Array.from(scores.data.keys()).slice(0, scores.data.length / rows.length) : null);
    return cols ? { rows, cols } : null;
  }

  /** How many rows of state (m, l, alpha) a step has. */
  rowCount(k) {
    const state = ["running_max", "new_max", "running_sum", "rescale", "rows"].map((role) => this.role(role, k)).find((v) => v?.data);
    return state ? state.data.length : 1;
  }

  // --- pairs (m, l) of tiles, and their joins ---

  get joins() {
    return Boolean(this.roles.tile_at && this.roles.other_at);
  }

  /** A join is at work from where its other tile is named to where its sum is set. */
  indexJoins() {
    this.joinAt = new Int32Array(this.steps).fill(-1);
    const counts = new Map();
    for (const { step } of this.joins ? this.eventsOf("other_at") : []) {
      const program = this.programAt[step], ordinal = counts.get(program) ?? 0;
      counts.set(program, ordinal + 1);
      this.joinAt.fill(ordinal, step, this.firstChange("running_sum", step) + 1);
    }
  }

  /** Which tile visit of its program step k belongs to, or which join; −1 for none. */
  part(k) {
    return this.visit(k)?.ordinal ?? this.joinAt[k];
  }

  /** All pairs of one row, those of its tiles and those joined of two, in the order they are made: {at, level, children, begin, step, m, l, factors, cols}. */
  pairs(row) {
    this.pairsOf ??= new Map();
    if (!this.pairsOf.has(row)) this.pairsOf.set(row, this.findPairs(row));
    return this.pairsOf.get(row);
  }

  findPairs(row) {
    const [, width] = this.view.score_shape ?? [0, Infinity];
    const number = (role, k) => this.role(role, k)?.data?.[0];
    const pair = (begin, step) => ({ begin, step, m: number("running_max", step), l: number("running_sum", step) });
    const steps = (role, from, end) => this.eventsOf(role).filter(({ step }) => step >= from && step < end).map(({ step }) => step);
    const out = [];
    const latest = new Map();                              // by tile: the pair in its place now
    for (const { first, end, id, launch } of this.programs.filter((program) => program.id[0] === row)) {
      const begins = steps("other_at", first, end);
      if (launch === 0) {
        const step = steps("running_sum", first, end).at(-1);
        const cols = Array.from(this.tile(step)?.cols ?? [], Number).filter((col) => col < width);
        latest.set(id[1], out.length);
        out.push({ ...pair(first, step), at: id[1], level: 0, children: [], factors: [], cols });
      }
      begins.forEach((begin, i) => {
        const step = steps("running_max", begin, begins[i + 1] ?? end)[0];
        const children = [number("tile_at", begin), number("other_at", begin)].map((tile) => latest.get(tile));
        const [a, b] = children.map((child) => out[child]);
        const factors = this.roles.rescale ? [number("rescale", step), number("other_rescale", step)] : [];
        latest.set(number("tile_at", begin), out.length);
        out.push({ ...pair(begin, step), children, at: (a.at + b.at) / 2, level: Math.max(a.level, b.level) + 1, factors, cols: [...a.cols, ...b.cols].sort((x, y) => x - y) });
      });
    }
    return out;
  }

  // --- maps of tiles ---

  /** Which axes of each launch's grid move the tile; the others (batch, head) open another map. */
  indexMapAxes() {
    const signature = (p) => {
      const visit = this.visits.find(({ program }) => program === p);
      const tile = visit && this.tile(visit.begin);
      return tile ? `${tile.rows} ${tile.cols}` : "";
    };
    const signatures = this.programs.map((_, p) => signature(p));
    this.programs.forEach((program, p) => {
      const moves = (axis) => this.programs.some((other, o) => other.launch === program.launch && signatures[o] !== signatures[p]
        && other.id.every((at, a) => (at === program.id[a]) === (a !== axis)));
      program.kin = `${program.launch}:${program.id.map((at, axis) => (moves(axis) ? "*" : at))}`;
    });
  }

  /** All that a role's tiles put on the score_shape map: {height, width, groups, largest, smallest}; null if they do not lie on it. */
  mapOf(role) {
    const [height, width] = this.view.score_shape ?? [0, 0];
    if (!(height * width > 0) || height * width > LARGEST_MAP) return null;
    const groups = new Map();
    let largest = 0;
    for (const { step, value: index } of this.eventsOf(role)) {
      const value = this.trace.value(index);
      const tile = this.tile(step);
      if (!value.data || !tile || value.data.length !== tile.rows.length * tile.cols.length) continue;
      const { kin } = this.programs[this.programAt[step]];
      if (!groups.has(kin)) groups.set(kin, []);
      groups.get(kin).push({ step, ...tile, data: value.data, dtype: value.dtype, program: this.programAt[step] });
      for (const x of value.data) if (Math.abs(x) > largest && Number.isFinite(x)) largest = Math.abs(x);
    }
    return groups.size ? { height, width, groups: [...groups.values()], byKin: groups, largest: largest || 1 } : null;
  }

  /** The tiles that share step k's map: its own head's, else the latest there were. */
  mapGroup(map, k) {
    return map.byKin.get(this.programs[this.programAt[k]].kin) ?? map.groups.findLast((group) => group[0].step <= k) ?? map.groups[0];
  }

  // --- counters ---

  indexCounters() {
    const t = this.trace;
    const widest = Math.max(0, ...t.header.launches.map((launch) => launch.buffers.length));
    this.bufferCount = widest;
    this.read = new Float64Array(this.steps * widest);
    this.written = new Float64Array(this.steps * widest);
    this.flops = { matmul: new Float64Array(this.steps), exp: new Float64Array(this.steps), other: new Float64Array(this.steps) };
    for (const { first, end } of this.programs) {
      for (let k = first; k < end; k++) {
        const here = k * widest;
        if (k > first) {
          this.read.copyWithin(here, here - widest, here);
          this.written.copyWithin(here, here - widest, here);
        }
        for (let a = t.access_at[k]; a < t.access_at[k + 1]; a++) {
          if (t.access_kind[a] !== 1) this.read[here + t.access_buffer[a]] += t.access_bytes[a];
          if (t.access_kind[a] !== 0) this.written[here + t.access_buffer[a]] += t.access_bytes[a];
        }
        for (const kind of ["matmul", "exp", "other"]) {
          this.flops[kind][k] = t[`flops_${kind}`][k] + (k > first ? this.flops[kind][k - 1] : 0);
        }
      }
    }
  }

  // --- events worth a mark ---

  /** Steps at which a rescale really took something away: the share of rows with alpha < 1 that had a sum to lose. */
  indexRescales() {
    this.rescales = [];
    for (const { step, value } of this.eventsOf("rescale")) {
      const alpha = this.trace.value(value).data;
      const sum = this.role("running_sum", step - 1)?.data;
      if (!alpha?.length) continue;
      let rows = 0;
      for (let r = 0; r < alpha.length; r++) if (alpha[r] < 1 && (!sum || sum[r] > 0)) rows++;
      if (rows) this.rescales.push({ step, rows, of: alpha.length });
    }
  }

  /** Where a variable first holds NaN: {step, name}, or null. */
  findNaN() {
    const { change_at, change_name, change_value, header } = this.trace;
    const holds = header.values.map((value) => (value.k === "t" && isFloat(value.d) ? undefined : false));
    for (let k = 0; k < this.steps; k++) {
      for (let c = change_at[k]; c < change_at[k + 1]; c++) {
        const index = change_value[c];
        holds[index] ??= countNaN(this.trace.value(index)) > 0;
        if (holds[index]) return { step: k, name: header.names[change_name[c]][1] };
      }
    }
    return null;
  }
}

export function countNaN(value) {
  let count = 0;
  if (value?.data) for (const x of value.data) if (x !== x) count++;
  return count;
}

/** The stretches of a run that two runs are aligned by: each program's steps before, in and after each visit, or each join. */
export function stretches(story) {
  const out = new Map();
  story.programs.forEach((program, p) => {
    let key = `${p}:-1`;
    for (let k = program.first; k < program.end; k++) {
      const part = story.part(k);
      if (part >= 0) key = `${p}:${part}`;
      else if (!key.endsWith("+") && k > program.first && story.part(k - 1) >= 0) key += "+";
      if (!out.has(key)) out.set(key, []);
      out.get(key).push(k);
    }
  });
  return out;
}

export const stretchOrder = (key) => {
  const [program, visit] = key.split(":");
  return Number(program) * 1e6 + parseInt(visit, 10) + (visit.endsWith("+") ? 0.5 : 0);
};

/**
 * One timeline for one or two runs: for each, the run's own step at every step of the timeline. Two runs meet at the
 * start and the end of each tile visit and join; the one with fewer lines waits on its last.
 */
export function weave(stories) {
  if (stories.length === 1) return [Uint32Array.from({ length: stories[0].steps }, (_, k) => k)];
  const parts = stories.map(stretches);
  const keys = [...new Set(parts.flatMap((part) => [...part.keys()]))].sort((a, b) => stretchOrder(a) - stretchOrder(b));
  const out = stories.map(() => []);
  for (const key of keys) {
    const length = Math.max(...parts.map((part) => part.get(key)?.length ?? 0));
    parts.forEach((part, i) => {
      const steps = part.get(key) ?? [];
      const waiting = steps.at(-1) ?? out[i].at(-1) ?? 0;
      for (let k = 0; k < length; k++) out[i].push(steps[k] ?? waiting);
    });
  }
  return out.map((steps) => Uint32Array.from(steps));
}
