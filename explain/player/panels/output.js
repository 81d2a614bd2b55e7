// The output: an accumulator row by row, or what a softmax has written so far.

import { paintArray } from "../pictures/array.js";
import { paintBars } from "../pictures/bars.js";
import { MapState, paintMap } from "../pictures/map.js";
import { write } from "../surface.js";
import { countNaN } from "../story.js";
import { exact, short, times } from "../words.js";
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
    this.head(`output ${view.roles.output}`, "acc", done ? `row ${row} adds up to ${short(total)}` : "nothing written yet", total !== total ? "NaN" : "", view.roles.output);
    const tile = lane.flat ? lane.tile : null;
    this.at = paintMap(this.surface, palette, this.outputs, { group: this.group, tile, selected: lane.at.row, rowLabels: null, colLabels: lane.flat ? view.col_labels : null, stamp: lane.stamp });
  }

  renderAccumulator(k) {
    const { story, view, palette, lane } = this;
    const finished = story.changedAt("output", story.frameStart[k], k) > story.changedAt("accumulator", story.frameStart[k], k);
    const role = finished && story.role("output", k)?.shape?.length === 2 ? "output" : "accumulator";
    const value = story.role(role, k);
    this.array = value?.shape?.length === 2 ? value : null;
    const nans = countNaN(value);
    this.head(`${role === "output" ? "output" : "accumulator"} ${view.roles[role]}`, "acc", this.array ? times(value.shape) : "not set yet", nans ? `${nans} NaN` : "", view.roles[role]);
    this.hint(this.array ? "" : "the unfinished output, row by row");
    if (!this.array) {
      this.change = null;
      this.at = this.surface.draw(["nothing"], () => (this.surface.clear(), null));
      return;
    }
    this.step = k;
    this.change = role === "accumulator" ? this.rescale(k, value) : null;
    this.largest = lane.ranges[role];
    this.paint();
    this.canvas.setAttribute("aria-label", `${view.roles[role]}, ${value.shape[0]} rows of ${value.shape[1]} values.`);
  }

  /** What this visit does to the accumulator: {before, alpha}, from its rescale on; null while there is none. */
  rescale(k, value) {
    const { story, lane } = this;
    const { visit } = lane;
    if (!visit || story.changedAt("rescale", visit.begin, k) < 0 || story.changedAt("accumulator", visit.begin, k) < 0) return null;
    const first = story.firstChange("accumulator", visit.begin);
    const before = story.role("accumulator", first - 1), alpha = story.role("rescale", k)?.data;
    return before?.data?.length === value.data.length && alpha?.length === value.shape[0] ? { before: before.data, alpha, first } : null;
  }

  /** The whole array as a heat map, and the selected row as bars. */
  paint() {
    const { lane, array, change, surface } = this;
    if (!array || !surface.visible) return;
    const phase = this.phase(), program = lane.story.programAt[lane.step];
    const inputs = [array, change?.before, change?.alpha, lane.at.row, lane.rowCount, program, phase, lane.tile?.rows, lane.stamp];
    this.at = surface.draw(inputs, () => this.paintAccumulator(phase));
  }

  paintAccumulator(phase) {
    const { lane, surface, palette, array, change } = this;
    const [rows, cols] = array.shape;
    const selected = rows === lane.rowCount ? lane.at.row : -1;
    const barred = selected >= 0 && surface.height > palette.size * 6;
    const high = barred ? surface.height * 0.5 : surface.height;
    const at = paintArray(surface, palette, { data: array.data, rows, cols, ramp: "output", largest: this.largest, selected, height: high });
    if (!barred) return at;
    const row = (data) => data.subarray?.(selected * cols, (selected + 1) * cols) ?? data.slice(selected * cols, (selected + 1) * cols);
    const place = { x: 0, y: high + palette.size * 1.5, width: Math.min(surface.width, cols * 64), height: surface.height - high - palette.size * 1.5 - 1 };
    write(surface.ctx, this.caption(selected), 0, high + palette.size * 0.8, { colour: palette.muted, size: palette.size * 0.82, font: palette.font, room: surface.width });
    const bars = { now: row(array.data), before: change && row(change.before), alpha: change?.alpha[selected], largest: this.largestOf(selected) };
    paintBars(surface.ctx, palette, place, bars, phase);
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
        for (let i = row * cols; i < (row + 1) * cols; i++) if (Number.isFinite(data[i])) most = Math.max(most, Math.abs(data[i]));
      }
      this.scales.set(key, most || 1);
    }
    return this.scales.get(key);
  }

  /** How far the movement has got: the line that rescales only shrinks, a later one only adds. */
  phase() {
    const { lane, change, step } = this;
    if (lane.phase === 1 || !change || !this.moves(step)) return 1;
    return change.first !== step ? 0.5 + lane.phase / 2 : lane.phase;
  }

  caption(row) {
    const { lane, change } = this;
    const name = `row ${lane.tile?.rows[row] ?? row}`;
    return change ? `${name}: what was, × α = ${short(change.alpha[row])}, plus this tile's part` : name;
  }

  /** Whether step k changes the accumulator of a tile that is rescaled: then it is drawn as a movement. */
  moves(k) {
    return Boolean(this.array && this.change) && this.story.changedAt("accumulator", k, k) === k;
  }

  told(at) {
    if (this.mapped) return toldOfCell(this, this.outputs, this.group, at, this.view.roles.output, "f32");
    if (!this.array) return null;
    const row = this.lane.tile?.rows[at.row] ?? at.row;
    const word = this.view.row_labels?.[row];
    return `row ${row}${word === undefined ? "" : ` “${word}”`}, dimension ${at.col}\n${exact(this.array.data[at.row * this.array.shape[1] + at.col], this.array.dtype)}`;
  }
}
