// Pictures on canvas. Each draws one panel from plain values and answers where the pointer is; none keeps state of its own.

import { short, tiny } from "./words.js";

const DIVERGING = {
  light: ["#4a2383", "#8073ac", "#c3bde0", "#f7f7f5", "#fbcf95", "#e08214", "#8f4306"],
  dark: ["#d3c6ff", "#9a86e0", "#55468e", "#22262e", "#77480f", "#d07f1e", "#ffd08a"],
};
const OUTPUT = {
  light: ["#2f6b1a", "#7fb84a", "#cfe6b4", "#f7f7f5", "#f3cfe2", "#d67fae", "#93316a"],
  dark: ["#c9efa6", "#86bf57", "#41602b", "#22262e", "#64354f", "#c273a0", "#ffc4e3"],
};
const READS = { light: ["#f1f3f6", "#c6ccd7", "#8f98a9", "#525b6b"], dark: ["#232831", "#474f5d", "#7b8494", "#c0c7d3"] };
const SHARE = { light: ["#f7f7f5", "#a9d8f4", "#56b4e9", "#2484bd"], dark: ["#22262e", "#2b566e", "#3f93c2", "#8fd2f7"] };
const LEVELS = 255;
const NOWHERE = () => null;                                // where the pointer is when nothing is drawn

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const packed = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;         // as ImageData keeps it on little-endian machines
const unpacked = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
const isLight = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140;

function ramp(anchors) {
  const stops = anchors.map(channels);
  return Int32Array.from({ length: 2 * LEVELS + 1 }, (_, i) => {
    const at = (i / (2 * LEVELS)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return packed(stops[low].map((c, j) => Math.round(c + (stops[low + 1][j] - c) * (at - low))));
  });
}

/** Colours of the theme in force, read from the player's CSS. */
export class Palette {
  constructor(section, dark) {
    const css = getComputedStyle(section);
    const get = (name) => css.getPropertyValue(`--${name}`).trim();
    for (const name of ["text", "muted", "faint", "line", "ground", "raised"]) this[name] = get(name);
    this.quantity = Object.fromEntries(["max", "sum", "alpha", "p", "acc", "hbm", "scores"].map((q) => [q, { ink: get(`q-${q}`), fill: get(`f-${q}`) }]));
    this.font = css.fontFamily;
    this.size = parseFloat(css.fontSize);
    const theme = dark ? "dark" : "light";
    this.scores = ramp(DIVERGING[theme]);
    this.output = ramp(OUTPUT[theme]);
    this.share = ramp(SHARE[theme]);
    this.reads = ramp(READS[theme]);
    this.lit = packed(channels(this.quantity.hbm.fill));
    this.written = packed(channels(dark ? "#5d4718" : "#fbe3b0"));
    this.masked = packed(channels(dark ? "#3d434e" : "#d3d6dc"));
    this.nan = packed(channels(dark ? "#ff4fb8" : "#d6007f"));
  }

  /** The colour of x on a ramp whose ends are ±largest (diverging) or 0 … largest. */
  pixel(x, ramp, largest, diverging = true) {
    if (x !== x) return this.nan;
    if (x === -Infinity) return this.masked;
    const t = diverging ? x / largest : (2 * x) / largest - 1;
    return ramp[LEVELS + Math.round(LEVELS * Math.max(-1, Math.min(1, t)))];
  }

  /** A colour of the theme as a pixel. */
  packed(hex) {
    return packed(channels(hex));
  }

  inkOn(pixel) {
    return isLight(unpacked(pixel)) ? "#16181d" : "#ffffff";
  }

  css(pixel) {
    return `rgb(${unpacked(pixel)})`;
  }
}

/** A canvas kept at the screen's resolution; `layers` keeps what need not be drawn anew at each step. */
export class Surface {
  constructor(canvas) {
    this.inputs = this.answer = null;                      // of what is drawn
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.layers = new Map();
    this.width = this.height = 0;
  }

  get visible() {
    return this.width > 0 && this.height > 0;
  }

  /** Takes the size the layout gives it; true if that changed. */
  measure() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = globalThis.devicePixelRatio || 1;
    if (width === this.width && height === this.height && scale === this.scale) return false;
    Object.assign(this, { width, height, scale });
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.layers.clear();
    this.inputs = null;
    this.ctx.fontInForce = "";                             // a canvas that changes its size forgets its font
    return true;
  }

  /** What `make` answers, kept under `key` until `stamp` changes. */
  remember(key, stamp, make) {
    const kept = this.layers.get(key);
    if (kept?.stamp === stamp) return kept.made;
    const made = make();
    this.layers.set(key, { made, stamp });
    return made;
  }

  /** What `paint` answers; it draws only where one of `inputs` is another than for the picture that is there. */
  draw(inputs, paint) {
    if (this.inputs?.length === inputs.length && inputs.every((input, i) => input === this.inputs[i])) return this.answer;
    this.answer = paint();
    this.inputs = inputs;
    return this.answer;
  }

  clear() {
    this.inputs = null;
    this.ctx.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.ctx.clearRect(0, 0, this.width, this.height);
    return this.ctx;
  }

  /** Draws `paint`'s picture, kept under `key` until `stamp` changes. */
  layer(key, stamp, paint) {
    let kept = this.layers.get(key);
    if (kept?.stamp !== stamp) {
      const canvas = document.createElement("canvas");
      canvas.width = this.canvas.width;
      canvas.height = this.canvas.height;
      const ctx = canvas.getContext("2d");
      ctx.setTransform(this.scale, 0, 0, this.scale, 0, 0);
      paint(ctx);
      this.layers.set(key, (kept = { canvas, stamp }));
    }
    this.ctx.drawImage(kept.canvas, 0, 0, this.width, this.height);
  }
}

/** Parsing a font costs more than drawing a word, so it is set only when it changes. */
export function setFont(ctx, font) {
  if (ctx.fontInForce !== font) ctx.font = ctx.fontInForce = font;
}

export function write(ctx, text, x, y, { colour, size, weight = 400, align = "left", font, room = Infinity }) {
  setFont(ctx, `${weight} ${size}px ${font}`);
  ctx.fillStyle = colour;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  let shown = text;
  if (room < Infinity && ctx.measureText(shown).width > room) {
    while (shown.length > 1 && ctx.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
    shown += "…";
  }
  ctx.fillText(shown, x, y);
}

export function widest(ctx, labels, size, font, most) {
  setFont(ctx, `400 ${size}px ${font}`);
  let width = 0;
  for (const label of labels) width = Math.max(width, ctx.measureText(label).width);
  return Math.min(width, most);
}

const HATCHES = new Map();

/** Diagonal lines of a colour, to fill with. */
export function hatching(ctx, colour, scale) {
  const key = `${colour} ${scale}`;
  if (!HATCHES.has(key)) HATCHES.set(key, hatch(ctx, colour, scale));
  return HATCHES.get(key);
}

function hatch(ctx, colour, scale) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(7 * scale);
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = scale;
  const n = tile.width;
  pen.beginPath();
  for (const at of [-n, 0, n]) {
    pen.moveTo(at, n);
    pen.lineTo(at + n, 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, "repeat");
}

// --- the map of tiles ---

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
    for (let cell = 0; cell < state.done.length; cell++) {
      if (!state.done[cell]) continue;
      const col = cell % width, row = (cell - col) / width;
      write(ctx, tiny(state.values[cell]), left + (col + 0.5) * cw, top + (row + 0.5) * ch, { ...font, colour: palette.inkOn(state.words[cell]) });
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

// --- a small dense array ---

/** A picture of a pixel an element, to be drawn larger. */
function imageOf(rows, cols) {
  const image = document.createElement("canvas");
  image.width = cols;
  image.height = rows;
  const pen = image.getContext("2d");
  const pixels = pen.createImageData(cols, rows);
  return { image, pen, pixels, words: new Int32Array(pixels.data.buffer) };
}

/** An array of rows × cols as a heat map that fills its canvas, or the top `height` of it; numbers in the cells where they fit. */
export function paintArray(surface, palette, { data, rows, cols, ramp, largest, diverging = true, selected = -1, whole = false, height = surface.height }) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const cw = Math.min(surface.width / cols, 64);
  const ch = Math.min(height / rows, Math.max(cw, 18), 34);
  const { image, pen, pixels, words } = surface.remember("array", `${rows} ${cols}`, () => imageOf(rows, cols));
  for (let i = 0; i < words.length; i++) words[i] = palette.pixel(data[i], palette[ramp], largest, diverging);
  pen.putImageData(pixels, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(image, 0.5, 0.5, cw * cols - 1, ch * rows - 1);
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(0.5, 0.5, cw * cols - 1, ch * rows - 1);
  if (cw >= 27 && ch >= 12) {
    const font = { size: Math.min(palette.size * 0.85, ch * 0.66, cw * 0.36), font: palette.font, align: "center" };
    for (let i = 0; i < words.length; i++) {
      write(ctx, tiny(data[i], whole), ((i % cols) + 0.5) * cw, (Math.floor(i / cols) + 0.5) * ch, { ...font, colour: palette.inkOn(words[i]) });
    }
  }
  if (selected >= 0 && rows > 1) {
    ctx.strokeStyle = palette.text;
    ctx.lineWidth = 1.25;
    ctx.strokeRect(0.75, selected * ch + 0.5, cw * cols - 1.5, ch - 0.5);
  }
  return (x, y) => {
    const col = Math.floor(x / cw), row = Math.floor(y / ch);
    return col >= 0 && col < cols && row >= 0 && row < rows ? { row, col } : null;
  };
}

/**
 * One row of an accumulator, a bar a column from a middle line. {before, alpha, now}: rescaled in this tile, `now` is before · alpha plus
 * what was added: a dashed outline where it was, solid what alpha kept, hatched what was added, a line where it is.
 */
export function paintBars(ctx, palette, { x, y, width, height }, { now, before, alpha, largest }, phase = 1) {
  const count = now.length, pitch = width / count, bar = Math.max(1, pitch * 0.72);
  const middle = y + height / 2, long = (v) => (Number.isFinite(v) ? (-v * height) / 2 / largest : 0);
  const { shrunk, added } = rescaled(phase);
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  line(ctx, x, middle, x + width, middle);
  const hatch = before && hatching(ctx, palette.ground, 0.8);
  for (let i = 0; i < count; i++) {
    const left = x + i * pitch + (pitch - bar) / 2;
    const fill = (from, to, style) => {
      ctx.fillStyle = style;
      ctx.fillRect(left, middle + Math.min(from, to), bar, Math.abs(to - from));
    };
    if (now[i] !== now[i]) {
      fill(-height / 2, height / 2, palette.css(palette.nan));
      continue;
    }
    if (!before) {
      fill(0, long(now[i]), palette.quantity.acc.fill);
      continue;
    }
    const kept = before[i] === 0 ? 0 : before[i] * alpha;
    const solid = long(before[i]) + (long(kept) - long(before[i])) * shrunk, tip = solid + (long(now[i]) - long(kept)) * added;
    fill(0, solid, palette.quantity.acc.fill);
    if (Math.abs(tip - solid) > 0.5) {
      fill(solid, tip, palette.quantity.p.fill);
      fill(solid, tip, hatch);
    }
    if (bar >= 3 && Math.abs(long(before[i]) - long(kept)) > 0.75) {
      ctx.strokeStyle = palette.muted;
      ctx.setLineDash([1.5, 1.5]);
      ctx.strokeRect(left + 0.5, middle + Math.min(0, long(before[i])), bar - 1, Math.abs(long(before[i])));
      ctx.setLineDash([]);
    }
    ctx.strokeStyle = palette.text;
    ctx.lineWidth = 1.25;
    line(ctx, left, middle + tip, left + bar, middle + tip);
    ctx.lineWidth = 1;
  }
}

// --- one row of the tile, with its numbers ---

/** Lines of cells, one line a quantity: [{label, quantity, data (one value a column), ramp, largest, diverging}]. */
export function paintStrip(surface, palette, { lines, labels, selected }) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const count = lines[0]?.data.length ?? 0;
  if (!count) return NOWHERE;
  const size = palette.size * 0.85;
  const left = size * 2.1;
  const room = surface.width - left - 1;
  const head = labels ? size * 1.45 : 0;
  const lineHeight = size * 1.6;
  const perLine = Math.max(1, Math.floor(room / (size * 2.5)));
  const wraps = Math.ceil(count / perLine);
  const block = head + lines.length * lineHeight + 5;
  const roomy = wraps * block <= surface.height + 6;
  const columns = roomy ? Math.ceil(count / wraps) : count;
  const cw = Math.min(room / columns, 60);
  for (let wrap = 0; wrap < (roomy ? wraps : 1); wrap++) {
    const top = wrap * block;
    lines.forEach((line, l) => {
      const y = top + head + l * lineHeight;
      write(ctx, line.label, 0, y + lineHeight / 2, { colour: palette.quantity[line.quantity].ink, size: size * 1.08, weight: 600, font: palette.font, room: left - 4 });
      for (let c = wrap * columns; c < Math.min(count, (wrap + 1) * columns); c++) {
        const x = left + (c - wrap * columns) * cw;
        const pixel = palette.pixel(line.data[c], palette[line.ramp], line.largest, line.diverging);
        ctx.fillStyle = palette.css(pixel);
        ctx.fillRect(x, y, cw - (cw > 5 ? 1 : 0), lineHeight - 1);
        if (cw >= size * 2.2) write(ctx, tiny(line.data[c]), x + cw / 2 - 0.5, y + lineHeight / 2, { colour: palette.inkOn(pixel), size: Math.min(size, cw * 0.36), align: "center", font: palette.font });
      }
    });
    if (labels && cw >= size * 2) {
      for (let c = wrap * columns; c < Math.min(count, (wrap + 1) * columns); c++) {
        write(ctx, labels[c] ?? "", left + (c - wrap * columns + 0.5) * cw, top + head / 2, { colour: c === selected ? palette.text : palette.muted, weight: c === selected ? 600 : 400, size: size * 0.88, align: "center", font: palette.font, room: cw - 3 });
      }
    }
    const at = selected - wrap * columns;
    if (at >= 0 && at < columns && selected < count) {
      ctx.strokeStyle = palette.text;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(left + at * cw - 0.5, top + head - 0.5, cw, lines.length * lineHeight);
    }
  }
  return (x, y) => {
    const wrap = roomy ? Math.floor(y / block) : 0;
    const col = wrap * columns + Math.floor((x - left) / cw);
    const line = Math.floor((y - wrap * block - head) / lineHeight);
    return x >= left && col < Math.min(count, (wrap + 1) * columns) && line < lines.length ? { col, line: Math.max(0, line) } : null;
  };
}

// --- m, alpha and l, row by row ---

/**
 * state: {rows, labels, max: {before, now}, alpha, sum: {before, now}, span: [low, high] of m, largestSum}; a part that the kernel lacks
 * is null. The sum's bar is what alpha kept of the old sum plus what this tile added; `phase`, from 0 to 1, is how far the rescale has got;
 * `glowing` is the part to underline, `differs` has the rows to mark with ≠.
 */
export function paintRows(surface, palette, state, selected, phase = 1, glowing = "", differs = null) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const { rows, labels, max, alpha, sum } = state;
  const size = palette.size * (rows === 1 ? Math.min(1.3, Math.max(0.88, surface.width / palette.size / 30)) : 0.88);
  const head = size * 1.9;
  const rowHeight = Math.max(2, Math.min((surface.height - head) / rows, size * 2.6));
  const numbers = rowHeight >= size * 1.12;
  const left = labels ? Math.ceil(widest(ctx, labels, size * 0.95, palette.font, surface.width * 0.2)) + 10 : rows > 1 ? size * 1.9 : 0;
  const shares = [max && 1.12, alpha && 0.82, sum && 1.12];
  const total = shares.reduce((a, b) => a + (b || 0), 0) || 1;
  const gap = size * 1.1;
  const wide = surface.width - left - 1;
  const columns = [];
  let x = left;
  shares.forEach((share, i) => {
    columns[i] = share ? { x, width: (wide * share) / total - gap } : null;
    if (share) x += (wide * share) / total;
  });
  const heads = [["max", "max m"], ["alpha", "rescale α"], ["sum", "sum ℓ"]];
  columns.forEach((column, i) => {
    if (column) write(ctx, heads[i][1], column.x, size * 0.75, { colour: palette.quantity[heads[i][0]].ink, size, weight: 600, font: palette.font, room: column.width + gap - 4 });
    if (!column || heads[i][0] !== glowing) return;
    ctx.fillStyle = palette.text;
    ctx.fillRect(column.x - 2, size * 1.4, column.width + 4, 2.5);
  });
  const figure = size * 3.3;                               // the room a number takes, right-aligned
  const digits = { size, font: palette.font, align: "right", colour: palette.text };
  for (let r = 0; r < rows; r++) {
    const y = head + r * rowHeight, middle = y + rowHeight / 2;
    if (r === selected && rows > 1) {
      ctx.fillStyle = palette.raised;
      ctx.fillRect(0, y, surface.width, rowHeight);
    }
    if (numbers && left) write(ctx, labels?.[r] ?? String(r), left - 10, middle, { ...digits, size: size * 0.95, colour: r === selected ? palette.text : palette.muted, weight: r === selected ? 600 : 400, room: left - 8 });
    const [m, a, l] = columns.map((column) => column && { x: column.x, width: Math.max(12, column.width - (numbers ? figure : 0)), end: column.x + column.width });
    if (m) move(ctx, palette, m, middle, rowHeight, max.before?.[r], max.now?.[r], state.span);
    if (a) portion(ctx, palette, a, middle, rowHeight, alpha[r]);
    if (differs?.has(r)) write(ctx, "≠", surface.width - 4, middle, { ...digits, size: Math.min(size, rowHeight), weight: 700 });
    if (l) pile(ctx, palette, l, middle, rowHeight, sum.before?.[r], sum.now?.[r], alpha?.[r], state.largestSum, phase);
    if (!numbers) continue;
    const put = (column, value) => column && value !== undefined && write(ctx, short(value), column.end, middle, { ...digits, weight: r === selected ? 600 : 400 });
    put(m, max?.now?.[r] ?? max?.before?.[r]);
    put(a, alpha?.[r]);
    put(l, sum?.now?.[r] ?? sum?.before?.[r]);
  }
  return (x, y) => {
    const row = Math.floor((y - head) / rowHeight);
    if (row < 0 || row >= rows || x < 0) return null;
    const part = columns.findLastIndex((column) => column && x >= column.x - 4);
    return { row, part: heads[part]?.[0] };
  };
}

/** The running maximum: a ring where it was, a dot where it is. */
function move(ctx, palette, { x, width }, y, rowHeight, before, after, [low, high]) {
  const radius = Math.max(1.2, Math.min(4, rowHeight * 0.3));
  const at = (v) => (v === -Infinity ? x + radius : x + 2 * radius + ((width - 4 * radius) * (v - low)) / (high - low || 1));
  const now = after ?? before;
  const { ink, fill } = palette.quantity.max;
  ctx.lineWidth = 1;
  ctx.strokeStyle = palette.line;
  line(ctx, x, y, x + width, y);
  if (now === undefined || now !== now) return;
  if (after !== undefined && before !== undefined && before !== after) {
    ctx.strokeStyle = fill;
    ctx.lineWidth = Math.max(1, radius * 0.7);
    line(ctx, at(before), y, at(after), y);
    dot(ctx, at(before), y, radius, palette.ground, ink);
  }
  dot(ctx, at(now), y, radius, now === -Infinity ? palette.ground : ink, ink);
}

/** alpha: how much of the bar is kept. */
function portion(ctx, palette, { x, width }, y, rowHeight, value) {
  const thick = Math.max(1.5, Math.min(rowHeight * 0.5, 10));
  ctx.fillStyle = palette.line;
  ctx.fillRect(x, y - thick / 2, width, thick);
  if (value === undefined || value !== value) return;
  ctx.globalAlpha = value < 1 ? 1 : 0.4;
  ctx.fillStyle = palette.quantity.alpha.fill;
  ctx.fillRect(x, y - thick / 2, Math.max(value > 0 ? 1 : 0, width * Math.min(1, value)), thick);
  ctx.globalAlpha = 1;
}

/** How far a rescale's two movements have got at a phase of it: first what there is shrinks, then the new part is added. */
export function rescaled(phase) {
  const eased = (t) => (t <= 0 ? 0 : t >= 1 ? 1 : t * t * (3 - 2 * t));
  return { shrunk: eased(phase * 2), added: eased(phase * 2 - 1) };
}

/**
 * The sum. Once it is updated: a dashed outline as long as it was, solid what alpha kept, then what this tile added. Before that, with alpha
 * known: the sum as it is, with an arrow in alpha's colour over what the rescale is going to take.
 */
function pile(ctx, palette, { x, width }, y, rowHeight, before, now, alpha, largest, phase) {
  const thick = Math.max(1.5, Math.min(rowHeight * 0.5, 10)), top = y - thick / 2;
  const long = (v) => (Number.isFinite(v) ? (width * Math.max(0, v)) / largest : 0);
  const kept = alpha === undefined || before === undefined ? undefined : before === 0 ? 0 : before * alpha;
  const bar = (from, to, quantity) => {
    ctx.fillStyle = palette.quantity[quantity].fill;
    ctx.fillRect(x + from, top, Math.max(0, to - from), thick);
  };
  ctx.lineWidth = 1;
  ctx.strokeStyle = palette.line;
  line(ctx, x, y + thick / 2, x + width, y + thick / 2);
  if (now === undefined || kept === undefined) bar(0, long(now ?? before), "sum");
  else {
    const { shrunk, added } = rescaled(phase);
    const end = long(before) + (long(kept) - long(before)) * shrunk;
    bar(0, Math.min(end, shrunk < 1 ? Infinity : long(now)), "sum");
    bar(end, end + (long(now) - long(kept)) * added, "p");
  }
  if (before === undefined || kept === undefined || long(before) <= long(kept) + 1) return;
  const over = top - Math.max(1, rowHeight * 0.1), back = x + long(kept), point = Math.min(3, rowHeight * 0.2);
  if (now !== undefined && thick >= 4) {
    ctx.strokeStyle = palette.text;
    ctx.setLineDash([2, 2]);
    ctx.strokeRect(x + 0.5, top + 0.5, long(before) - 1, thick - 1);
    ctx.setLineDash([]);
  }
  ctx.strokeStyle = palette.quantity.alpha.fill;
  ctx.lineWidth = 1.25;
  line(ctx, back, over, x + long(before), over);
  line(ctx, x + long(before), over - point, x + long(before), over + point);
  line(ctx, back, over, back + point * 1.4, over - point);
  line(ctx, back, over, back + point * 1.4, over + point);
}

export function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function dot(ctx, x, y, radius, fill, stroke) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fillStyle = fill;
  ctx.fill();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.25;
  ctx.stroke();
}

// --- the timeline ---

export const TIMELINE_INSET = 9;                           // half the width of the range input's thumb

/**
 * score: {length, programs: [start], visits: [start], rescales: [{at, share}], watched: [at], nan: at | null}; veiled hides what is to
 * come. Answers xOf(step).
 */
export function paintTimeline(surface, palette, score, at, stamp, veiled = false) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const inner = surface.width - 2 * TIMELINE_INSET;
  const xOf = (step) => TIMELINE_INSET + (inner * step) / Math.max(1, score.length - 1);
  const top = 2, bottom = surface.height - 2, middle = Math.round((top + bottom) * 0.5);
  surface.layer("score", stamp, (pen) => {
    pen.fillStyle = palette.raised;
    pen.fillRect(TIMELINE_INSET, middle - 3, inner, 6);
    pen.lineWidth = 1;
    const everyVisit = Math.ceil((score.visits.length * 3) / inner);
    pen.strokeStyle = palette.faint;
    score.visits.forEach((step, v) => v % everyVisit === 0 && line(pen, Math.round(xOf(step)) + 0.5, middle - 6, Math.round(xOf(step)) + 0.5, middle + 6));
    pen.strokeStyle = palette.muted;
    pen.lineWidth = 1.5;
    if (score.programs.length > 1) for (const step of score.programs) line(pen, Math.round(xOf(step)) + 0.5, top, Math.round(xOf(step)) + 0.5, bottom);
  });
  const events = (pen) => {
    pen.fillStyle = palette.quantity.alpha.fill;
    for (const { at: step, share } of score.rescales) {
      const tall = 4 + share * (bottom - middle - 8);
      pen.fillRect(xOf(step) - 1.25, bottom - tall, 2.5, tall);
    }
    if (score.nan !== null) {
      pen.fillStyle = palette.css(palette.nan);
      pen.fillRect(xOf(score.nan) - 1.5, top, 3, bottom - top);
    }
    pen.fillStyle = palette.text;
    for (const step of score.watched) {
      pen.beginPath();
      pen.moveTo(xOf(step) - 3, top);
      pen.lineTo(xOf(step) + 3, top);
      pen.lineTo(xOf(step), top + 5);
      pen.fill();
    }
  };
  ctx.save();
  if (veiled) {
    ctx.beginPath();
    ctx.rect(0, 0, xOf(at), surface.height);
    ctx.clip();
  }
  surface.layer("events", stamp, events);
  ctx.restore();
  ctx.fillStyle = palette.text;
  ctx.globalAlpha = 0.28;
  ctx.fillRect(TIMELINE_INSET, middle - 3, xOf(at) - TIMELINE_INSET, 6);
  ctx.globalAlpha = 1;
  ctx.beginPath();
  ctx.arc(xOf(at), middle, 7.5, 0, 2 * Math.PI);
  ctx.fillStyle = palette.text;
  ctx.fill();
  ctx.lineWidth = 2;
  ctx.strokeStyle = palette.ground;
  ctx.stroke();
  return xOf;
}
