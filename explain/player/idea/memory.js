// HBM below the chip: its buffers, all at one scale, and the way of each tile between there and its place on chip.

import { bufferSymbol } from "../beat_words.js";
import { format, times } from "../numbers.js";
import { CELL_DIGITS, CELL_GAP_PX, SMALLEST_PX } from "../pictures/array.js";
import { figureEms, widest, write, writeAll } from "../surface.js";

const BIGGEST_EM = 3.6;                                    // of an element
const WIDEST_CELL_OF_HBM = 2.2;                            // its width by its height, to fill the band
const LEAST_WORDS_PX = 14;
const FIGURES_SHARE = 0.84;                                 // of a cell's width, so that numbers stand apart
const BUFFER_GAP_EM = 1.4, WAYS_EM = 1.5;                         // between two buffers; above them, for what moves
const CORNER_EM = 0.5, APART_EM = 0.5;

/** The size of a word in HBM. */
export const hbmWords = ({ size, smallest }) => Math.max(LEAST_WORDS_PX, size * 0.86, smallest);

/** Places buffers side by side in a band {x, width, height}, the name of each at its left: {places, groups, below,
 * height}; a place is {buffer, symbol, x, top, cell, wide: a cell's width}, from the band's top. A shape is written
 * below its buffer; where that has no room, once below neighbours of one shape. */
export function placeBand(ctx, palette, buffers, band, view) {
  const em = palette.size, line = Math.max(LEAST_WORDS_PX, em, palette.smallest) * 1.25;
  const gap = em * BUFFER_GAP_EM, ways = em * WAYS_EM;
  const symbols = buffers.map(({ name }) => bufferSymbol(name, view));
  const named = symbols.map((symbol) => widest(ctx, [symbol], Math.max(em, palette.smallest) * 1.1, palette.font) + 6);
  const tallest = Math.max(...buffers.map(({ height }) => height));
  const widthAt = (cell) => buffers.reduce((sum, { width }, b) => sum + width * cell + named[b] + gap, -gap);
  let cell = Math.min(em * BIGGEST_EM, (band.height - ways - line) / tallest);
  while (widthAt(cell) > band.width && cell > 1e-3) cell *= 0.97;
  let wide = cell;
  while (wide * 1.03 <= cell * WIDEST_CELL_OF_HBM && widthAt(wide * 1.03) <= band.width) wide *= 1.03;
  let right = band.x + Math.max(0, (band.width - widthAt(wide)) / 2);
  const places = buffers.map((buffer, b) => {
    const x = right + named[b];
    right = x + buffer.width * wide + gap;
    return { buffer, symbol: symbols[b], x, top: ways, cell, wide };
  });
  const shapes = buffers.map(({ matrices, rows, cols }) => times([...(matrices > 1 ? [matrices] : []), rows, cols]));
  const own = shapes.every((shape, b) => widest(ctx, [shape], hbmWords(palette), palette.font)
    <= buffers[b].width * wide + gap);
  const groups = [];
  places.forEach(({ buffer: { width }, x }, b) => {
    const shape = shapes[b], end = x + width * wide;
    if (!own && groups.at(-1)?.shape === shape) Object.assign(groups.at(-1), { right: end, each: "each " });
    else groups.push({ shape, left: x, right: end, each: "" });
  });
  const below = ways + tallest * cell;
  return { places, groups, below, height: below + line };
}

/** Where a buffer's symbol stands, at its left: {left, middle, size}. */
export function bufferSymbolPlace(ctx, { size: em, smallest, font }, { symbol, x, top, buffer, cell }) {
  const size = Math.max(em, smallest);
  const left = x - 6 - widest(ctx, [symbol], size * 1.08, font);
  return { left, middle: top + Math.min((buffer.height * cell) / 2, em), size };
}

/** The buffers' symbols, and below them each shape once. */
export function nameBand(ctx, palette, { places, groups, below }, y) {
  const { size: em, smallest, font } = palette;
  for (const place of places) {
    const { left, middle, size } = bufferSymbolPlace(ctx, palette, place);
    write(ctx, place.symbol, left, y + middle, { size, weight: 650, font, colour: palette.text });
  }
  const small = { size: hbmWords(palette), font, align: "center", colour: palette.muted };
  for (const { shape, each, left, right } of groups) {
    if (widest(ctx, [each + shape], small.size, font) > right - left + em * BUFFER_GAP_EM) continue;
    write(ctx, each + shape, (left + right) / 2, y + below + small.size * 0.85, small);
  }
}

/** The numbers of a buffer's cells, if they have room there: as on chip, by `figure`, else with as many digits as fit.
 * `words` are the cells' colours; where `isFull` a cell is filled with its own. False where they have no room. */
export function paintFigures(ctx, palette, place, { cells, values, words, largest, figure }, isFull) {
  const { buffer, x, top, cell, wide } = place;
  if (Math.min(cell, wide) < 2 * SMALLEST_PX) return false;
  const room = Math.min(wide * FIGURES_SHARE, wide - CELL_GAP_PX);
  const asOnChip = !figure.whole || cells.every((at) => Number.isInteger(values[at]));
  const formats = [CELL_DIGITS + 1, CELL_DIGITS].map((digits) => format(largest, digits));
  const told = [...(asOnChip ? [figure] : []), ...formats].map((one) => cells.map((at) => one(values[at])));
  const sized = told.map((texts) => ({ texts, size: Math.min(palette.size * 1.1, cell * 0.8,
    room / figureEms(ctx, texts, palette.font)) }));
  const fitting = sized.find(({ size }) => size >= Math.max(SMALLEST_PX, palette.smallest));
  if (!cells.length || !fitting) return false;
  const { texts, size } = fitting;
  const corner = (at) => [x + (at % buffer.width) * wide + 1, top + Math.floor(at / buffer.width) * cell + 1];
  for (const at of cells.filter(isFull)) {
    ctx.fillStyle = palette.css(words[at]);
    ctx.fillRect(...corner(at), wide - 2, cell - 2);
  }
  writeAll(ctx, cells.map((at, i) => ({ text: texts[i], x: corner(at)[0] + wide / 2 - 1,
    y: corner(at)[1] + cell / 2 - 1, colour: isFull(at) ? palette.inkOn(words[at]) : palette.text })), { size,
    font: palette.font, align: "center" });
  return true;
}

/** A line from each tile in HBM to the same tile on chip, in the way that it moves: up from the tile, along between
 * chip and HBM, and to the tile from below, or from its side where others of `places` stand below it. No name is in its
 * way. */
export function paintWays(ctx, palette, moves, along, places) {
  ctx.strokeStyle = ctx.fillStyle = palette.quantity.hbm.fill;
  ctx.lineWidth = palette.size * 0.14;
  moves.forEach(({ box, place, store }, i) => {
    const apart = palette.size * APART_EM, y = along + apart * (i - (moves.length - 1) / 2);
    const start = { x: box.x + box.width / 2, y: box.y - (store ? 2 : 0) };
    const middle = place.y + place.height / 2;
    const lower = places.filter((other) => other.y >= place.y + place.height);
    const clear = (x) => lower.every((other) => x < other.x || x > other.x + other.width);
    const side = place.x + place.width, next = Math.min(...lower.map(({ x }) => x).filter((x) => x > side));
    const far = palette.size * 0.75, right = side + Math.min(far, (next - side) / 2), left = place.x - far;
    const aside = clear(right) ? right : left;
    const under = { x: place.x + place.width / 2, y: place.y + place.height + 3 };
    const end = place.last ? under : { x: aside === right ? side + 3 : place.x - 3, y: middle };
    const bends = place.last ? [{ x: start.x, y }, { x: end.x, y }]
      : [{ x: start.x, y }, { x: aside, y }, { x: aside, y: middle }];
    const points = [start, ...bends, end];
    ctx.beginPath();
    ctx.moveTo(start.x, start.y);
    bends.forEach((bend, at) => {
      const from = points[at], to = points[at + 2];
      const reach = Math.min(palette.size * CORNER_EM, Math.hypot(bend.x - from.x, bend.y - from.y) / 2,
        Math.hypot(to.x - bend.x, to.y - bend.y) / 2);
      ctx.arcTo(bend.x, bend.y, to.x, to.y, reach);
    });
    ctx.lineTo(end.x, end.y);
    ctx.stroke();
    const [tip, before] = store ? [start, points[1]] : [end, points.at(-2)];
    arrowhead(ctx, tip, Math.sign(tip.x - before.x), Math.sign(tip.y - before.y), palette.size * 0.6);
  });
}

/** An arrow's head at its tip, pointing along x or y. */
function arrowhead(ctx, { x, y }, dx, dy, long) {
  const along = dy ? 0 : 1;
  ctx.beginPath();
  ctx.moveTo(x, y);
  for (const side of [-1, 1]) {
    ctx.lineTo(x - (along ? dx * long : side * long * 0.6), y - (along ? side * long * 0.6 : dy * long));
  }
  ctx.fill();
}
