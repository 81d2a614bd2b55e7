// One row of an accumulator as bars.

import { hatching, line } from "../surface.js";
import { rescaled } from "./rows.js";

/**
 * One row of an accumulator, a bar a column from a middle line. Rescaled in this tile, `now` is before · alpha plus
 * this tile's part: the dashed outline is before, solid before · alpha, hatched this tile's part, the line now.
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
    const solid = long(before[i]) + (long(kept) - long(before[i])) * shrunk;
    const tip = solid + (long(now[i]) - long(kept)) * added;
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
