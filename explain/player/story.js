// What a trace contains: programs, tile visits, the state at a step, the map of scores, the counters. Computed once,
// on load.

import { isFloat } from "./trace.js";

const LARGEST_MAP = 4_000_000;                            // cells; a larger map is not readable, and slow

const indentation = (text) => text.length - text.trimStart().length;

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
    this.indexBeats();
    this.indexTold();
    this.indexMapAxes();
    this.scoreMap = this.mapOf("scores");
    this.outputMap = this.mapOf("output");
    this.indexCounters();
    this.indexRescales();
    this.firstOdd = this.findOdd();
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

  /** The variables of each role, by function: {role: Map(source → index of the variable)}. */
  indexRoles(roles) {
    this.roles = {};
    this.kernelSources = new Set(this.trace.header.launches.map((launch) => launch.source));
    for (const [role, variable] of Object.entries(roles)) {
      const found = [...this.sources.keys()].map((source) => [source, this.byName.get(`${source} ${variable}`)]);
      const held = new Map(found.filter(([, name]) => name !== undefined));
      if (held.size) this.roles[role] = held;
    }
  }

  /** The variable that has a role at step k: the running kernel's own, else a helper's; undefined if none has. */
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

  /** Position in `name`'s history of its last change at or before step k, not before step `from`; −1 if there is
   * none. */
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

  /** The step of a role's first change at or after step `from`; undefined if there is none. */
  firstChange(role, from) {
    const name = this.nameOf(role, from);
    let at = this.historyStart[name];
    while (at < this.historyStart[name + 1] && this.historyStep[at] < from) at++;
    return at < this.historyStart[name + 1] ? this.historyStep[at] : undefined;
  }

  /** The step at which a visit sets its sum; in a pass without a sum, its output, maximum or scores. */
  madeIn({ begin, end }) {
    const roles = ["new_sum", "running_sum", "output", "running_max", "exponentials", "scores", "kept"];
    const made = roles.find((role) => this.changedAt(role, begin, end - 1) >= 0);
    return made ? this.firstChange(made, begin) : begin;
  }

  changes(k) {
    const { change_at, change_name, change_value } = this.trace;
    const out = [];
    for (let c = change_at[k]; c < change_at[k + 1]; c++) {
      const name = change_name[c];
      out.push({ name, label: this.trace.header.names[name][1], value: this.trace.value(change_value[c]) });
    }
    return out;
  }

  accesses(k) {
    const t = this.trace, out = [];
    for (let a = t.access_at[k]; a < t.access_at[k + 1]; a++) {
      out.push({ kind: t.access_kind[a], buffer: t.access_buffer[a], bytes: t.access_bytes[a],
        elements: t.access_value[a], mask: t.access_mask[a],
        stored: t.access_stored?.[a] ?? -1 });               // older files have no stored values
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

  /** The first step of each step's call: a helper's variables are new in each call. */
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

  /** Whether the condition of an `if` or `while` at step k is true, by where the program goes next; null for other
   * lines. */
  branch(k) {
    const program = this.programs[this.programAt[k]];
    if (!/^\s*(if|elif|while)\b/.test(this.text(k))) return null;
    const { depth, line } = this.trace;
    let next = k + 1;
    while (next < program.end && depth[next] > depth[k]) next++;   // past a helper that the condition calls
    if (next >= program.end) return null;
    return line[next] > line[k] && indentation(this.text(next)) > indentation(this.text(k));
  }

  /** The next step after k that runs k's line again, in its program; Infinity if none does. */
  nextAt(k) {
    const { line, source } = this.trace;
    const { end } = this.programs[this.programAt[k]];
    for (let at = k + 1; at < end; at++) if (line[at] === line[k] && source[at] === source[k]) return at;
    return Infinity;
  }

  // --- the same place in two runs of a kernel ---

  /** Step k's spot: its program and tile in the matrix, its line, and which time the line runs there. */
  spot(k) {
    const { line, source } = this.trace;
    const { launch, id, first } = this.programs[this.programAt[k]];
    const visit = this.visit(k), tile = visit && this.tile(visit.begin);
    const begin = visit?.begin ?? first;
    const corner = tile ? [tile.rows[0], tile.cols[0]] : null;
    return { launch, id, corner, line: line[k], source: source[k], nth: this.runs(line[k], source[k], begin, k),
      step: k };
  }

  /** How often a line runs in steps from … k. */
  runs(line, source, from, k) {
    let count = 0;
    for (let at = from; at <= k; at++) if (this.trace.line[at] === line && this.trace.source[at] === source) count++;
    return count;
  }

  /** This run's step at a spot of another: the same line of the tile there, else the last tile before it in its
   * program. */
  stepAt({ launch, id, corner, line, source, nth, step }) {
    const program = this.programs.find((one) => one.launch === launch && one.id.join() === id.join());
    if (!program) return Math.min(step, this.steps - 1);
    const holds = (list, at) => list[0] <= at && at <= list[list.length - 1];
    const own = this.visits.filter(({ begin }) => begin >= program.first && begin < program.end);
    const there = corner && own.find(({ begin }) => {
      const { rows, cols } = this.tile(begin);
      return holds(rows, corner[0]) && holds(cols, corner[1]);
    });
    const visit = corner && (there ?? own.at(-1));
    const { first, end } = visit ? { first: visit.begin, end: visit.end } : program;
    let found = first;
    for (let k = first, left = nth; k < end && left > 0; k++) {
      if (this.trace.line[k] === line && this.trace.source[k] === source) (found = k), left--;
    }
    return found;
  }

  // --- beats, and the tile visits and merges that they make up ---

  /** Beats, with the visits of tiles and the merges of pairs that they belong to (explain/beats.py). */
  indexBeats() {
    const fields = ([kind, begin, end, at, program, tile, names]) => ({ kind, begin, end, at, program, tile, names });
    this.beats = (this.view.beats ?? []).map(fields);
    this.visits = [];
    this.visitAt = new Int32Array(this.steps).fill(-1);
    this.joinAt = new Int32Array(this.steps).fill(-1);
    const key = ({ program, tile }) => `${program} ${tile}`;
    const merges = new Set(this.beats.filter(({ kind }) => kind === "merge").map(key));
    let before = "";
    for (const beat of this.beats) {
      const { begin, end, program, tile } = beat;
      if (tile >= 0 && merges.has(key(beat))) this.joinAt.fill(tile, begin, end);
      else if (tile >= 0) {
        if (key(beat) !== before) this.visits.push({ begin, end, program, ordinal: this.programs[program].visits++ });
        this.visits.at(-1).end = end;
        this.visitAt.fill(this.visits.length - 1, begin, end);
      }
      before = key(beat);
    }
  }

  /** Marks the steps that compute more than addresses, masks and counts: those that move data or set a float. */
  indexTold() {
    const { access_at, change_at, change_value, header } = this.trace;
    const isNumber = ({ k, d }) => k === "t" ? isFloat(d) : k === "s" && d === "float";
    const counts = header.values.map(isNumber);
    this.told = new Uint8Array(this.steps);
    for (let k = 0; k < this.steps; k++) {
      this.told[k] = access_at[k + 1] > access_at[k] || k === this.programs[this.programAt[k]].first;
      for (let c = change_at[k]; c < change_at[k + 1]; c++) if (counts[change_value[c]]) this.told[k] = 1;
    }
  }

  visit(k) {
    return this.visits[this.visitAt[k]] ?? null;
  }

  /** The first visit of each pass over the tiles: of another program, another loop, or the same loop from its
   * beginning. */
  get passes() {
    let before = null;
    return (this.passBegins ??= this.visits.filter((visit) => {
      const { rows, cols } = this.tile(visit.begin) ?? { rows: [0], cols: [0] };
      const now = { program: visit.program, line: this.trace.line[visit.begin], row: rows[0], col: cols[0] };
      const again = before && now.program === before.program && now.line === before.line;
      const goesOn = again && now.row >= before.row && now.col >= before.col;
      before = now;
      return !goesOn;
    }));
  }

  /** A tile in words: an element where each is one. */
  get tileName() {
    const isElement = ({ begin }) => {
      const tile = this.tile(begin);
      return tile?.cols.length === 1 && tile.rows.length === 1;
    };
    return (this.tileWord ??= this.visits.length && this.visits.every(isElement) ? "element" : "tile");
  }

  /** Where a visit stands in its program: “tile 2 of 6, pass 1 of 2”. */
  placeOf({ program, ordinal }) {
    const own = this.passes.filter((first) => first.program === program).map((first) => first.ordinal);
    const pass = own.findLastIndex((first) => first <= ordinal);
    const end = own[pass + 1] ?? this.programs[program].visits;
    const place = `${this.tileName} ${ordinal - own[pass] + 1} of ${end - own[pass]}`;
    return own.length > 1 ? `${place}, pass ${pass + 1} of ${own.length}` : place;
  }

  rowsAt(k) {
    return this.role("rows", k)?.data ?? [this.programs[this.programAt[k]].id[0]];
  }

  /** Whether step k's program visits tiles, and has not begun its first. */
  isBefore(k) {
    const first = this.visits.find(({ program }) => program === this.programAt[k]);
    return first !== undefined && k < first.begin;
  }

  /** The coordinates in the matrix of step k's tile: {rows, cols}, or null. */
  tile(k) {
    const scores = this.role("scores", k) ?? this.role("exponentials", k);
    const rows = this.rowsAt(k);
    const all = () => scores?.data && Array.from({ length: scores.data.length / rows.length }, (_, col) => col);
    const cols = this.role("cols", k)?.data ?? all();
    return cols ? { rows, cols } : null;
  }

  /** How many rows of state (m, ℓ, α) a step has. */
  rowCount(k) {
    const roles = ["running_max", "new_max", "running_sum", "rescale", "rows"];
    return roles.map((role) => this.role(role, k)).find((value) => value?.data)?.data.length ?? 1;
  }

  // --- pairs (m, ℓ) of tiles, and their joins ---

  get joins() {
    return Boolean(this.roles.tile_at && this.roles.other_at);
  }

  /** The ordinal of step k's tile visit in its program, or of its join; −1 for none. */
  part(k) {
    return this.visit(k)?.ordinal ?? this.joinAt[k];
  }

  /** All pairs of a row, of tiles and of joins, in order: {at, level, children, begin, step, m, l, factors, cols}. */
  pairs(row) {
    this.pairsOf ??= new Map();
    if (!this.pairsOf.has(row)) this.pairsOf.set(row, this.findPairs(row));
    return this.pairsOf.get(row);
  }

  findPairs(row) {
    const [, width] = this.view.score_shape ?? [0, Infinity];
    const number = (role, k) => this.role(role, k)?.data?.[0];
    const pair = (begin, step) => ({ begin, step, m: number("running_max", step), l: number("running_sum", step) });
    const within = (role, from, end) => this.eventsOf(role).filter(({ step }) => step >= from && step < end);
    const steps = (role, from, end) => within(role, from, end).map(({ step }) => step);
    const out = [];
    const latest = new Map();                              // tile → its latest pair
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
        const place = { at: (a.at + b.at) / 2, level: Math.max(a.level, b.level) + 1 };
        const cols = [...a.cols, ...b.cols].sort((x, y) => x - y);
        out.push({ ...pair(begin, step), ...place, children, factors, cols });
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
      const along = (other, axis) => other.id.every((at, a) => (at === program.id[a]) === (a !== axis));
      const apart = (other, o) => other.launch === program.launch && signatures[o] !== signatures[p];
      const moves = (axis) => this.programs.some((other, o) => apart(other, o) && along(other, axis));
      program.kin = `${program.launch}:${program.id.map((at, axis) => (moves(axis) ? "*" : at))}`;
    });
  }

  /** A role's tiles on the score_shape map: {height, width, groups, byKin, largest}; null if they do not lie on it. */
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
    if (!groups.size) return null;
    return { height, width, groups: [...groups.values()], byKin: groups, largest: largest || 1 };
  }

  /** The tiles on step k's map: of its own head, else the latest. */
  mapGroup(map, k) {
    const own = map.byKin.get(this.programs[this.programAt[k]].kin);
    return own ?? map.groups.findLast((group) => group[0].step <= k) ?? map.groups[0];
  }

  // --- counters ---

  /** By step: what its launch's recorded programs have read, written and computed up to it. */
  indexCounters() {
    const t = this.trace;
    const widest = Math.max(0, ...t.header.launches.map((launch) => launch.buffers.length));
    this.bufferCount = widest;
    this.read = new Float64Array(this.steps * widest);
    this.written = new Float64Array(this.steps * widest);
    const kinds = ["matmul", "exp", "other"];
    this.flops = Object.fromEntries(kinds.map((kind) => [kind, new Float64Array(this.steps)]));
    this.programs.forEach(({ launch, first, end }, p) => {
      const begins = this.programs[p - 1]?.launch !== launch;
      for (let k = first; k < end; k++) {
        const here = k * widest, goesOn = k > first || !begins;
        if (goesOn) {
          this.read.copyWithin(here, here - widest, here);
          this.written.copyWithin(here, here - widest, here);
        }
        for (let a = t.access_at[k]; a < t.access_at[k + 1]; a++) {
          if (t.access_kind[a] !== 1) this.read[here + t.access_buffer[a]] += t.access_bytes[a];
          if (t.access_kind[a] !== 0) this.written[here + t.access_buffer[a]] += t.access_bytes[a];
        }
        for (const kind of kinds) {
          this.flops[kind][k] = t[`flops_${kind}`][k] + (goesOn ? this.flops[kind][k - 1] : 0);
        }
      }
    });
  }

  /** The bytes that all launches have read and written up to step k: [read, written]. */
  traffic(k) {
    const begun = this.programs.filter(({ first }) => first <= k);
    const last = begun.filter(({ launch }, p) => begun[p + 1]?.launch !== launch); // of each launch
    const total = (counted) => last.reduce((sum, { end }) => {
      const at = Math.min(end - 1, k);
      const row = counted.subarray(at * this.bufferCount, (at + 1) * this.bufferCount);
      return sum + row.reduce((all, n) => all + n, 0);
    }, 0);
    return [total(this.read), total(this.written)];
  }

  // --- events worth a mark ---

  /** The steps of rescales that shrink something: how many rows have α < 1 and ℓ > 0 before. */
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

  /** The first NaN in a variable: {step, name}, or null. */
  /** The first NaN that a variable holds, or if none does the first +∞: {step, name, what}; null without one. */
  findOdd() {
    const { change_at, change_name, change_value, header } = this.trace;
    const holds = header.values.map((value) => (value.k === "t" && isFloat(value.d) ? undefined : ""));
    let infinite = null;
    for (let k = 0; k < this.steps; k++) {
      for (let c = change_at[k]; c < change_at[k + 1]; c++) {
        const index = change_value[c];
        holds[index] ??= oddOf(this.trace.value(index).data);
        if (!holds[index]) continue;
        const found = { step: k, name: header.names[change_name[c]][1], what: holds[index] };
        if (found.what === "NaN") return found;
        infinite ??= found;
      }
    }
    return infinite;
  }
}

/** What the scores are called: logits over a vocabulary and in a softmax of rows, scores in attention. */
export const scoresWord = (view) => (view.axes && !view.roles.target ? "scores" : "logits");

/** Whether the exponentials at step k are divided by ℓ already: loaded as such, set by a line that divides, or made from
 * L, as in a backward pass. */
export function isNormalised(story, k) {
  if (story.roles.gradient?.has(story.trace.source[k]) || story.roles.scores_gradient) return true;
  const set = story.changedAt("exponentials", story.programs[story.programAt[k]].first, k);
  return set >= 0 && /\bload\b|\//.test(story.text(set));
}

/** "NaN" if one of the numbers is, else "∞" if one is +∞, else "". */
function oddOf(data) {
  let found = "";
  for (const x of data) {
    if (x !== x) return "NaN";
    if (x === Infinity) found = "∞";
  }
  return found;
}

export function countNaN(value) {
  let count = 0;
  if (value?.data) for (const x of value.data) if (x !== x) count++;
  return count;
}
