// The whole S, which a kernel that tiles it never has: an outline to the scale of the tile, with the tile in its place.

import { times } from "../numbers.js";
import { line, widest, write } from "../surface.js";

const RIGHT_OF_KEYS_EM = 1.6, LEFT_OF_VALUES_EM = 7;       // for what moves to Kᵀ; for the note of V
const LEAST_WHOLE_EM = 3, LEAST_TILE_PX = 3;
const WORDS_LINE_EM = 1.35, WORDS_APART_EM = 0.8;

/** Where the whole S has room, between Kᵀ and V: {x, y, width, height: of the outline, rows, cols: of a tile in it,
 * words: its lines, size}; null for none. `shape` is the whole S's. */
export function placeWhole(ctx, palette, places, shape) {
  const upper = (role) => places.find(({ item, column }) => item.role === role && item !== column.main);
  const [keys, values] = ["keys", "values"].map(upper);
  const tile = places.find(({ item }) => item === keys?.column.main);
  if (!values || tile?.item.role !== "scores") return null;
  const em = palette.size, size = Math.max(em * 0.82, palette.smallest);
  const left = keys.x + keys.width + em * RIGHT_OF_KEYS_EM, room = values.x - LEFT_OF_VALUES_EM * size - left;
  const wide = (tile.width * shape[1]) / tile.item.cols, high = (tile.height * shape[0]) / tile.item.rows;
  const told = [`S is ${times(shape)}:`, "never whole in memory"], narrower = [told[0], "never whole", "in memory"];
  for (const words of [told, narrower]) {
    const beside = em * WORDS_APART_EM + widest(ctx, words, size, palette.font);
    const scale = Math.min((room - beside) / wide, keys.height / high);
    const outline = { width: wide * scale, height: high * scale };
    const [rows, cols] = [tile.height * scale, tile.width * scale];
    if (Math.min(...Object.values(outline)) < em * LEAST_WHOLE_EM || Math.min(rows, cols) < LEAST_TILE_PX) continue;
    if (words.length * size * WORDS_LINE_EM > keys.height) continue;
    const x = left + (room - beside - outline.width) / 2, y = keys.y + (keys.height - outline.height) / 2;
    return { x, y, ...outline, rows, cols, words, size };
  }
  return null;
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
    const [left, top] = [tile.left * cols, tile.top * rows];
    const place = [x + left, y + top, Math.min(cols, width - left), Math.min(rows, height - top)];
    ctx.fillStyle = palette.quantity.scores.fill;
    if (tile.here) ctx.fillRect(...place);
    ctx.strokeRect(...place);
  }
  const middle = y + height / 2, first = (1 - words.length) / 2;
  words.forEach((text, i) => write(ctx, text, x + width + palette.size * WORDS_APART_EM,
    middle + (first + i) * size * WORDS_LINE_EM, { size, font: palette.font, colour: palette.muted }));
}
