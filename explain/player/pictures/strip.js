// Lines of numbers in coloured cells, one line a quantity.

import { format } from "../numbers.js";
import { NOWHERE, figureEms, widest, write } from "../surface.js";
import { CELL_DIGITS, CELL_GAP_PX } from "./array.js";

/** Lines of cells, one a quantity: [{label, quantity, data (a value a column), ramp, largest, diverging}]. */
export function paintStrip(surface, palette, { lines, labels, selected }) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const count = lines[0]?.data.length ?? 0;
  if (!count) return NOWHERE;
  const size = palette.size * 0.85;
  const left = widest(ctx, lines.map(({ label }) => label), size * 1.15, palette.font) + size * 0.8;
  const texts = lines.map(({ data, largest }) =>
    Array.from(data, (x) => (x === undefined ? "" : format(largest, CELL_DIGITS)(x))));
  const ems = figureEms(ctx, texts.flat(), palette.font);
  const room = surface.width - left - 1;
  const head = labels ? size * 1.45 : 0;
  const lineHeight = size * 1.6;
  const perLine = Math.max(1, Math.floor(room / (size * ems + CELL_GAP_PX)));
  const wraps = Math.ceil(count / perLine);
  const block = head + lines.length * lineHeight + 5;
  const roomy = wraps * block <= surface.height + 6;
  const columns = roomy ? Math.ceil(count / wraps) : count;
  const cw = Math.min(room / columns, Math.max(60, size * ems + CELL_GAP_PX));
  for (let wrap = 0; wrap < (roomy ? wraps : 1); wrap++) {
    const top = wrap * block;
    lines.forEach((line, l) => {
      const y = top + head + l * lineHeight;
      write(ctx, line.label, 0, y + lineHeight / 2,
        { colour: palette.quantity[line.quantity].ink, size: size * 1.08, weight: 600, font: palette.font,
        room: left - 4 });
      for (let c = wrap * columns; c < Math.min(count, (wrap + 1) * columns); c++) {
        const x = left + (c - wrap * columns) * cw;
        const pixel = palette.pixel(line.data[c], palette[line.ramp], line.largest, line.diverging);
        ctx.fillStyle = palette.css(pixel);
        ctx.fillRect(x, y, cw - (cw > 5 ? 1 : 0), lineHeight - 1);
        if (cw < size * ems + CELL_GAP_PX - 1) continue;
        const style = { colour: palette.inkOn(pixel), size, align: "center", font: palette.font };
        write(ctx, texts[l][c], x + cw / 2 - 0.5, y + lineHeight / 2, style);
      }
    });
    if (labels && cw >= size * 2) {
      for (let c = wrap * columns; c < Math.min(count, (wrap + 1) * columns); c++) {
        write(ctx, labels[c] ?? "", left + (c - wrap * columns + 0.5) * cw, top + head / 2,
          { colour: c === selected ? palette.text : palette.muted, weight: c === selected ? 600
          : 400, size: size * 0.88, align: "center", font: palette.font, room: cw - 3 });
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
    return x >= left && col < Math.min(count, (wrap + 1) * columns) && line < lines.length
      ? { col, line: Math.max(0, line) } : null;
  };
}
