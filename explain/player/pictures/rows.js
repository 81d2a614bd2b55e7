// m, α and ℓ, row by row, and the movement of a rescale.

import { format } from "../numbers.js";
import { NOWHERE, dot, figureEms, line, widest, write } from "../surface.js";

const SMALLEST_FIGURES = 9.5;

/**
 * state: {rows, labels, max: {before, now}, alpha, sum: {before, now}, span: [low, high] of m, largestSum}; a part
 * that the kernel lacks is null. The sum's bar is the old sum times α plus what this tile adds; `phase`, from 0 to
 * 1, is how far the movement has got. `glowing` is the part to underline; `differs` has the rows to mark with ≠.
 */
export function paintRows(surface, palette, state, selected, phase = 1, glowing = "", differs = null) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const { rows, labels, max, alpha, sum, span, largestSum } = state;
  const { font } = palette;
  // Many rows get smaller digits rather than none, down to SMALLEST_FIGURES pixels.
  const smallest = Math.max(SMALLEST_FIGURES, palette.smallest);
  const fitting = Math.max(smallest, surface.height / (1.12 * rows + 1.9));
  const wanted = rows === 1 ? palette.size * Math.min(1.3, Math.max(0.88, surface.width / palette.size / 30))
    : palette.smallest || Math.min(0.88 * palette.size, fitting); // at full screen larger digits have no room
  const size = Math.max(wanted, palette.smallest);
  const head = size * 1.9;
  // Where the digits may not shrink further, the rows around the followed one.
  const fit = palette.smallest ? Math.floor((surface.height - head) / (1.12 * size)) : rows;
  const shown = Math.max(1, Math.min(rows, fit)), first = Math.max(0, Math.min(rows - shown, selected - (shown >> 1)));
  const rowHeight = Math.max(2, Math.min((surface.height - head) / shown, size * 2.6));
  const names = labels ?? (rows > 1 ? Array.from({ length: rows }, (_, r) => String(r)) : []);
  const left = names.length ? Math.ceil(widest(ctx, names, size, font, surface.width * 0.2)) + 12 : 0;
  const gap = size * 1.3;
  const parts = [
    max && { key: "max", titles: ["max m", "m"], share: 1.12, values: max.now ?? max.before,
      largest: Math.max(...span.map(Math.abs)) },
    alpha && { key: "alpha", titles: ["rescale α", "α"], share: 0.82, values: alpha, largest: 1 },
    sum && { key: "sum", titles: ["sum ℓ", "ℓ"], share: 1.12, values: sum.now ?? sum.before, largest: largestSum },
  ].filter(Boolean);
  const total = parts.reduce((all, { share }) => all + share, 0);
  const figure = format(Math.max(...parts.map(({ largest }) => largest)), 4); // one for all parts
  let x = left;
  for (const part of parts) {
    const column = ((surface.width - left - 1) * part.share) / total;
    Object.assign(part, { x, width: column - gap, end: x + column - gap });
    x += column;
    part.texts = Array.from({ length: rows }, (_, r) => (part.values?.[r] === undefined ? "" : figure(part.values[r])));
    part.room = figureEms(ctx, part.texts, font) * size * 1.08 + size * 0.5; // the selected row's numbers are bold
    const titleFont = { colour: palette.quantity[part.key].ink, size, weight: 600, font };
    const title = part.titles.find((text) => widest(ctx, [text], size * 1.1, font) <= part.width + gap * 0.6)
      ?? part.titles[1];
    write(ctx, title, part.x, size * 0.75, titleFont);
    part.word = { text: title, left: part.x, middle: size * 0.75 - surface.height, size, weight: 600 };
    if (part.key !== glowing) continue;
    ctx.fillStyle = palette.text;
    ctx.fillRect(part.x - 2, size * 1.4, part.width + 4, 2.5);
  }
  const numbers = rowHeight >= size * 1.12 && parts.every(({ width, room }) => width >= room + size);
  const digits = { size, font, align: "right", colour: palette.text };
  for (let r = first; r < first + shown; r++) {
    const y = head + (r - first) * rowHeight, middle = y + rowHeight / 2;
    const on = r === selected;
    if (on && rows > 1) {
      ctx.fillStyle = palette.raised;
      ctx.fillRect(0, y, surface.width, rowHeight);
    }
    if (left && rowHeight >= size * 1.12) {
      const colour = on ? palette.text : palette.muted;
      write(ctx, names[r], left - 10, middle,
        { ...digits, size: Math.max(size * 0.95, palette.smallest), colour, weight: on ? 600 : 400, room: left - 8 });
    }
    for (const { key, x: start, width, end, room, texts } of parts) {
      const place = { x: start, width: numbers ? width - room : width };
      if (key === "max") move(ctx, palette, place, middle, rowHeight, max.before?.[r], max.now?.[r], span);
      else if (key === "alpha") portion(ctx, palette, place, middle, rowHeight, alpha[r]);
      else pile(ctx, palette, place, middle, rowHeight, sum.before?.[r], sum.now?.[r], alpha?.[r], largestSum, phase);
      if (numbers) write(ctx, texts[r], end, middle, { ...digits, weight: on ? 600 : 400 });
    }
    if (differs?.has(r)) {
      write(ctx, "≠", surface.width - 1, middle, { ...digits, size: Math.min(size, rowHeight), weight: 700 });
    }
  }
  const at = (x, y) => {
    const row = first + Math.floor((y - head) / rowHeight);
    if (row < first || row >= first + shown || x < 0) return null;
    return { row, part: parts.findLast((part) => x >= part.x - 4)?.key };
  };
  return Object.assign(at, { shown: shown < rows ? [first, first + shown - 1] : null,
    words: parts.map(({ key, word }) => ({ ...word, key })) });
}

/** The running maximum: a ring before this tile, a dot now. The run's largest stands at the right end. */
function move(ctx, palette, { x, width }, y, rowHeight, before, after, [low, high]) {
  const radius = Math.max(1.2, Math.min(4, rowHeight * 0.3));
  const at = (v) => (v === -Infinity ? x + radius
    : x + 2 * radius + (width - 4 * radius) * (high > low ? (v - low) / (high - low) : 1));
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

/** α: the share of the bar that is kept. */
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

/** The progress of a rescale's two movements at a phase: first the old part shrinks, then the new part is added. */
export function rescaled(phase) {
  const eased = (t) => (t <= 0 ? 0 : t >= 1 ? 1 : t * t * (3 - 2 * t));
  return { shrunk: eased(phase * 2), added: eased(phase * 2 - 1) };
}

/**
 * The sum. After its update: a dashed outline of the old sum, solid the old sum times α, then this tile's part.
 * Before it, with α known: the old sum, with an arrow in α's colour over the part that the rescale will remove.
 */
function pile(ctx, palette, { x, width }, y, rowHeight, before, now, alpha, largest, phase) {
  const thick = Math.max(1.5, Math.min(rowHeight * 0.5, 10)), top = y - thick / 2;
  const long = (v) => (Number.isFinite(v) ? (width * Math.max(0, v)) / largest : 0);
  const known = alpha !== undefined && before !== undefined;
  const kept = known ? (before === 0 ? 0 : before * alpha) : undefined;
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
