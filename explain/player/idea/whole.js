// The whole S, which a kernel that tiles it never has: an outline to the scale of the tile, with the tile in its place.

import { times } from "../numbers.js";
import { line, widest, write } from "../surface.js";
import { notesOf, symbolPlace } from "./chip.js";

const RIGHT_OF_KEYS_EM = 1.6, LEFT_OF_VALUES_EM = 1;       // for what moves to Kᵀ; left of V's symbol or notes
const ABOVE_SYMBOLS_EM = 0.5;                              // those of the state below, where no V is at the right
const LEAST_WHOLE_EM = 2.4, LEAST_TILE_PX = 3;
const WORDS_LINE_EM = 1.35, WORDS_APART_EM = 0.8;

/** Where the whole S has room, right of Kᵀ and left of V, if there is one: {x, y, width, height: of the outline, rows,
 * cols: of a tile in it, column: the width of a column of S, words: {lines, left, middle}, size}; null for none.
 * `shape` is the whole S's, `note` is V's;
 * `head` is the free part {left, right, middle} of the line above the tiles, for the words where they have no room
 * beside the outline; a column of S is at most `widestColumn` wide. */
export function placeWhole(ctx, palette, places, { shape, note }, head, widestColumn = Infinity) {
  const upper = (role) => places.find(({ item, column }) => item.role === role && item !== column.main);
  const [keys, values] = ["keys", "values"].map(upper);
  const tile = places.find(({ item }) => item === keys?.column.main);
  if (tile?.item.role !== "scores") return null;
  const em = palette.size, size = Math.max(em * 0.82, palette.smallest);
  const leftOf = (place) => {
    const symbol = symbolPlace(ctx, palette, place);
    const notes = notesOf(palette, { ...place, size: symbol.size }, note).map(({ text }) => text);
    return Math.min(symbol.left, place.x - em * 0.5 - widest(ctx, notes, size, palette.font));
  };
  const end = values ? leftOf(values) : head.right, tall = keys.height - (values ? 0 : em * ABOVE_SYMBOLS_EM);
  const left = keys.x + keys.width + em * RIGHT_OF_KEYS_EM, room = end - em * LEFT_OF_VALUES_EM - left;
  const wide = (tile.width * shape[1]) / tile.item.cols, high = (tile.height * shape[0]) / tile.item.rows;
  const named = `${tile.item.symbol} is ${times(shape)}:`;
  const told = [named, "never whole in memory"], narrower = [named, "never whole", "in memory"];
  const placed = (lines) => {
    const long = widest(ctx, lines, size, palette.font), beside = lines.length > 1 ? em * WORDS_APART_EM + long : 0;
    if (!beside && long > head.right - head.left) return null;
    const scale = Math.min((room - beside) / wide, tall / high, (widestColumn * shape[1]) / wide);
    const outline = { width: wide * scale, height: high * scale };
    const [rows, cols] = [tile.height * scale, tile.width * scale];
    if (Math.min(...Object.values(outline)) < em * LEAST_WHOLE_EM || Math.min(rows, cols) < LEAST_TILE_PX) return null;
    if (lines.length * size * WORDS_LINE_EM > tall) return null;
    const x = left + (room - beside - outline.width) / 2, y = keys.y + (tall - outline.height) / 2;
    const words = beside ? { lines, left: x + outline.width + em * WORDS_APART_EM, middle: y + outline.height / 2 }
      : { lines, left: head.right - long, middle: head.middle };
    return { x, y, ...outline, rows, cols, column: outline.width / shape[1], words, size };
  };
  const [wider, narrow] = [told, narrower].map(placed);
  return (narrow?.width > (wider?.width ?? 0) ? narrow : wider) ?? placed([told.join(" ")]);
}

/** Draws the whole S in its place, as the tiles that never stand in memory together, and the tile at row `top` and
 * column `left` of its tiles: its place, or in colour where it exists. */
export function paintWhole(ctx, palette, { x, y, width, height, rows, cols, words, size }, tile) {
  ctx.strokeStyle = palette.faint;
  ctx.lineWidth = 1;
  for (let row = rows; row < height - 1; row += rows) line(ctx, x, y + row, x + width, y + row);
  for (let col = cols; col < width - 1; col += cols) line(ctx, x + col, y, x + col, y + height);
  ctx.strokeStyle = palette.muted;
  ctx.setLineDash([3, 3]);
  ctx.strokeRect(x, y, width, height);
  ctx.setLineDash([]);
  if (tile) {
    const [across, down] = [tile.left * cols, tile.top * rows];
    const place = [x + across, y + down, Math.min(cols, width - across), Math.min(rows, height - down)];
    ctx.fillStyle = palette.quantity.scores.fill;
    if (tile.here) ctx.fillRect(...place);
    ctx.strokeRect(...place);
  }
  const { lines, left, middle } = words, first = (1 - lines.length) / 2;
  lines.forEach((text, i) => write(ctx, text, left, middle + (first + i) * size * WORDS_LINE_EM,
    { size, font: palette.font, colour: palette.muted }));
}
