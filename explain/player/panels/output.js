// The output: an accumulator row by row, or what a softmax has written so far.

import { exact, number, times } from "../numbers.js";
import { paintArray } from "../pictures/array.js";
import { paintBars } from "../pictures/bars.js";
import { MapState, paintMap } from "../pictures/map.js";
import { write } from "../surface.js";
import { countNaN } from "../story.js";
import { toldOfCell } from "./map.js";
import { Panel } from "./panel.js";

export class OutputPanel extends Panel {
  constructor(lane) {
    super(lane, "output");
    this.scales = new Map();
    this.mapped = Boolean(this.story.outputMap) && !this.story.roles.accumulator;
    if (this.story.outputMap) this.outputs = new MapState(this.story.outputMap, "share", false);
  }

  get shown() {
    return Boolean(this.story.roles.accumulator) || Boolean(this.story.outputMap);
  }

  render(k) {
    if (this.mapped) this.renderWritten(k);
    else this.renderAccumulator(k);
  }

  renderWritten(k) {
    const { story, view, palette, lane } = this;
    const { width } = story.outputMap;
    this.group = story.mapGroup(story.outputMap, k);
    this.outputs.advance(this.group, k, palette);
    const row = lane.tile?.rows[lane.at.row] ?? story.tile(k)?.rows[lane.at.row] ?? 0;
    let total = 0, done = 0;
    for (let col = 0; col < width; col++) {
      const cell = row * width + col;
      if (this.outputs.done[cell]) done++, (total += this.outputs.values[cell]);
    }
    const note = done ? `row ${row} sums to ${number(total)}` : "nothing written yet";
    this.root.dataset.sum = total;
    this.head(`output ${view.roles.output}`, "p", note, total !== total ? "NaN" : "", view.roles.output);
    this.canvas.setAttribute("aria-label", `Output ${view.roles.output}: ${note}`);
    const tile = lane.flat ? lane.tile : null, colLabels = lane.flat ? view.col_labels : null;
    const shown = { group: this.group, tile, selected: lane.at.row, rowLabels: null, colLabels, stamp: lane.stamp };
    this.at = paintMap(this.surface, palette, this.outputs, shown);
  }

  renderAccumulator(k) {
    const { story, view, palette, lane } = this;
    const set = (role) => story.changedAt(role, story.frameStart[k], k);
    const finished = set("output") > set("accumulator");
    const role = finished && story.role("output", k)?.shape?.length === 2 ? "output" : "accumulator";
    const value = story.role(role, k);
    this.array = value?.shape?.length === 2 ? value : null;
    const nans = countNaN(value);
    const name = `${role === "output" ? "output" : "accumulator"} ${view.roles[role]}`;
    const note = this.array ? times(value.shape) : "not set yet";
    this.head(name, "acc", note, nans ? `${nans} NaN` : "", view.roles[role]);
    this.hint(this.array ? "" : "the output before the division by ℓ, row by row");
    this.canvas.setAttribute("aria-label", `${name}, ${note}`);
    if (!this.array) {
      this.change = null;
      this.at = this.surface.draw(["nothing"], () => (this.surface.clear(), null));
      return;
    }
    this.step = k;
    this.change = role === "accumulator" ? this.rescale(k, value) : null;
    this.largest = lane.ranges[role];
    this.paint();
  }

  /** This visit's rescale of the accumulator: {before, alpha, first}; null before it. */
  rescale(k, value) {
    const { story, lane } = this;
    const { visit } = lane;
    if (!visit || ["rescale", "accumulator"].some((role) => story.changedAt(role, visit.begin, k) < 0)) return null;
    const first = story.firstChange("accumulator", visit.begin);
    const before = story.role("accumulator", first - 1), alpha = story.role("rescale", k)?.data;
    const fits = before?.data?.length === value.data.length && alpha?.length === value.shape[0];
    return fits ? { before: before.data, alpha, first } : null;
  }

  /** The whole array as a heat map, and the selected row as bars. */
  paint() {
    const { lane, array, change, surface } = this;
    if (!array || !surface.visible) return;
    const phase = this.phase(), program = lane.story.programAt[lane.step];
    const { at, rowCount, tile, stamp } = lane;
    const inputs = [array, change?.before, change?.alpha, at.row, rowCount, program, phase, tile?.rows, stamp];
    this.at = surface.draw(inputs, () => this.paintAccumulator(phase));
  }

  paintAccumulator(phase) {
    const { lane, surface, palette, array, change } = this;
    const [rows, cols] = array.shape;
    const selected = rows === lane.rowCount ? lane.at.row : -1;
    const barred = selected >= 0 && surface.height > palette.size * 6;
    const high = barred ? surface.height * 0.5 : surface.height;
    const whole = { data: array.data, rows, cols, ramp: "output", largest: this.largest, selected, height: high };
    const at = paintArray(surface, palette, whole);
    if (!barred) return at;
    const { size, font, muted } = palette;
    const row = (data) => data.slice(selected * cols, (selected + 1) * cols);
    const top = high + size * 1.5;
    const place = { x: 0, y: top, width: Math.min(surface.width, cols * 64), height: surface.height - top - 1 };
    write(surface.ctx, this.caption(selected), 0, high + size * 0.8,
      { colour: muted, size: size * 0.82, font, room: surface.width });
    const [now, before] = [row(array.data), change && row(change.before)];
    paintBars(surface.ctx, palette, place,
      { now, before, alpha: change?.alpha[selected], largest: this.largestOf(selected) }, phase);
    return at;
  }

  /** The scale of a row's bars: the same for all of its program's steps. */
  largestOf(row) {
    const { story, lane, array } = this;
    const program = story.programs[story.programAt[lane.step]];
    const key = `${program.first} ${row}`;
    if (!this.scales.has(key)) {
      const cols = array.shape[1];
      let most = 0;
      for (const { step, value } of story.eventsOf("accumulator")) {
        if (step < program.first || step >= program.end) continue;
        const { data } = story.trace.value(value);
        const own = data.slice(row * cols, (row + 1) * cols);
        for (const x of own) if (Number.isFinite(x)) most = Math.max(most, Math.abs(x));
      }
      this.scales.set(key, most || 1);
    }
    return this.scales.get(key);
  }

  /** How far the movement has got. The line that rescales shrinks the bars; a later line adds to them. */
  phase() {
    const { lane, change, step } = this;
    if (lane.phase === 1 || !change || !this.moves(step)) return 1;
    return change.first !== step ? 0.5 + lane.phase / 2 : lane.phase;
  }

  /** A row of the tile as a row of the whole matrix, between two tiles too. */
  rowOf(row) {
    const { lane, story } = this;
    return (lane.tile ?? story.tile(lane.step))?.rows[row] ?? row;
  }

  caption(row) {
    const { change } = this, name = `row ${this.rowOf(row)}`;
    return change ? `${name}: before × ${number(change.alpha[row])} (α) + this tile` : name;
  }

  /** Whether step k changes a rescaled accumulator: then it is drawn as a movement. */
  moves(k) {
    return Boolean(this.array && this.change) && this.story.changedAt("accumulator", k, k) === k;
  }

  told(at) {
    if (this.mapped) return toldOfCell(this, this.outputs, this.group, at, this.view.roles.output, "f32");
    if (!this.array) return null;
    const row = this.rowOf(at.row);
    const word = this.view.row_labels?.[row];
    const value = this.array.data[at.row * this.array.shape[1] + at.col];
    const named = word === undefined ? "" : ` “${word}”`;
    return `row ${row}${named}, dimension ${at.col}\n${exact(value, this.array.dtype)}`;
  }
}
