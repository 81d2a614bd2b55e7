// The output: an accumulator row by row, or what a softmax has written so far.

import { MapState, paintArray, paintMap } from "../paint.js";
import { countNaN } from "../story.js";
import { exact, short, times } from "../words.js";
import { toldOfCell } from "./map.js";
import { Panel } from "./panel.js";

export class OutputPanel extends Panel {
  constructor(lane) {
    super(lane, "output");
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
    this.head(`output ${view.roles.output}`, "acc", done ? `row ${row} adds up to ${short(total)}` : "nothing written yet", total !== total ? "NaN" : "");
    this.at = paintMap(this.surface, palette, this.outputs, { group: this.group, tile: lane.flat ? lane.tile : null, selected: lane.at.row, rowLabels: null, colLabels: lane.flat ? view.col_labels : null, stamp: lane.stamp });
  }

  renderAccumulator(k) {
    const { story, view, palette, lane } = this;
    const finished = story.changedAt("output", story.frameStart[k], k) > story.changedAt("accumulator", story.frameStart[k], k);
    const role = finished && story.role("output", k)?.shape?.length === 2 ? "output" : "accumulator";
    const value = story.role(role, k);
    this.array = value?.shape?.length === 2 ? value : null;
    const nans = countNaN(value);
    this.head(`${role === "output" ? "output" : "accumulator"} ${view.roles[role]}`, "acc", this.array ? times(value.shape) : "not set yet", nans ? `${nans} NaN` : "");
    this.hint(this.array ? "" : "the unfinished output, row by row");
    if (!this.array) {
      this.surface.clear();
      this.at = null;
      return;
    }
    const [rows, cols] = value.shape;
    this.at = paintArray(this.surface, palette, { data: value.data, rows, cols, ramp: "output", largest: lane.ranges[role], selected: rows === lane.rowCount ? lane.at.row : -1 });
    this.canvas.setAttribute("aria-label", `${view.roles[role]}, ${rows} rows of ${cols} values.`);
  }

  told(at) {
    if (this.mapped) return toldOfCell(this, this.outputs, this.group, at, this.view.roles.output, "f32");
    if (!this.array) return null;
    const row = this.lane.tile?.rows[at.row] ?? at.row;
    const word = this.view.row_labels?.[row];
    return `row ${row}${word === undefined ? "" : ` “${word}”`}, dimension ${at.col}\n${exact(this.array.data[at.row * this.array.shape[1] + at.col], this.array.dtype)}`;
  }
}
