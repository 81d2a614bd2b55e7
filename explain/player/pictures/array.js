// A small dense array as a heat map.

import { briefest, format } from "../numbers.js";
import { NOWHERE, figureEms, hatching, writeAll } from "../surface.js";

export const CELL_DIGITS = 3, CELL_GAP_PX = 4, SMALLEST_PX = 9;   // of the numbers in a heat map's cells

/** An image with a pixel an element, to be drawn larger. */
function imageOf(rows, cols) {
  const image = document.createElement("canvas");
  image.width = cols;
  image.height = rows;
  const pen = image.getContext("2d");
  const pixels = pen.createImageData(cols, rows);
  return { image, pen, pixels, words: new Int32Array(pixels.data.buffer) };
}

/** An array of rows × cols as a heat map over the top `height` of its canvas; numbers in the cells where they fit. The
 * cells of lanes that are off in `lanes` are hatched. */
export function paintArray(surface, palette, array) {
  const { data, rows, cols, ramp, largest, diverging = true, selected = -1, whole = false, lanes = null,
    height = surface.height } = array;
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const cw = Math.min(surface.width / cols, Math.max(64, palette.smallest * 3.2));
  const ch = Math.min(height / rows, Math.max(cw, 18), Math.max(34, palette.smallest * 1.6));
  const { image, pen, pixels, words } = surface.remember("array", `${rows} ${cols}`, () => imageOf(rows, cols));
  for (let i = 0; i < words.length; i++) words[i] = palette.pixel(data[i], palette[ramp], largest, diverging);
  pen.putImageData(pixels, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(image, 0.5, 0.5, cw * cols - 1, ch * rows - 1);
  ctx.fillStyle = hatching(ctx, palette.faint, 1);
  lanes?.forEach((on, i) => on || ctx.fillRect((i % cols) * cw, Math.floor(i / cols) * ch, cw, ch));
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(0.5, 0.5, cw * cols - 1, ch * rows - 1);
  if (cw >= 27 && ch >= 12) {
    const told = [format(largest, CELL_DIGITS, whole), briefest(Array.from(data))].map((one) => Array.from(data, one));
    const fitting = told.map((texts) => ({ texts, size: Math.min(palette.size * 0.85, ch * 0.66,
      (cw - CELL_GAP_PX) / figureEms(ctx, texts, palette.font)) }))
      .find(({ size }) => size >= Math.max(SMALLEST_PX, palette.smallest));
    const place = (i) => ({ x: ((i % cols) + 0.5) * cw, y: (Math.floor(i / cols) + 0.5) * ch });
    const figures = (fitting?.texts ?? []).map((text, i) => ({ text, ...place(i), colour: palette.inkOn(words[i]) }));
    writeAll(ctx, figures, { size: fitting?.size, font: palette.font, align: "center" });
  }
  if (selected >= 0 && rows > 1) {
    ctx.strokeStyle = palette.text;
    ctx.lineWidth = 1.25;
    ctx.strokeRect(0.75, selected * ch + 0.5, cw * cols - 1.5, ch - 0.5);
  }
  const at = (x, y) => {
    const col = Math.floor(x / cw), row = Math.floor(y / ch);
    return col >= 0 && col < cols && row >= 0 && row < rows ? { row, col } : null;
  };
  at.centre = (row, col) => [(col + 0.5) * cw, (row + 0.5) * ch];
  return at;
}
