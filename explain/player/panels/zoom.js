// The current tile, enlarged: each of its values as a number, as many as can be read; the selected row marked.

import { tiny, exact } from "../words.js";
import { drawCells, write, writeAll } from "../surface.js";
import { Panel } from "./panel.js";

const SMALLEST_PX = 9;
const FIGURE_EM = 2.6, BRIEF_EM = 2.15, LINE_EM = 1.3;     // what a figure of five or of four characters takes, and its height

export class ZoomPanel extends Panel {
  constructor(lane) {
    super(lane, "zoom");
    this.cells = document.createElement("canvas");
  }

  get shown() {
    return Boolean(this.story.scoreMap) && !this.lane.flat;
  }

  /** A role's tile, if it was set in this visit: {role, data, dtype, changed}. */
  held(role, k) {
    const { visit, rowCount, colCount } = this.lane;
    const changed = visit ? this.story.changedAt(role, visit.begin, k) : -1;
    const value = changed < 0 ? null : this.story.role(role, k);
    return value?.data?.length === rowCount * colCount ? { role, ...value, changed } : null;
  }

  render(k) {
    const { lane, view } = this;
    const { tile } = lane;
    this.both = ["scores", "probabilities"].map((role) => this.held(role, k)).filter(Boolean);
    const latest = this.both.toSorted((a, b) => b.changed - a.changed)[0];
    this.hint(latest ? "" : "the current tile, number by number");
    if (!latest) {
      this.head("this tile", "", tile ? "not computed yet" : "between tiles");
      this.at = this.surface.draw(["nothing"], () => (this.surface.clear(), null));
      return;
    }
    const scores = latest.role === "scores";
    const name = view.roles[latest.role];
    const { at, stamp } = lane;
    this.surface.draw([latest.data, tile.rows, tile.cols, at.row, at.col, stamp], () => (this.window = this.paint(latest, scores)));
    this.head(`${scores ? "scores" : "probabilities"} ${name}`, scores ? "scores" : "p", this.window, "", name);
    this.canvas.setAttribute("aria-label", `${name} of this tile; row ${tile.rows[lane.at.row]}: ${Array.from(latest.data.slice(lane.at.row * lane.colCount, (lane.at.row + 1) * lane.colCount), (x) => tiny(x)).slice(0, 32).join(" ")}`);
  }

  /** Draws as much of the tile around the selected element as leaves its numbers readable; says what is drawn. */
  paint({ data }, scores) {
    const { lane, palette, surface, view } = this;
    const { tile, rowCount: rows, colCount: cols, at } = lane;
    const ctx = surface.clear();
    const left = Math.ceil(palette.size * 1.6), top = Math.ceil(palette.size * 1.3);
    const wide = surface.width - left - 1, high = surface.height - top - 1;
    // Smaller figures where they let the whole tile be seen; where they would be too small to be read, a part of it.
    const whole = Math.min(palette.size * 1.15, wide / cols / BRIEF_EM, high / rows / LINE_EM);
    const size = whole >= SMALLEST_PX ? whole : palette.size * 0.8;
    const fit = (room, cell, count) => Math.max(1, Math.min(count, Math.floor(room / cell + 1e-6)));
    const brief = fit(wide, size * FIGURE_EM, cols) < cols && fit(wide, size * BRIEF_EM, cols) === cols;
    const across = brief ? cols : fit(wide, size * FIGURE_EM, cols), down = fit(high, size * LINE_EM, rows);
    const first = (selected, shown, count) => Math.max(0, Math.min(count - shown, selected - (shown >> 1)));
    const row0 = first(at.row, down, rows), col0 = first(at.col, across, cols);
    const cw = Math.min(wide / across, size * 5.5), ch = Math.min(high / down, cw);
    const label = { size: Math.min(size, palette.size * 0.8), font: palette.font };
    for (let c = 0; c < across; c++) {
      const on = col0 + c === at.col;
      write(ctx, view.col_labels?.[tile.cols[col0 + c]] ?? String(tile.cols[col0 + c]), left + (c + 0.5) * cw, top * 0.5, { ...label, align: "center", colour: on ? palette.text : palette.muted, weight: on ? 650 : 400, room: cw - 2 });
    }
    const ramp = scores ? palette.scores : palette.share, largest = scores ? this.story.scoreMap.largest : lane.ranges.p;
    const figure = { size: Math.min(size * 1.15, ch * 0.74, cw * (brief ? 0.43 : 0.4)), font: palette.font, align: "center" };
    const pixels = new Int32Array(down * across), figures = [];
    for (let r = 0; r < down; r++) {
      const on = row0 + r === at.row, y = top + (r + 0.5) * ch;
      write(ctx, String(tile.rows[row0 + r]), left - 6, y, { ...label, align: "right", colour: on ? palette.text : palette.muted, weight: on ? 650 : 400 });
      for (let c = 0; c < across; c++) {
        const x = data[(row0 + r) * cols + col0 + c];
        const pixel = (pixels[r * across + c] = palette.pixel(x, ramp, largest, scores));
        figures.push({ text: brief ? briefly(x) : tiny(x), x: left + (c + 0.5) * cw, y, colour: palette.inkOn(pixel) });
      }
    }
    drawCells(ctx, this.cells, pixels, across, left, top, cw * across, ch * down);
    writeAll(ctx, figures, figure);
    ctx.strokeStyle = palette.text;
    ctx.lineWidth = 1.25;
    ctx.strokeRect(left - 0.5, top + (at.row - row0) * ch, cw * across + 1, ch);
    ctx.lineWidth = 2.25;
    ctx.strokeRect(left + (at.col - col0) * cw, top + (at.row - row0) * ch, cw, ch);
    this.at = (x, y) => {
      const c = Math.floor((x - left) / cw), r = Math.floor((y - top) / ch);
      return c >= 0 && c < across && r >= 0 && r < down ? { row: row0 + r, col: col0 + c } : null;
    };
    return down < rows || across < cols ? `${down} × ${across} of the tile's ${rows} × ${cols} values` : `this tile, ${rows} × ${cols}`;
  }

  clicked(at) {
    this.lane.select({ row: at.row, col: at.col });
  }

  told({ row, col }) {
    const { lane, view } = this;
    const values = this.both.map(({ role, data, dtype }) => `${view.roles[role]} = ${exact(data[row * lane.colCount + col], dtype)}`);
    return `row ${lane.tile.rows[row]}, column ${lane.tile.cols[col]}\n${values.join("\n")}`;
  }
}

/** A number in at most four characters: −.44, 1.6, 12. */
function briefly(x) {
  const size = Math.abs(x);
  if (!(size < 99.5)) return tiny(x);
  const figure = size < 0.995 ? size.toFixed(2).slice(1) : size.toFixed(size < 9.95 ? 1 : 0);
  return x === 0 ? "0" : `${x < 0 ? "−" : ""}${figure}`;
}
