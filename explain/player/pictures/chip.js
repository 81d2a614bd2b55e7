// The tiles on chip as matrices in one line, row beside row: K stands above S, V above the output.

import { bytes, format, number, times } from "../numbers.js";
import { drawCells, figureEms, widest, write, writeAll } from "../surface.js";

const LARGEST_EM = 6;                                      // the most that a cell takes
const SMALLEST_FIGURE_PX = 10;
const FIGURES_EM = 4.6, BARS_EM = 2;                       // a column of m, α or ℓ: its numbers, or bars
const DEPTH_ROWS = 1.5;                                    // K and V are at most so many times as high as the tile

/** The matrix's height and width in cells, as it stands. */
const sides = ({ rows, cols, turned }) => (turned ? [cols, rows] : [rows, cols]);

/**
 * Places columns, each {main, above, state}, in a box {x, y, width, height}: {u, places}, a place is {item, x, y,
 * width, height}. An item is {rows, cols, turned, symbol, dtype}. One cell is u high and, but along the head's
 * dimension, u wide.
 */
export function placeTiles(ctx, palette, columns, box) {
  const em = palette.size, small = em * 0.82;
  const { named, below } = roomOf(palette);
  const most = Math.max(1, ...columns.map(({ main }) => sides(main)[0]));
  const deep = Math.max(0, ...columns.map(({ above }) => (above ? sides(above)[0] : 0)));
  const caption = ({ rows, cols, item_bytes: size, symbol }) => (below.lines
    ? [times([rows, cols]), bytes(rows * cols * size)] : [symbol]);
  // A column of state has no caption, but its symbol takes its room.
  const slots = columns.map(({ main, state }) => (state ? widest(ctx, [main.symbol], em * 1.45, palette.font) + em * 0.2
    : widest(ctx, caption(main), small, palette.font)));
  const attempt = (u) => {
    const along = deep ? Math.min(u, (DEPTH_ROWS * most * u) / deep) : u;
    const figures = u >= SMALLEST_FIGURE_PX * 1.3;
    let x = box.x;
    const top = box.y + em * (named - 0.2) + (deep ? deep * along + em * named : 0);
    const places = columns.map((column, i) => {
      const { main, above, state } = column;
      const wide = state ? em * (figures ? FIGURES_EM : BARS_EM) : sides(main)[1] * (main.deep ? along : u);
      const slot = Math.max(wide, slots[i]);
      const left = x + (slot - wide) / 2;
      x += slot + em * (state && columns[i + 1]?.state ? 0.5 : 1.5);
      const height = sides(main)[0] * u;
      const place = { column, item: main, x: left, y: top, width: wide, height, u, figures };
      if (!above) return [place];
      const high = sides(above)[0] * along;
      return [place, { column, item: above, x: left, y: top - em * named - high, width: wide, height: high, u: along }];
    });
    const right = x - em * 1.5, bottom = top + most * u + em * below.ems;
    return { u, places: places.flat(), right, bottom, fits: right <= box.x + box.width
      && bottom <= box.y + box.height };
  };
  let u = em * LARGEST_EM, tried = attempt(u);
  while (!tried.fits && u > 0.5) tried = attempt((u *= 0.96));
  const shift = { x: Math.max(0, (box.x + box.width - tried.right) / 2),
    y: Math.max(0, (box.y + box.height - tried.bottom) / 2) };
  for (const place of tried.places) (place.x += shift.x), (place.y += shift.y);
  return tried;
}

/** The ems over a matrix for its symbol, and below it for its shape and bytes, which full screen leaves out. */
function roomOf({ smallest }) {
  return smallest ? { named: 1.8, below: { lines: 0, ems: 0.5 } } : { named: 2.3, below: { lines: 2, ems: 2.6 } };
}

/** Draws one placed matrix, its numbers as colours, and as figures where they fit. `look`: {data, opacity, note}. */
export function paintTile(ctx, palette, cells, place, look) {
  const { item, x, y, width, height } = place;
  const { data, opacity } = look;
  const shown = data && opacity > 0;
  ctx.globalAlpha = opacity;
  if (shown && item.state) paintState(ctx, palette, place, data);
  else if (shown) paintMatrix(ctx, palette, cells, place, data);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = shown ? palette.muted : palette.faint;
  ctx.lineWidth = 1;
  if (!shown || opacity < 0.5) ctx.setLineDash([3, 3]);
  ctx.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  ctx.setLineDash([]);
  nameTile(ctx, palette, place, look);
}

/** A matrix as a heat map. */
function paintMatrix(ctx, palette, cells, { item, x, y, width, height }, data) {
  const [high, wide] = sides(item);
  const at = (r, c) => (item.turned ? data[c * item.cols + r] : data[r * item.cols + c]);
  const values = Array.from({ length: high * wide }, (_, i) => at(Math.floor(i / wide), i % wide));
  const ramp = palette[item.ramp];
  const pixels = Int32Array.from(values, (v) => palette.pixel(item.size ? Math.abs(v) : v, ramp, item.largest,
    item.diverging));
  drawCells(ctx, cells, pixels, wide, x, y, width, height);
  const cw = width / wide, ch = height / high;
  if (ch < SMALLEST_FIGURE_PX || cw < 2 * SMALLEST_FIGURE_PX) return;
  const texts = values.map(item.whole ? (v) => number(v, true) : format(item.largest, 3));
  const size = Math.min(palette.size * 1.15, ch * 0.7, (cw - 4) / figureEms(ctx, texts, palette.font));
  if (size < Math.max(SMALLEST_FIGURE_PX, palette.smallest)) return;
  writeAll(ctx, texts.map((text, i) => ({ text, x: x + ((i % wide) + 0.5) * cw,
    y: y + (Math.floor(i / wide) + 0.5) * ch, colour: palette.inkOn(pixels[i]) })), { size, font: palette.font,
    align: "center" });
}

/** A number for each row: as figures where they fit, else as bars. */
function paintState(ctx, palette, { item, x, y, width, height, u, figures }, data) {
  const { ink, fill } = palette.quantity[item.quantity];
  ctx.fillStyle = palette.ground;
  ctx.fillRect(x, y, width, height);
  if (figures) {
    const size = Math.min(palette.size * 1.3, u * 0.7);
    writeAll(ctx, Array.from(data, (v, r) => ({ text: number(v), x: x + width / 2, y: y + (r + 0.5) * u,
      colour: ink })), { size, weight: 650, font: palette.font, align: "center" });
    return;
  }
  const [low, high] = item.range;
  ctx.fillStyle = fill;
  data.forEach((v, r) => {
    const share = Number.isFinite(v) ? (v - low) / (high - low || 1) : 0;
    ctx.fillRect(x, y + r * u + u * 0.12, width * Math.max(0, Math.min(1, share)), u * 0.76);
  });
}

/** A matrix's symbol, shape and bytes. */
function nameTile(ctx, palette, { item, x, y, width, height, column }, { data, note = "" }) {
  const em = palette.size, { font } = palette;
  const small = { size: em * 0.82, font, colour: palette.muted };
  const ink = item.quantity ? palette.quantity[item.quantity].ink : palette.text;
  const bold = { size: em * 1.25, weight: 650, font, colour: data ? ink : palette.muted };
  const [shape, size] = [times(sides(item)), bytes(item.rows * item.cols * item.item_bytes)];
  if (item !== column.main) {
    write(ctx, item.symbol, x, y - em * 0.95, bold);
    const from = x + ctx.measureText(item.symbol).width + em * 0.6;
    const words = [shape, size, note].filter(Boolean);
    const room = ctx.canvas.clientWidth - from - em * 0.8;
    const fits = [words, words.slice(0, 2), words.slice(0, 1)].map((some) => some.join(" · "))
      .find((text) => widest(ctx, [text], small.size, font) <= room);
    if (fits && !palette.smallest) write(ctx, fits, from, y - em * 0.85, small);
    return;
  }
  write(ctx, item.symbol, x + width / 2, y - em * 0.95, { ...bold, align: "center" });
  if (column.state || palette.smallest) return;
  const at = (line) => y + height + em * (0.85 + 1.05 * line);
  [shape, size].forEach((text, i) => write(ctx, text, x + width / 2, at(i), { ...small, align: "center" }));
}
