// One row of the current tile as numbers.

import { exact, number } from "../numbers.js";
import { paintStrip } from "../pictures/strip.js";
import { Panel } from "./panel.js";

export class StripPanel extends Panel {
  constructor(lane) {
    super(lane, "strip");
  }

  get shown() {
    // A map of many rows has its tile enlarged instead; merged pairs have their tree.
    return Boolean(this.story.scoreMap) && this.lane.flat && !this.story.roles.tile_at;
  }

  render(k) {
    const { view, palette, story, lane } = this;
    const { tile, at } = lane;
    const blank = new Array(lane.colCount).fill(undefined);
    const line = (role, quantity, ramp, largest, diverging) => {
      if (!story.roles[role]) return null;
      const data = tile ? this.alongRow(role, k) : null;
      return { label: view.roles[role], quantity, ramp, largest, diverging, data: data ?? blank, known: Boolean(data) };
    };
    this.lines = [
      line("scores", "scores", "scores", story.scoreMap.largest, true),
      line("exponentials", "p", "share", lane.ranges.p, false),
      story.outputMap && line("output", "p", "share", story.outputMap.largest, false),
    ].filter((l) => l?.known);
    const title = !tile ? "no tile" : lane.rowCount > 1 ? `row ${tile.rows[at.row]} of this tile` : "this tile";
    this.head(title, "", tile && view.row_labels ? `“${view.row_labels[tile.rows[at.row]] ?? "–"}”` : "");
    this.hint(this.lines.length ? "" : "the numbers of one row of the current tile");
    const labels = tile ? Array.from(tile.cols, (col) => view.col_labels?.[col] ?? String(col)) : null;
    this.at = paintStrip(this.surface, palette, { lines: this.lines, labels, selected: at.col });
    const read = ({ label, data }) => `${label} ${Array.from(data.slice(0, 16), (x) => number(x)).join(" ")}`;
    this.canvas.setAttribute("aria-label", `${title}: ${this.lines.map(read).join("; ")}`);
  }

  /** A role's values along the selected row of the tile, if it was set in this visit; else null. */
  alongRow(role, k) {
    const { visit, rowCount, colCount, at } = this.lane;
    if (!visit || this.story.changedAt(role, visit.begin, k) < 0) return null;
    const value = this.story.role(role, k);
    if (value?.data?.length !== rowCount * colCount) return null;
    return value.data.slice(at.row * colCount, (at.row + 1) * colCount);
  }

  clicked(at) {
    this.lane.select({ ...this.lane.selection, col: at.col });
  }

  told(at) {
    const { col_labels: words } = this.view;
    const col = this.lane.tile?.cols[at.col];
    const named = words?.[col] === undefined ? String(col) : `${col} “${words[col]}”`;
    const values = this.lines.map(({ label, data }) => `${label} = ${exact(data[at.col], "f32")}`);
    return `column ${named}\n${values.join("\n")}`;
  }
}
