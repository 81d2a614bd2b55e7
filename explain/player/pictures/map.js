// The map of a matrix: what has been computed of it by a step, the tile at work, what the mask skips.

import { NOWHERE, hatching, widest, write, writeAll } from "../surface.js";
import { tiny } from "../words.js";

/** What a map shows at a step, kept between steps: the values done so far, and their pixels. */
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

  /** Cells that a recorded program owns but never computes: those its mask let it skip. */
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

const WIDEST_CELL = 1.6;                                   // times its height, to use a column's width where height is short

/** Whether a map has so few rows for its columns that square cells would waste the room. */
export const isFlat = ({ width, height }) => height < 3 || height < width / 6;

const STRIDES = [1, 2, 4, 8, 16, 32, 64, 128];              // of labels, so that a tile's first row and column have theirs

/** Where a map lies on its canvas: cells of cw × ch from (left, top), gutters for the labels. */
export function mapLayout(surface, palette, { width, height }, rowLabels, colLabels, room = surface.height) {
  const { ctx } = surface;
  const size = Math.max(10, palette.size * 0.8);
  const left = Math.ceil(rowLabels ? widest(ctx, rowLabels, size, palette.font, surface.width * 0.26) + 14 : height > 1 ? size * 1.6 + 10 : 8);
  let cw = Math.min((surface.width - left - 2) / width, isFlat({ width, height }) ? 120 : 76);
  const flat = colLabels && widest(ctx, colLabels, size, palette.font, 200) + 6 <= cw;
  const top = Math.ceil(colLabels && !flat ? widest(ctx, colLabels, size, palette.font, 90) + 8 : size + 8);
  let ch = Math.min((room - top - 2) / height, 76);
  if (isFlat({ width, height })) ch = Math.min(ch, Math.max(cw, 34));
  else {
    ch = Math.min(ch, cw);
    cw = Math.min(cw, ch * WIDEST_CELL);
  }
  const crisp = (x) => (x > 10 ? Math.floor(x * surface.scale) / surface.scale : x);
  const every = (pitch) => STRIDES.find((n) => n * pitch >= size + 3) ?? STRIDES.at(-1);
  return { left, top, cw: crisp(cw), ch: crisp(ch), size, flat, rowEvery: every(ch), colEvery: flat ? 1 : every(cw) };
}

/** The most height a map can use at its canvas's width. */
export function mapHeight(surface, palette, map, rowLabels, colLabels) {
  const { top, ch } = mapLayout(surface, palette, map, rowLabels, colLabels, Infinity);
  return Math.ceil(top + ch * map.height + 3);
}

/**
 * The map of S. `state` has been brought to the step; tile is the current one's coordinates or null.
 * Answers cellAt(x, y): {row, col} or null.
 */
export function paintMap(surface, palette, state, shown) {
  if (!surface.visible) return NOWHERE;
  const { group, tile, selected, stamp, differs } = shown;
  return surface.draw([state.version, group, tile?.rows, tile?.cols, selected, stamp, differs], () => drawMap(surface, palette, state, shown));
}

function drawMap(surface, palette, state, { group, tile, selected, rowLabels, colLabels, stamp, differs = null }) {
  const { map } = state;
  const { width, height } = map;
  const ctx = surface.clear();
  const box = surface.remember("box", stamp, () => mapLayout(surface, palette, map, rowLabels, colLabels));
  const { left, top, cw, ch, size, rowEvery, colEvery } = box;
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
    if (rowLabels) {
      for (let r = 0; r < height; r += rowEvery) write(pen, rowLabels[r] ?? "", left - 9, top + (r + 0.5) * ch, { ...style, align: "right", room: left - 14 });
    } else if (height > 1) {
      for (const r of ticks(height, ch, size * 2)) write(pen, String(r), left - 8, top + (r + 0.5) * ch, { ...style, align: "right" });
    }
    if (colLabels && box.flat) {
      for (let c = 0; c < width; c++) write(pen, colLabels[c] ?? "", left + (c + 0.5) * cw, top - size * 0.75, { ...style, align: "center", room: cw });
    } else if (colLabels) {
      for (let c = 0; c < width; c += colEvery) {
        pen.save();
        pen.translate(left + (c + 0.5) * cw, top - 5);
        pen.rotate(-Math.PI / 2);
        write(pen, colLabels[c] ?? "", 0, 0, { ...style, room: top - 6 });
        pen.restore();
        pen.fontInForce = "";                              // as it was before
      }
    } else {
      for (const c of ticks(width, cw, size * 2.6)) write(pen, String(c), left + (c + 0.5) * cw, top - size * 0.75, { ...style, align: "center" });
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
    const font = { size: Math.min(palette.size * 0.92, ch * 0.62, cw * 0.36), font: palette.font, align: "center" };
    const figures = [];
    for (let cell = 0; cell < state.done.length; cell++) {
      if (!state.done[cell]) continue;
      const col = cell % width, row = (cell - col) / width;
      figures.push({ text: tiny(state.values[cell]), x: left + (col + 0.5) * cw, y: top + (row + 0.5) * ch, colour: palette.inkOn(state.words[cell]) });
    }
    writeAll(ctx, figures, font);
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
  if (differs?.size) {                                      // a corner cut off: seen without colour too
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

function ticks(count, pitch, room) {
  const nice = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 512, 1024];
  const every = nice.find((n) => n * pitch >= room) ?? 2048;
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}
