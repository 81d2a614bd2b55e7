// A canvas to draw on, and what every picture draws with: text, lines, dots, hatching.

import { patterns } from "./numbers.js";

export const NOWHERE = () => null;                         // what is under the pointer when nothing is drawn

/** A canvas kept at the screen's resolution; `layers` keeps what does not change at each step. */
export class Surface {
  constructor(canvas) {
    this.inputs = this.answer = null;                      // of the picture that is drawn
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

  /** The result of `make`, kept under `key` until `stamp` changes. */
  remember(key, stamp, make) {
    const kept = this.layers.get(key);
    if (kept?.stamp === stamp) return kept.made;
    const made = make();
    this.layers.set(key, { made, stamp });
    return made;
  }

  /** The result of `paint`, which runs only where one of `inputs` has changed since the last time. */
  draw(inputs, paint) {
    if (this.inputs?.length === inputs.length && inputs.every((input, i) => input === this.inputs[i]))
      return this.answer;
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

/** Sets the font only when it changes: parsing one costs more than drawing a word. */
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

/** Texts of one size, each {text, x, y, colour}, colour by colour: to change the colour costs as much as to draw a
 * word. */
export function writeAll(ctx, words, { size, weight = 400, align = "left", font }) {
  setFont(ctx, `${weight} ${size}px ${font}`);
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  for (const colour of new Set(words.map((word) => word.colour))) {
    ctx.fillStyle = colour;
    for (const word of words) if (word.colour === colour) ctx.fillText(word.text, word.x, word.y);
  }
}

/** Draws pixels (ABGR, row by row) as cells that fill width × height from (x, y), by way of a canvas kept for it. */
export function drawCells(ctx, canvas, pixels, columns, x, y, width, height) {
  const rows = pixels.length / columns;
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), columns), 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(canvas, x, y, width, height);
}

/** The width of the widest label at a font size, at most `most`. */
export function widest(ctx, labels, size, font, most = Infinity) {
  setFont(ctx, `400 ${size}px ${font}`);
  let width = 0;
  for (const label of labels) width = Math.max(width, ctx.measureText(label).width);
  return Math.min(width, most);
}

/** The width of the widest of these numbers, in ems of the font. */
export function figureEms(ctx, texts, font) {
  return widest(ctx, patterns(texts), 100, font) / 100;
}

const HATCHES = new Map();

/** A fill of diagonal lines. */
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

export function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

export function dot(ctx, x, y, radius, fill, stroke) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fillStyle = fill;
  ctx.fill();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.25;
  ctx.stroke();
}
