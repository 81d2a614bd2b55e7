// The current tile, enlarged: each of its values as a number, as many as can be read; the selected row marked.

import { exact, format, range } from "../numbers.js";
import { CELL_DIGITS, SMALLEST_PX } from "../pictures/array.js";
import { isNormalised, scoresWord } from "../story.js";
import { drawCells, figureEms, widest, write, writeAll } from "../surface.js";
import { Panel } from "./panel.js";

const FIGURE_GAP_EM = 0.5, LINE_EM = 1.3;                         // between two numbers; a number's height

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
    this.both = ["scores", "exponentials"].map((role) => this.held(role, k)).filter(Boolean);
    const latest = this.both.toSorted((a, b) => b.changed - a.changed)[0];
    this.hint(latest ? "" : "the numbers of the current tile");
    if (!latest) {
      const why = tile ? "not computed yet" : "no tile is loaded at this line";
      this.head("this tile", "", why);
      this.canvas.setAttribute("aria-label", `this tile: ${why}`);
      this.at = this.surface.draw(["nothing"], () => (this.surface.clear(), null));
      return;
    }
    const scores = latest.role === "scores";
    const variable = view.roles[latest.role];
    const { at, stamp } = lane;
    const title = scores ? scoresWord(view) : isNormalised(this.story, k) ? "weights P =" : "unnormalised P̃ =";
    this.figure = format(scores ? this.story.scoreMap.largest : lane.ranges.p, CELL_DIGITS);
    this.surface.draw([latest.data, tile.rows, tile.cols, at.row, at.col, stamp],
      () => (this.window = this.paint(latest, scores)));
    this.head(`${title} ${variable}`, scores ? "scores" : "p", this.window, "", variable);
    const row = latest.data.slice(at.row * lane.colCount, (at.row + 1) * lane.colCount);
    const numbers = Array.from(row.slice(0, 32), this.figure).join(" ");
    this.canvas.setAttribute("aria-label", `${variable} of this tile; row ${tile.rows[at.row]}: ${numbers}`);
  }

  /** Draws as much of the tile around the selected element as can be read; returns what part that is, in words. */
  paint({ data }, scores) {
    const { lane, palette, surface, view } = this;
    const { tile, rowCount: rows, colCount: cols, at } = lane;
    const { font } = palette;
    const ctx = surface.clear();
    const texts = Array.from(data, this.figure);
    const ems = figureEms(ctx, texts, font) + FIGURE_GAP_EM;
    const labelSize = palette.size * 0.8, names = Array.from(tile.rows, String);
    const left = Math.ceil(widest(ctx, names, labelSize * 1.1, font)) + 10, top = Math.ceil(palette.size * 1.3);
    const wide = surface.width - left - 2, high = surface.height - top - 2;
    // Smaller numbers where that shows the whole tile; a part of the tile where they would be too small to read.
    const whole = Math.min(palette.size * 1.15, wide / cols / ems, high / rows / LINE_EM);
    const smallest = Math.max(SMALLEST_PX, palette.smallest);
    const size = whole >= smallest ? whole : Math.max(smallest, palette.size * 0.8);
    const fit = (room, cell, count) => Math.max(1, Math.min(count, Math.floor(room / cell + 1e-6)));
    const across = fit(wide, size * ems, cols), down = fit(high, size * LINE_EM, rows);
    const first = (selected, shown, count) => Math.max(0, Math.min(count - shown, selected - (shown >> 1)));
    const row0 = first(at.row, down, rows), col0 = first(at.col, across, cols);
    const cw = Math.min(wide / across, size * 5.5), ch = Math.min(high / down, cw);
    const look = (on) => (on ? { colour: palette.text, weight: 650 } : { colour: palette.muted, weight: 400 });
    const label = (on) => ({ size: Math.min(size, labelSize), font, ...look(on) });
    const columnNames = Array.from(tile.cols, (col) => view.col_labels?.[col] ?? String(col));
    const longest = widest(ctx, columnNames.slice(col0, col0 + across), Math.min(size, labelSize), font);
    const every = columnStride(longest + 4, cw, across);
    for (let c = (at.col - col0) % every; c < across; c += every) {
      const style = { ...label(col0 + c === at.col), align: "center", room: every * cw - 2 };
      write(ctx, columnNames[col0 + c], left + (c + 0.5) * cw, top * 0.5, style);
    }
    const ramp = scores ? palette.scores : palette.share;
    const largest = scores ? this.story.scoreMap.largest : lane.ranges.p;
    const pixels = new Int32Array(down * across), figures = [];
    for (let r = 0; r < down; r++) {
      const y = top + (r + 0.5) * ch;
      write(ctx, names[row0 + r], left - 6, y, { ...label(row0 + r === at.row), align: "right" });
      for (let c = 0; c < across; c++) {
        const i = (row0 + r) * cols + col0 + c;
        const pixel = (pixels[r * across + c] = palette.pixel(data[i], ramp, largest, scores));
        figures.push({ text: texts[i], x: left + (c + 0.5) * cw, y, colour: palette.inkOn(pixel) });
      }
    }
    drawCells(ctx, this.cells, pixels, across, left, top, cw * across, ch * down);
    writeAll(ctx, figures, { size: Math.min(size * 1.15, ch * 0.74, cw / ems), font, align: "center" });
    ctx.strokeStyle = palette.text;
    ctx.lineWidth = 1.25;
    ctx.strokeRect(left - 0.5, top + (at.row - row0) * ch, cw * across + 1, ch);
    ctx.lineWidth = 2.25;
    ctx.strokeRect(left + (at.col - col0) * cw, top + (at.row - row0) * ch, cw, ch);
    this.at = (x, y) => {
      const c = Math.floor((x - left) / cw), r = Math.floor((y - top) / ch);
      return c >= 0 && c < across && r >= 0 && r < down ? { row: row0 + r, col: col0 + c } : null;
    };
    if (down === rows && across === cols) return `${rows} × ${cols}, this tile`;
    const part = (first, count, all) => `${range(first, first + count - 1)} of ${all}`;
    return `rows ${part(row0, down, rows)}, columns ${part(col0, across, cols)}`;
  }

  clicked(at) {
    this.lane.select({ row: at.row, col: at.col });
  }

  told({ row, col }) {
    const { lane, view } = this;
    const values = this.both.map(({ role, data, dtype }) =>
      `${view.roles[role]} = ${exact(data[row * lane.colCount + col], dtype)}`);
    return `row ${lane.tile.rows[row]}, column ${lane.tile.cols[col]}\n${values.join("\n")}`;
  }
}

/** How many columns a name may span: as few as leave it whole, at most 4. */
function columnStride(name, cell, across) {
  return [1, 2, 4].find((every) => every * cell >= name) ?? Math.min(4, across);
}
