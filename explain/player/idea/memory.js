// HBM below the chip: its buffers, all at one scale, and the way of each tile between there and its place on chip.

import { bufferSymbol } from "../beat_words.js";
import { briefest, mixed, number, times } from "../numbers.js";
import { CELL_DIGITS, CELL_GAP_PX, SMALLEST_PX } from "../pictures/array.js";
import { figureEms, line, widest, write, writeAll } from "../surface.js";

const BIGGEST_EM = 3.6;                                    // of an element
const WIDEST_CELL_OF_HBM = 2.2, WIDEST_OF_ROW = 3;         // its width by its height, to fill the band; of one row
const LINES_SHARE = 1.1;                                   // of the band's height, for several lines
const LEAST_WORDS_PX = 14;
const FIGURES_SHARE = 0.84, FIGURES_HIGH = 0.8;            // of a cell's width, so that numbers stand apart; height
const BUFFER_GAP_EM = 1.4, BUFFER_GAP_SHARE = 0.03;        // between two buffers; at most, of the width
const WAYS_EM = 1.5;                                       // above the buffers, for what moves
const LINES_EM = 0.6;                                      // between two lines of buffers
const LINES_GAIN = 2, ROWS_GAIN = 1.5;                     // how much wider their cells must be; those of one row
const CORNER_EM = 0.5, APART_EM = 0.5, ALL_APART_EM = 1;   // between two ways; between the first and the last
const CLEAR_EM = 0.25;                                     // from a way to what it passes
const MOST_ORDERED = 6;                                     // ways

/** The size of a word in HBM. */
export const hbmWords = ({ size, smallest }) => Math.max(LEAST_WORDS_PX, size * 0.86, smallest);

/** Places buffers side by side in a band {x, width, height}, in an `order`, the name of each at its left; in several
 * lines where that makes them much wider: {places, shapes, below, height}; a place is {buffer, symbol, x, top, cell,
 * wide: a cell's width}, from the band's top. A shape is written below its buffer; where that has no room, all of them
 * in one line. */
export function placeBand(ctx, palette, buffers, band, view, order = [...buffers.keys()]) {
  const em = palette.size, told = Math.max(LEAST_WORDS_PX, em, palette.smallest) * 1.25;
  const gap = Math.min(em * BUFFER_GAP_EM, band.width * BUFFER_GAP_SHARE);
  const ways = em * WAYS_EM, between = em * LINES_EM;
  const symbols = buffers.map(({ name }) => bufferSymbol(name, view));
  const named = symbols.map((symbol) => widest(ctx, [symbol], Math.max(em, palette.smallest) * 1.1, palette.font) + 6);
  const [most, gain] = buffers.every(({ height }) => height === 1) ? [WIDEST_OF_ROW, ROWS_GAIN]
    : [WIDEST_CELL_OF_HBM, LINES_GAIN];
  const laid = (count) => {
    const per = Math.ceil(buffers.length / count), starts = order.flatMap((_, at) => (at % per ? [] : [at]));
    const lines = starts.map((at) => order.slice(at, at + per));
    const tallest = lines.map((own) => Math.max(...own.map((b) => buffers[b].height)));
    const first = Math.max(...starts.map((at) => named[order[at]])); // all lines begin below each other
    const widthAt = (cell) => Math.max(...lines.map((own) => own.reduce((sum, b, i) =>
      sum + (i ? gap + named[b] : first) + buffers[b].width * cell, 0)));
    const high = band.height * (count > 1 ? LINES_SHARE : 1) - ways - told - between * (lines.length - 1);
    const least = most === WIDEST_OF_ROW ? palette.smallest / FIGURES_HIGH : 0; // a figure has room in a row
    let cell = Math.max(least, Math.min(em * BIGGEST_EM, high / tallest.reduce((sum, tall) => sum + tall)));
    while (widthAt(cell) > band.width && cell > 1e-3) cell *= 0.97;
    let wide = cell;
    while (cell && wide * 1.03 <= cell * most && widthAt(wide * 1.03) <= band.width) wide *= 1.03;
    return { lines, tallest, first, cell, wide, left: band.x + Math.max(0, (band.width - widthAt(wide)) / 2) };
  };
  const { lines, tallest, first, cell, wide, left } = [2, 3].map(laid).reduce((best, next) =>
    (next.wide > gain * best.wide ? next : best), laid(1));
  let top = ways;
  const places = lines.flatMap((own, l) => {
    let right = left;
    const placed = own.map((b, i) => {
      const x = right + (i ? gap + named[b] : first);
      right = x + buffers[b].width * wide;
      return { buffer: buffers[b], symbol: symbols[b], x, top, cell, wide };
    });
    top += tallest[l] * cell + between;
    return placed;
  });
  places.sort((one, other) => buffers.indexOf(one.buffer) - buffers.indexOf(other.buffer));
  const below = top - between;
  return { places, shapes: shapesOf(ctx, palette, places, gap, band), below, height: below + told };
}

/** The shapes of placed buffers: {text, middle: across}, each below its own, or all in one line. */
function shapesOf(ctx, palette, places, gap, band) {
  const room = (text) => widest(ctx, [text], hbmWords(palette), palette.font);
  const own = places.map(({ buffer: { matrices, rows, cols, width }, x, wide }) =>
    ({ text: times([...(matrices > 1 ? [matrices] : []), rows, cols]), middle: x + (width * wide) / 2 }));
  const fits = ({ text }, i) => room(text) <= places[i].buffer.width * places[i].wide + gap;
  if (places.every(({ top }) => top === places[0].top) && own.every(fits)) return own;
  const shapes = [...new Set(own.map(({ text }) => text))];
  const of = (shape) => places.filter((_, i) => own[i].text === shape).map(({ symbol }) => symbol).join(", ");
  const text = shapes.length > 1 ? shapes.map((shape) => `${of(shape)} ${shape}`).join(" · ") : `each ${shapes[0]}`;
  return room(text) <= band.width ? [{ text, middle: band.x + band.width / 2 }] : [];
}

/** Where a buffer's symbol stands, at its left: {left, middle, size}. */
export function bufferSymbolPlace(ctx, { size: em, smallest, font }, { symbol, x, top, buffer, cell }) {
  const size = Math.max(em, smallest);
  const left = x - 6 - widest(ctx, [symbol], size * 1.08, font);
  return { left, middle: top + Math.min((buffer.height * cell) / 2, em), size };
}

/** The buffers' symbols, and below them their shapes. */
export function nameBand(ctx, palette, { places, shapes, below }, y) {
  const { font, text: colour, muted } = palette, small = hbmWords(palette);
  for (const place of places) {
    const { left, middle, size } = bufferSymbolPlace(ctx, palette, place);
    write(ctx, place.symbol, left, y + middle, { size, weight: 650, font, colour });
  }
  for (const { text, middle } of shapes) {
    write(ctx, text, middle, y + below + small * 0.85, { size: small, font, align: "center", colour: muted });
  }
}

/** The formats of a buffer's numbers, all that the run has there, where those on chip have no room. */
export const shorterFigures = (numbers) => [...[CELL_DIGITS + 1, CELL_DIGITS].map((digits) => mixed(numbers, digits)),
  briefest(numbers)];

/** The format of a buffer's integers. */
export const wholeFigure = Object.assign((x) => number(x, true), { whole: true });

/** The numbers of a buffer's cells, if they have room there: as on chip, by `figure`, else by the first of `shorter`
 * that fits. `words` are the cells' colours; where `isFull` a cell is filled with its own. False where they have no
 * room. */
export function paintFigures(ctx, palette, place, { cells, values, words, figure, shorter }, isFull) {
  const { buffer, x, top, cell, wide } = place;
  if (Math.min(cell, wide) < 2 * SMALLEST_PX) return false;
  const room = Math.min(wide * FIGURES_SHARE, wide - CELL_GAP_PX);
  const asOnChip = !figure.whole || cells.every((at) => Number.isInteger(values[at]));
  const told = [...(asOnChip ? [figure] : []), ...shorter].map((one) => cells.map((at) => one(values[at])));
  const sized = told.map((texts) => ({ texts, size: Math.min(palette.size * 1.1, cell * FIGURES_HIGH,
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

const orders = (list) => (list.length < 2 ? [list]
  : list.flatMap((one, i) => orders(list.toSpliced(i, 1)).map((others) => [one, ...others])));

/** The ways {from: the place across below, to: above}, from the highest to the lowest, as they cross each other least
 * where each has a height of its own; more than MOST_ORDERED as they are. */
export function stacked(ways) {
  if (ways.length > MOST_ORDERED) return ways;
  const isWithin = (x, { from, to }) => x > Math.min(from, to) && x < Math.max(from, to);
  const crossings = (order) => order.reduce((sum, upper, i) => order.slice(i + 1).reduce((own, lower) =>
    own + isWithin(upper.from, lower) + isWithin(lower.to, upper), sum), 0);
  return orders(ways).reduce((best, next) => (crossings(next) < crossings(best) ? next : best));
}

/** The place across from which a way leaves a `box` of HBM upwards: its middle, else the nearest at which no buffer or
 * name stands above it; the middle where there is none. */
function clearPlace(ctx, palette, { x: left, y, width }, band) {
  const middle = left + width / 2, margin = palette.size * CLEAR_EM;
  const above = band.map((place) => ({ bottom: place.top + place.buffer.height * place.cell,
    from: bufferSymbolPlace(ctx, palette, place).left - margin,
    to: place.x + place.buffer.width * place.wide + margin })).filter(({ bottom }) => bottom < y);
  const isClear = (x) => x > left && x < left + width && above.every(({ from, to }) => x <= from || x >= to);
  const clear = [middle, ...above.flatMap(({ from, to }) => [from, to])].filter(isClear);
  return clear.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle))[0] ?? middle;
}

/** A line from each tile in HBM to the same tile on chip, in the way that it moves: up from the tile, behind what
 * stands above it in the `band`, along between chip and HBM, and to the tile from below, or from its side where others
 * of `places` stand below it; none goes further to the `right`. No name is in its way. */
export function paintWays(ctx, palette, moves, { along, right: most }, places, band) {
  ctx.strokeStyle = ctx.fillStyle = palette.quantity.hbm.fill;
  ctx.lineWidth = palette.size * 0.14;
  const edge = most - ctx.lineWidth;
  const ways = moves.map(({ box, place, store }) => {
    const lower = places.filter((other) => other.y >= place.y + place.height);
    const clear = (x) => lower.every((other) => x < other.x || x > other.x + other.width);
    const side = place.x + place.width, beside = places.filter((other) => other.y + other.height > place.y);
    const far = palette.size * 0.75, next = beside.filter(({ x }) => x > side).map(({ x }) => (x - side) / 2);
    const right = side + Math.min(far, edge - side, ...next), left = place.x - far;
    const to = place.last ? place.x + place.width / 2 : clear(right) ? right : left;
    return { box, place, store, from: clearPlace(ctx, palette, box, band), to };
  });
  if (!ways.length) return;
  stacked(ways).forEach(({ box, place, store, from, to }, i) => {
    const apart = palette.size * Math.min(APART_EM, ALL_APART_EM / (moves.length - 1));
    const y = along + apart * (i - (moves.length - 1) / 2);
    const tip = { x: from, y: box.y - (store ? 2 : 0) }, start = { ...tip };
    const above = band.map(({ buffer, x, top, cell, wide }) => ({ x, top, right: x + buffer.width * wide,
      bottom: top + buffer.height * cell })).filter((one) => one.x < tip.x && one.right > tip.x && one.bottom < box.y);
    for (const { top, bottom } of above.sort((a, b) => b.top - a.top)) {
      line(ctx, tip.x, start.y, tip.x, bottom);
      start.y = top;
    }
    const middle = place.y + place.height / 2, edge = to > place.x ? place.x + place.width + 3 : place.x - 3;
    const end = place.last ? { x: to, y: place.y + place.height + 3 } : { x: edge, y: middle };
    const bends = [{ x: from, y }, { x: to, y }, ...(place.last ? [] : [{ x: to, y: middle }])];
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
    const [head, before] = store ? [tip, points[1]] : [end, points.at(-2)];
    arrowhead(ctx, head, Math.sign(head.x - before.x), Math.sign(head.y - before.y), palette.size * 0.6);
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
