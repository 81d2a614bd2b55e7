// The map of a matrix: what has been computed of it by a step, the tile at work, what the mask skips.

import { format, patterns } from "../numbers.js";
import { NOWHERE, figureEms, hatching, widest, write, writeAll } from "../surface.js";
import { CELL_DIGITS, CELL_GAP_PX, SMALLEST_PX } from "./array.js";

/** A map at a step, kept between steps: the values computed so far, and their pixels. */
export class MapState {
  constructor(map, ramp, diverging) {
    this.map = map;
    this.ramp = ramp;
    this.diverging = diverging;
    this.version = 0;                                      // counts the changes
    this.values = new Float64Array(map.width * map.height);
    this.done = new Uint8Array(map.width * map.height);
    this.image = document.createElement("canvas");
    this.image.width = map.width;
    this.image.height = map.height;
    this.pen = this.image.getContext("2d");
    this.pixels = this.pen.createImageData(map.width, map.height);
    this.words = new Int32Array(this.pixels.data.buffer);
  }

  /** Brings the map to step k of its group of tiles, from where it stands if it can. */
  advance(group, k, palette) {
    if (group !== this.group || palette !== this.palette || (this.next > 0 && group[this.next - 1].step > k)) {
      Object.assign(this, { group, palette, next: 0, nans: 0, version: this.version + 1 });
      this.done.fill(0);
      this.words.fill(0);
      this.pen.clearRect(0, 0, this.map.width, this.map.height);
    }
    while (this.next < group.length && group[this.next].step <= k) this.put(group[this.next++]);
  }

  put({ rows, cols, data }) {
    const { width, height, largest } = this.map;
    this.version++;
    for (let r = 0, at = 0; r < rows.length; r++) {
      for (let c = 0; c < cols.length; c++, at++) {
        if (rows[r] < 0 || rows[r] >= height || cols[c] < 0 || cols[c] >= width) continue;
        const cell = rows[r] * width + cols[c];
        const had = this.done[cell] && this.values[cell] !== this.values[cell];
        this.nans += (data[at] !== data[at]) - had;
        this.values[cell] = data[at];
        this.done[cell] = 1;
        this.words[cell] = this.palette.pixel(data[at], this.palette[this.ramp], largest, this.diverging);
      }
    }
    const [top, bottom] = span(rows, height), [left, right] = span(cols, width);
    if (bottom > top && right > left) this.pen.putImageData(this.pixels, 0, 0, left, top, right - left, bottom - top);
  }

  /** Cells of a recorded program's rows that it never computes, because the mask hides them. */
  skipped(group) {
    if (this.skippedOf === group) return this.skips;
    const { width, height } = this.map;
    const visited = new Uint8Array(width * height), owned = new Uint8Array(height);
    for (const { rows, cols } of group) {
      for (const row of rows) {
        if (row < 0 || row >= height) continue;
        owned[row] = 1;
        for (const col of cols) if (col >= 0 && col < width) visited[row * width + col] = 1;
      }
    }
    const image = document.createElement("canvas");
    image.width = width;
    image.height = height;
    const pen = image.getContext("2d");
    const pixels = pen.createImageData(width, height);
    const words = new Int32Array(pixels.data.buffer);
    let any = false;
    words.forEach((_, cell) => {
      if (!visited[cell] && owned[Math.floor(cell / width)]) any = Boolean((words[cell] = -1));
    });
    pen.putImageData(pixels, 0, 0);
    this.skippedOf = group;
    this.skips = any ? { image, holds: (row, col) => owned[row] && !visited[row * width + col] } : null;
    return this.skips;
  }
}

const span = (indices, limit) => {
  let low = Infinity, high = -Infinity;
  for (const i of indices) {
    if (i < 0 || i >= limit) continue;
    low = Math.min(low, i);
    high = Math.max(high, i);
  }
  return [low, high + 1];
};

const WIDEST_CELL = 1.6;                                   // times its height, where a column is wider than high
const NUMBER_EM = 2.6;                                     // of a cell's number at full screen, with the room around it

/** Whether a map has so few rows for its columns that square cells would waste the room. */
export const isFlat = ({ width, height }) => height < 3 || height < width / 6;

const STRIDES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];       // of labels: a tile's first row has one

/** A map's layout on its canvas: cells of cw × ch from (left, top), gutters for the labels. */
export function mapLayout(surface, palette, { width, height }, rowLabels, colLabels, room = surface.height) {
  const { ctx } = surface;
  const size = Math.max(10, palette.size * 0.8);
  const rowNames = rowLabels ?? (height > 1 ? [String(height - 1)] : []);
  const left = Math.ceil(rowNames.length
    ? widest(ctx, patterns(rowNames), size, palette.font, surface.width * 0.26) + 14 : 8);
  const numbered = palette.smallest * NUMBER_EM;
  let cw = Math.min((surface.width - left - 2) / width, isFlat({ width, height }) ? 120 : Math.max(76, numbered));
  const flat = colLabels && widest(ctx, colLabels, size, palette.font, 200) + 6 <= cw;
  // Large labels of rows reach above their first row, where those of the columns end.
  const above = palette.smallest && rowNames.length ? size / 2 : 0;
  const top = Math.ceil(colLabels && !flat
    ? widest(ctx, colLabels, size, palette.font, Math.max(90, 6 * size)) + 8 + above : size + 8);
  let ch = Math.min((room - top - 2) / height, 76);
  if (isFlat({ width, height })) ch = Math.min(ch, Math.max(cw, 34));
  else {
    ch = Math.min(ch, cw);
    cw = Math.min(cw, Math.max(ch * WIDEST_CELL, numbered));
  }
  const crisp = (x) => (x > 10 ? Math.floor(x * surface.scale) / surface.scale : x);
  const every = (pitch) => STRIDES.find((n) => n * pitch >= size + 3) ?? STRIDES.at(-1);
  const shown = { rowEvery: every(ch), colEvery: flat ? 1 : every(cw) };
  return { left, top, above, cw: crisp(cw), ch: crisp(ch), size, flat, ...shown };
}

/** The most height a map can use at its canvas's width. */
export function mapHeight(surface, palette, map, rowLabels, colLabels) {
  const { top, ch } = mapLayout(surface, palette, map, rowLabels, colLabels, Infinity);
  return Math.ceil(top + ch * map.height + 3);
}

/** The map of S. `state` is at the step; `tile` has the current tile's coordinates, or is null. Returns cellAt(x,
 * y). */
export function paintMap(surface, palette, state, shown) {
  if (!surface.visible) return NOWHERE;
  const { group, tile, selected, stamp, differs } = shown;
  const inputs = [state.version, group, tile?.rows, tile?.cols, selected, stamp, differs];
  return surface.draw(inputs, () => drawMap(surface, palette, state, shown));
}

function drawMap(surface, palette, state, { group, tile, selected, rowLabels, colLabels, stamp, differs = null }) {
  const { map } = state;
  const { width, height } = map;
  const ctx = surface.clear();
  const box = surface.remember("box", stamp, () => mapLayout(surface, palette, map, rowLabels, colLabels));
  const { left, top, above, cw, ch, size, rowEvery, colEvery } = box;
  const w = cw * width, h = ch * height;
  const skips = state.skipped(group);
  surface.layer("frame", `${stamp} ${group[0].step}`, (pen) => {
    if (skips) {
      pen.imageSmoothingEnabled = false;
      pen.drawImage(skips.image, left, top, w, h);
      pen.globalCompositeOperation = "source-in";
      pen.fillStyle = hatching(pen, palette.faint, 1);
      pen.fillRect(left, top, w, h);
      pen.globalCompositeOperation = "source-over";
    }
    const style = { colour: palette.muted, size, font: palette.font };
    for (let r = 0; height > 1 && r < height; r += rowEvery) {
      const text = rowLabels ? rowLabels[r] ?? "" : String(r);
      write(pen, text, left - 9, top + (r + 0.5) * ch, { ...style, align: "right", room: left - 9 });
    }
    if (colLabels && box.flat) {
      for (let c = 0; c < width; c++) write(pen, colLabels[c] ?? "", left + (c + 0.5) * cw, top - size * 0.75,
        { ...style, align: "center", room: cw });
    } else if (colLabels) {
      for (let c = 0; c < width; c += colEvery) {
        pen.save();
        pen.translate(left + (c + 0.5) * cw, top - above - 5);
        pen.rotate(-Math.PI / 2);
        write(pen, colLabels[c] ?? "", 0, 0, { ...style, room: top - above - 6 });
        pen.restore();
        pen.fontInForce = "";                              // restore() has reset it
      }
    } else {
      const every = STRIDES.find((n) => n * cw >= size * (0.8 + 0.7 * String(width).length)) ?? width;
      for (let c = 0; c < width; c += every) write(pen, String(c), left + (c + 0.5) * cw, top - size * 0.75,
        { ...style, align: "center" });
    }
  });
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(state.image, left, top, w, h);
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(left - 0.5, top - 0.5, w + 1, h + 1);
  surface.layer("grid", `${stamp} ${group[0].step}`, (pen) => {
    pen.strokeStyle = palette.line;
    pen.beginPath();
    const seen = new Set();
    for (const { rows, cols } of group) {
      const [y0, y1] = span(rows, height), [x0, x1] = span(cols, width);
      if (seen.has(`${x0} ${y0}`) || !(x1 > x0 && y1 > y0)) continue;
      seen.add(`${x0} ${y0}`);
      pen.rect(left + x0 * cw, top + y0 * ch, (x1 - x0) * cw, (y1 - y0) * ch);
    }
    pen.stroke();
  });
  if (cw >= 27 && ch >= 13) {
    const figure = format(map.largest, CELL_DIGITS);
    const figures = [];
    for (let cell = 0; cell < state.done.length; cell++) {
      if (!state.done[cell]) continue;
      const col = cell % width, row = (cell - col) / width;
      const place = { x: left + (col + 0.5) * cw, y: top + (row + 0.5) * ch };
      figures.push({ text: figure(state.values[cell]), ...place, colour: palette.inkOn(state.words[cell]) });
    }
    const ems = figureEms(ctx, figures.map(({ text }) => text), palette.font);
    const size = Math.min(palette.size * 0.92, ch * 0.62, (cw - CELL_GAP_PX) / ems);
    if (size >= Math.max(SMALLEST_PX, palette.smallest)) {
      writeAll(ctx, figures, { size, font: palette.font, align: "center" });
    }
  }
  if (tile) {
    const [y0, y1] = span(tile.rows, height), [x0, x1] = span(tile.cols, width);
    if (x1 > x0 && y1 > y0) {
      const row = tile.rows[selected];
      if (y1 - y0 > 1 && row >= 0 && row < height) {
        ctx.fillStyle = palette.text;
        const y = top + (row + 0.5) * ch;
        ctx.beginPath();
        ctx.moveTo(left - 1.5, y);
        ctx.lineTo(left - 6.5, y - 3.5);
        ctx.lineTo(left - 6.5, y + 3.5);
        ctx.fill();
        ctx.strokeStyle = palette.text;
        ctx.lineWidth = 1;
        ctx.strokeRect(left + x0 * cw, top + row * ch, (x1 - x0) * cw, ch);
      }
      ctx.strokeStyle = palette.ground;
      ctx.lineWidth = 4.5;
      ctx.strokeRect(left + x0 * cw, top + y0 * ch, (x1 - x0) * cw, (y1 - y0) * ch);
      ctx.strokeStyle = palette.text;
      ctx.lineWidth = 2.25;
      ctx.strokeRect(left + x0 * cw, top + y0 * ch, (x1 - x0) * cw, (y1 - y0) * ch);
    }
  }
  if (differs?.size) {                                      // a corner: visible without colour too
    const side = Math.max(2.5, Math.min(9, cw * 0.4, ch * 0.4));
    ctx.beginPath();
    for (const at of differs) {
      const [row, col] = at.split(",").map(Number);
      const x = left + (col + 1) * cw - 0.5, y = top + row * ch + 0.5;
      ctx.moveTo(x - side, y);
      ctx.lineTo(x, y);
      ctx.lineTo(x, y + side);
      ctx.closePath();
    }
    ctx.fillStyle = palette.text;
    ctx.fill();
  }
  return (x, y) => {
    const col = Math.floor((x - left) / cw), row = Math.floor((y - top) / ch);
    return col >= 0 && col < width && row >= 0 && row < height ? { row, col } : null;
  };
}
