// m, α and ℓ, row by row, and the movement of a rescale.

import { NOWHERE, dot, line, widest, write } from "../surface.js";
import { short } from "../words.js";

/**
 * state: {rows, labels, max: {before, now}, alpha, sum: {before, now}, span: [low, high] of m, largestSum}; a part that the kernel lacks
 * is null. The sum's bar is what alpha kept of the old sum plus what this tile added; `phase`, from 0 to 1, is how far the rescale has got;
 * `glowing` is the part to underline, `differs` has the rows to mark with ≠.
 */
export function paintRows(surface, palette, state, selected, phase = 1, glowing = "", differs = null) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const { rows, labels, max, alpha, sum } = state;
  const size = palette.size * (rows === 1 ? Math.min(1.3, Math.max(0.88, surface.width / palette.size / 30)) : 0.88);
  const head = size * 1.9;
  const rowHeight = Math.max(2, Math.min((surface.height - head) / rows, size * 2.6));
  const numbers = rowHeight >= size * 1.12;
  const left = labels ? Math.ceil(widest(ctx, labels, size * 0.95, palette.font, surface.width * 0.2)) + 10 : rows > 1 ? size * 1.9 : 0;
  const shares = [max && 1.12, alpha && 0.82, sum && 1.12];
  const total = shares.reduce((a, b) => a + (b || 0), 0) || 1;
  const gap = size * 1.1;
  const wide = surface.width - left - 1;
  const columns = [];
  let x = left;
  shares.forEach((share, i) => {
    columns[i] = share ? { x, width: (wide * share) / total - gap } : null;
    if (share) x += (wide * share) / total;
  });
  const heads = [["max", "max m"], ["alpha", "rescale α"], ["sum", "sum ℓ"]];
  columns.forEach((column, i) => {
    if (column) write(ctx, heads[i][1], column.x, size * 0.75, { colour: palette.quantity[heads[i][0]].ink, size, weight: 600, font: palette.font, room: column.width + gap - 4 });
    if (!column || heads[i][0] !== glowing) return;
    ctx.fillStyle = palette.text;
    ctx.fillRect(column.x - 2, size * 1.4, column.width + 4, 2.5);
  });
  const figure = size * 3.3;                               // the room a number takes, right-aligned
  const digits = { size, font: palette.font, align: "right", colour: palette.text };
  for (let r = 0; r < rows; r++) {
    const y = head + r * rowHeight, middle = y + rowHeight / 2;
    if (r === selected && rows > 1) {
      ctx.fillStyle = palette.raised;
      ctx.fillRect(0, y, surface.width, rowHeight);
    }
    if (numbers && left) write(ctx, labels?.[r] ?? String(r), left - 10, middle, { ...digits, size: size * 0.95, colour: r === selected ? palette.text : palette.muted, weight: r === selected ? 600 : 400, room: left - 8 });
    const [m, a, l] = columns.map((column) => column && { x: column.x, width: Math.max(12, column.width - (numbers ? figure : 0)), end: column.x + column.width });
    if (m) move(ctx, palette, m, middle, rowHeight, max.before?.[r], max.now?.[r], state.span);
    if (a) portion(ctx, palette, a, middle, rowHeight, alpha[r]);
    if (differs?.has(r)) write(ctx, "≠", surface.width - 4, middle, { ...digits, size: Math.min(size, rowHeight), weight: 700 });
    if (l) pile(ctx, palette, l, middle, rowHeight, sum.before?.[r], sum.now?.[r], alpha?.[r], state.largestSum, phase);
    if (!numbers) continue;
    const put = (column, value) => column && value !== undefined && write(ctx, short(value), column.end, middle, { ...digits, weight: r === selected ? 600 : 400 });
    put(m, max?.now?.[r] ?? max?.before?.[r]);
    put(a, alpha?.[r]);
    put(l, sum?.now?.[r] ?? sum?.before?.[r]);
  }
  return (x, y) => {
    const row = Math.floor((y - head) / rowHeight);
    if (row < 0 || row >= rows || x < 0) return null;
    const part = columns.findLastIndex((column) => column && x >= column.x - 4);
    return { row, part: heads[part]?.[0] };
  };
}

/** The running maximum: a ring where it was, a dot where it is. */
function move(ctx, palette, { x, width }, y, rowHeight, before, after, [low, high]) {
  const radius = Math.max(1.2, Math.min(4, rowHeight * 0.3));
  const at = (v) => (v === -Infinity ? x + radius : x + 2 * radius + ((width - 4 * radius) * (v - low)) / (high - low || 1));
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

/** alpha: how much of the bar is kept. */
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

/** How far a rescale's two movements have got at a phase of it: first what there is shrinks, then the new part is added. */
export function rescaled(phase) {
  const eased = (t) => (t <= 0 ? 0 : t >= 1 ? 1 : t * t * (3 - 2 * t));
  return { shrunk: eased(phase * 2), added: eased(phase * 2 - 1) };
}

/**
 * The sum. Once it is updated: a dashed outline as long as it was, solid what alpha kept, then what this tile added. Before that, with alpha
 * known: the sum as it is, with an arrow in alpha's colour over what the rescale is going to take.
 */
function pile(ctx, palette, { x, width }, y, rowHeight, before, now, alpha, largest, phase) {
  const thick = Math.max(1.5, Math.min(rowHeight * 0.5, 10)), top = y - thick / 2;
  const long = (v) => (Number.isFinite(v) ? (width * Math.max(0, v)) / largest : 0);
  const kept = alpha === undefined || before === undefined ? undefined : before === 0 ? 0 : before * alpha;
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
