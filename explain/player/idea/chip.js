// The tiles on chip as matrices: row beside row, or, where each is one row, one after the other as words in lines.

import { briefest, mixed, number, times } from "../numbers.js";
import { drawCells, figureEms, widest, write, writeAll } from "../surface.js";

const LARGEST_EM = 8.5, LARGEST_ROW_EM = 13;               // the most that a cell takes; where each tile is one row
const LEAST_ROW_EM = 1.4;                                  // the height of a tile that is one row
const SMALLEST_FIGURE_PX = 10, BRIEF_GAP_PX = 6;           // between the shortest figures of two cells
const NAMED_EM = 1.75, APART_LINES_EM = 0.45;                 // above a tile, for its name; between two lines
const ROUNDING_PX = 0.01, TRIES = 9;                       // of a scale: what counts as room, how many are tried
const BETWEEN_EM = 1.5, BETWEEN_SHARE = 0.018;             // between two tiles; at most, of the width
const SYMBOLS_EM = 0.3;                                    // between the symbols of two columns of state
const BARS_EM = 2.6, BARS_SHARE = 0.03, STATE_EM = 4.8;    // a column of m, α or ℓ: bars, numbers
const LEAST_BAR_PX = 2;
export const MOST_FIGURES = 6;                                    // rows of state with numbers; more are bars
const STATE_DIGITS = 4, STATE_GAP_PX = 4, BOLD = 1.08;      // a bold figure's width by a plain one's
const WRITTEN_AS_ZERO = /^−?0(\.0+)?$/;
export const ROW_DIGITS = [STATE_DIGITS, 3, 2];            // of a row's numbers: the most that have room
const CHIP_FIGURES_SHARE = 0.84, DIGITS_COUNT = 4;         // of a cell's width; how much it counts that they fit
const DEEPEST = 6;                                         // in cells: the least room for the head's dimensions
const WIDEST = 4, WIDEST_IN_LINES = 2.2, TALLEST = 1.6;   // a cell's width by its height, or the reverse, to fill the chip
const TIGHT = { named: 1.7, apart: 0.25, widest: 3.5 };    // the same for lines of several rows
const ASIDE_EM = 1.1;                                      // right of an upper tile, for what moves to it

/** A matrix's height and width in cells, as it stands. */
export const sides = ({ rows, cols, turned }) => (turned ? [cols, rows] : [rows, cols]);

/** The size of a shape or a note. */
const smallOf = ({ size, smallest }) => Math.max(size * 0.82, smallest);

/** Whether each column has so many rows, and none stands above it. */
const have = (rows, columns) => columns.every(({ main, above }) => sides(main)[0] === rows && !above);

/** Whether each column is one row, so that they can stand in lines. */
export const areRows = (columns) => have(1, columns);

/** Whether columns stand in lines below each other: each is one row; or, at full screen, where letters are large, each
 * has the same few rows. */
function areInLines(columns, { smallest }) {
  const [rows] = sides(columns[0].main);
  return rows <= (smallest ? MOST_FIGURES : 1) && have(rows, columns);
}

/**
 * Places columns, each {main, above, state}, in a box {x, y, width, height}; `names` are those of the rows, if they
 * have any. Returns {places, names: the rows' where they have room, scale: {u, wide}, shift: what moved them from the
 * box's corner, free: the most that may}; a place is {item, column, x, y, width, height, u, last: whether nothing stands
 * below}. A cell is u high; where there is room it is `wide` times as wide. The scale is the largest that fits, at most
 * `limit`; they stand in the middle, or at its `shift`.
 */
export function placeTiles(ctx, palette, columns, box, names, limit = {}) {
  const em = palette.size;
  const flows = areInLines(columns, palette);
  const symbols = columns.map(({ main }) => widest(ctx, [main.symbol], em * 1.3, palette.font));
  const wordy = names ? widest(ctx, names, smallOf(palette), palette.font) + em * 0.7 : 0;
  const attempt = ({ u, wide, per }) => (flows ? inLines : aligned)(columns, symbols, em, box,
    { u, wide, per, named: !areRows(columns) && u >= smallOf(palette) * 1.05 ? wordy : 0 });
  const found = () => (flows ? scaleInLines(attempt, em, box, limit, columns, roomOf(ctx, palette, columns))
    : scaleAligned(attempt, em, box, limit));
  const scale = limit.wide ? limit : found();
  const tried = attempt(scale);
  const right = Math.max(...tried.places.map(({ x, width }) => x + width));
  const free = { x: Math.max(0, box.x + box.width - right), y: Math.max(0, box.y + box.height - tried.bottom) };
  const shift = limit.shift ?? { x: free.x / 2, y: free.y / 2 };
  for (const place of tried.places) (place.x += shift.x), (place.y += shift.y);
  return { places: tried.places, names: tried.named ? names : null, scale, shift, free };
}

/** The largest scale {u, wide} at which tiles beside each other fit: first as high as fit, then as wide. Where the width
 * is the limit, cells are higher than wide, but for a `square` limit. */
function scaleAligned(attempt, em, box, limit) {
  let u = Math.min(em * LARGEST_EM, limit.u ?? Infinity), wide = 1;
  while (!attempt({ u, wide }).fits && u > 0.5) u *= 0.97;
  while (wide * 1.03 <= WIDEST && attempt({ u, wide: wide * 1.03 }).fits) wide *= 1.03;
  const most = wide > 1 || limit.square ? 1 : TALLEST;
  let tall = 1;
  while (tall * 1.03 <= most && attempt({ u: u * tall * 1.03, wide: wide / (tall * 1.03) }).fits) tall *= 1.03;
  return { u: u * tall, wide: wide / tall };
}

/** The width of a cell in which the largest number of each tile has its figures, whatever the step. */
function roomOf(ctx, palette, columns) {
  const texts = columns.filter(({ state }) => !state).map(({ main: { largest, diverging } }) =>
    mixed([largest], ROW_DIGITS.at(-1))(diverging ? -largest : largest));
  return (Math.max(SMALLEST_FIGURE_PX, palette.smallest) * figureEms(ctx, texts, palette.font)) / CHIP_FIGURES_SHARE;
}

/** The scale {u, wide} at which tiles of the same rows have the largest cells, in as many lines as that takes. Numbers
 * need width more than height; a single number has its name below it. Cells need `room` for digits. */
function scaleInLines(attempt, em, box, limit, columns, room) {
  const [rows] = sides(columns[0].main), { named, apart, widest: most } = spacing(rows);
  const areNumbers = columns.every(({ state }) => state), widest = areNumbers ? 1 : most; // of a width of their own
  let best = { u: limit.u ?? 0.5, wide: 1 };
  const single = rows === 1 && columns.every(({ main }) => sides(main)[1] === 1), height = single ? 2 : 1.5;
  const worth = ({ u, wide }) => u ** height * wide * Math.min(1, (u * wide) / room) ** DIGITS_COUNT;
  for (let lines = 1; lines <= columns.length; lines++) {
    const per = areNumbers ? 2 * Math.ceil(columns.length / lines / 2) : Infinity; // an m and its ℓ share a line
    const high = ((box.height + em * apart) / lines - em * (named + apart)) / rows;
    if (high <= 0 || limit.u > high + ROUNDING_PX) break;
    const u = Math.min(em * LARGEST_ROW_EM, limit.u ?? high);
    let [low, top] = [limit.u ? 1 : 0, widest], wide = widest;
    for (let tries = 0; tries < TRIES && worth({ u, wide: top }) > worth(best) && wide > low; tries++) {
      const scale = { u: u * Math.min(1, wide), wide: Math.max(1, wide), per }, tried = attempt(scale);
      if (!tried.fits || tried.lines >= lines) top = wide;
      else {
        low = wide;
        if (worth(scale) > worth(best)) best = scale;
      }
      wide = (low + top) / 2;
    }
  }
  return best;
}

/** The room of lines of tiles with so many rows: above each tile, between two lines, and the widest cell. */
const spacing = (rows) => (rows > 1 ? TIGHT : { named: NAMED_EM, apart: APART_LINES_EM, widest: WIDEST_IN_LINES });

/** The width of a column's tile at a cell of u, `wide` times as wide. */
function widthOf({ main, state }, u, along, em, box, wide = 1) {
  const [rows, cols] = sides(main);
  if (state && rows > MOST_FIGURES) return Math.min(em * BARS_EM, box.width * BARS_SHARE);
  if (state) return Math.max(em * STATE_EM, rows === 1 ? u : 0);
  return cols * wide * (main.deep ? along : u);
}

const tileGap = (em, { width }) => Math.min(em * BETWEEN_EM, width * BETWEEN_SHARE);

/** The room after column i: less between two of state, whose symbols still stand apart. */
const gapAfter = (columns, i, gap, em) =>
  (columns[i].state && columns[i + 1]?.state ? Math.max(gap * 0.4, em * SYMBOLS_EM) : gap);

/** Row beside row, with `named` pixels for the rows' names at the left. */
function aligned(columns, symbols, em, box, { u, wide, named }) {
  const most = Math.max(...columns.map(({ main }) => sides(main)[0]));
  const deep = Math.max(0, ...columns.map(({ above }) => (above ? sides(above)[0] : 0)));
  const along = deep ? Math.min(u, (Math.max(most, DEEPEST) * u) / deep) : u;
  const top = box.y + em * NAMED_EM + deep * along;
  const gap = tileGap(em, box);
  let right = box.x + named;
  const places = columns.flatMap((column, i) => {
    const { main, above, state } = column;
    const width = widthOf(column, u, along, em, box, wide), slot = Math.max(width, symbols[i]);
    const x = right + (slot - width) / 2;
    right += slot + gapAfter(columns, i, gap, em);
    const place = { column, item: main, x, y: top, width, height: sides(main)[0] * u, u, line: 0, last: true };
    if (!above) return [place];
    const height = sides(above)[0] * along;
    return [place, { ...place, item: above, y: top - em * NAMED_EM - height, height, last: false }]; // named beside it
  });
  right += columns.at(-1).above ? em * ASIDE_EM - gap : -gap;
  const bottom = top + most * u;
  return { places, bottom, named, fits: right <= box.x + box.width && bottom <= box.y + box.height };
}

/** Tiles of the same rows, in as many lines as they need, with `named` pixels for the rows' names at the left of each.
 * A tile stands below a tile, a number below a number. */
function inLines(columns, symbols, em, box, { u, wide, per, named }) {
  const [rows] = sides(columns[0].main), left = box.x + named, room = spacing(rows);
  const row = rows > 1 ? u : Math.max(u, em * LEAST_ROW_EM), high = rows * row; // a long row is not a hair
  let x = left, y = box.y + em * room.named, line = 0, fits = true, above = [], own = [];
  const gap = tileGap(em, box);
  const places = columns.map((column, i) => {
    const width = widthOf(column, u, u, em, box, wide), slot = Math.max(width, symbols[i]);
    if (x > left && (own.length === per || x + slot > box.x + box.width)) {
      [x, above, own] = [left, own, []];
      (y += high + em * (room.named + room.apart)), line++;
    }
    x = above.find((one) => one.x >= x && one.column.state === column.state)?.x ?? x;
    fits &&= x + slot <= box.x + box.width;
    const place = { column, item: column.main, x: x + (slot - width) / 2, y, width, height: high, u: row, line };
    own.push(place);
    x += slot + gapAfter(columns, i, gap, em);
    return place;
  });
  const isBelow = (one, place) => one.line > place.line && one.x < place.x + place.width && one.x + one.width > place.x;
  for (const place of places) place.last = !places.some((one) => isBelow(one, place));
  const bottom = y + high;
  return { places, bottom, named, lines: line, fits: fits && bottom <= box.y + box.height + ROUNDING_PX };
}

/** The format of the numbers in all matrices of a picture: whole numbers, or the same decimals in each. */
export function figureOf(items, digits = ROW_DIGITS[0]) {
  const shown = items.filter(({ now, state }) => now && !state);
  const all = shown.flatMap(({ now }) => Array.from(now)).filter(Number.isFinite);
  const figure = mixed(all, digits);
  if (!all.every(Number.isInteger)) return figure;
  // Every huge float is an integer too, whose digits would have no room.
  return Object.assign((x) => (Number.isSafeInteger(x) ? number(x, true) : figure(x)), { whole: true });
}

/** The formats of a column of state, best first: one number as in captions; several with the same decimals. */
function stateFigures({ now, rows }) {
  const all = Array.from(now), finite = all.filter(Number.isFinite);
  return [rows === 1 ? (x) => number(x) : mixed(finite, STATE_DIGITS), briefest(finite)];
}

/** Whether most numbers of a matrix are not 0 and would be written as 0.0. */
const areLost = (now, texts) => {
  const written = Array.from(now, (x, i) => (x ? WRITTEN_AS_ZERO.test(texts[i]) : null)).filter((lost) => lost !== null);
  return written.filter(Boolean).length * 2 > written.length;
};

/** The figures of a placed matrix, {texts, size}: as all others by `figure`, else where that has no room as short as
 * they can be; null where these have none, or would tell little but zeros. The size is at most `limit`. */
function figuresOf(ctx, palette, { item, width, height }, figure, limit = palette.size * 2) {
  const [high, wide] = sides(item);
  const cw = width / wide, ch = height / high, least = Math.max(SMALLEST_FIGURE_PX, palette.smallest);
  if (ch < SMALLEST_FIGURE_PX || cw < 2 * SMALLEST_FIGURE_PX) return null;
  const sized = (told, room) => {
    const texts = Array.from(item.now, told);
    const tall = Math.max(ch * 0.7, Math.min(palette.smallest, ch));
    const size = areLost(item.now, texts) ? 0 : Math.min(limit, tall, room / figureEms(ctx, texts, palette.font));
    return { texts, short: told !== usual, size };
  };
  const isOne = high * wide === 1;                         // one number is written as in captions
  const usual = item.whole || isOne ? (v) => number(v, item.whole) : figure, own = sized(usual, cw * CHIP_FIGURES_SHARE);
  if (own.size >= least) return own;
  const brief = sized(briefest(Array.from(item.now)), cw - BRIEF_GAP_PX);
  return brief.size >= least ? brief : null;
}

/** The size of the figures in all tiles that have room for them, 0 where none has; and whether all have it as they
 * are. */
export function figureSize(ctx, palette, places, figure) {
  const shown = places.filter(({ item, column }) => item.now && !column.state);
  const told = shown.map((place) => figuresOf(ctx, palette, place, figure));
  const sizes = told.filter(Boolean).map(({ size }) => size);
  return { size: Math.min(...sizes, 1e3) % 1e3, everywhere: told.every((one) => one && !one.short) };
}

/** Draws one placed matrix, its numbers as colours, and as figures where they fit. `look`: {data: as colours and bars
 * show it, on the way to the item's numbers, opacity, note, figure, size, old: what a row of state had before}. */
export function paintTile(ctx, palette, cells, place, look) {
  const { item, column, x, y, width, height } = place;
  const { data, opacity } = look;
  const shown = data && opacity > 0;
  ctx.globalAlpha = opacity;
  if (shown && column.state) paintState(ctx, palette, place, look);
  else if (shown) paintMatrix(ctx, palette, cells, place, look);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = shown ? palette.muted : palette.faint;
  ctx.lineWidth = 1;
  if (!shown || opacity < 0.5) ctx.setLineDash([3, 3]);
  ctx.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  ctx.setLineDash([]);
  const word = wordPlace(ctx, palette, place);
  if (word) {
    const ground = shown && !column.state && palette.pixel(data[0], palette[item.ramp], item.largest, item.diverging);
    write(ctx, word.text, word.left, word.middle, { size: word.size, font: palette.font,
      colour: ground ? palette.inkOn(ground) : palette.muted });
  }
  nameTile(ctx, palette, { ...place, shown: item.here && shown }, look);
}

/** A matrix as a heat map. */
function paintMatrix(ctx, palette, cells, place, { data, figure, size }) {
  const { item, x, y, width, height } = place;
  const [high, wide] = sides(item);
  const at = (r, c) => (item.turned ? c * item.cols + r : r * item.cols + c);
  const cellsOf = (of) => Array.from({ length: high * wide }, (_, i) => of[at(Math.floor(i / wide), i % wide)]);
  const values = cellsOf(item.now);                        // a digit never moves: each is a number of the run
  const ramp = palette[item.ramp];
  // A sum grows from tile to tile, and gradients are mostly far below the largest: by the root the small are seen too.
  const shade = item.root ? (v) => Math.sign(v) * Math.sqrt(Math.abs(v) * item.largest)
    : item.ramp === "reads" ? Math.abs : (v) => v;
  const pixels = Int32Array.from(cellsOf(data), (v) => palette.pixel(shade(v), ramp, item.largest, item.diverging));
  drawCells(ctx, cells, pixels, wide, x, y, width, height);
  const cw = width / wide, ch = height / high, [first] = values;
  if (!Number.isFinite(first) && values.every((v) => Object.is(v, first))) {
    write(ctx, figure(first), x + width / 2, y + height / 2, { size: Math.min(palette.size * 1.6, height, width / 3),
      weight: 700, font: palette.font, align: "center", colour: palette.inkOn(pixels[0]) });
    return;
  }
  const told = size && figuresOf(ctx, palette, place, figure, size);
  if (!told) return;
  writeAll(ctx, cellsOf(told.texts).map((text, i) => ({ text, x: x + ((i % wide) + 0.5) * cw,
    y: y + (Math.floor(i / wide) + 0.5) * ch, colour: palette.inkOn(pixels[i]) })), { size: told.size,
    font: palette.font, align: "center" });
}

const stateSize = (palette, u, width) => Math.max(palette.smallest, Math.min(palette.size * 2, u * 0.6, width / 3.4));

/** Where the word for a column's only number stands, {text, left, middle, size}; null where it has no room. */
export function wordPlace(ctx, palette, { item, x, y, width, u }) {
  const text = item.word, size = smallOf(palette);
  if (item.rows > 1 || item.cols > 1 || !text || u <= stateSize(palette, u, width) + 4 * size) return null;
  const wide = widest(ctx, [text], size, palette.font);
  return wide < width - 6 ? { text, left: x + (width - wide) / 2, middle: y + u - size, size } : null;
}

/** A number for each row: as figures where there are few, with the one before it, else as bars. */
function paintState(ctx, palette, { item, x, y, width, height, u }, { data, old }) {
  const { ink, fill } = palette.quantity[item.quantity] ?? { ink: palette.text, fill: palette.muted };
  ctx.fillStyle = palette.ground;
  ctx.fillRect(x, y, width, height);
  if (item.rows <= MOST_FIGURES && u >= stateSize(palette, u, width)) { // else they would lie on each other
    const style = { font: palette.font, align: "center" };
    const [best, brief] = stateFigures(item), room = width - STATE_GAP_PX;
    const ems = (told) => figureEms(ctx, Array.from(item.now, told), palette.font) * BOLD;
    const figure = ems(best) * palette.smallest > room ? brief : best;
    const size = Math.min(stateSize(palette, u, width), room / ems(figure));
    const before = Math.max(palette.smallest, size * 0.62);
    item.now.forEach((v, r) => {
      const was = old && old[r] !== v && Number.isFinite(old[r]) ? `${figure(old[r])} →` : "";
      const both = was && u >= size + before * 1.8 && widest(ctx, [was], before, palette.font) < room;
      const middle = y + (r + 0.5) * u, centre = x + width / 2;
      if (both) write(ctx, was, centre, middle - size * 0.75, { ...style, size: before, colour: palette.muted });
      write(ctx, figure(v), centre, middle + (both ? before * 0.45 : 0), { ...style, size, weight: 650,
        colour: r < item.inside ? ink : palette.faint });
    });
    return;
  }
  const { to: zero } = barOf(0, item.range);
  data.slice(0, item.inside).forEach((v, r) => {            // padding has no bar
    const wrong = Number.isNaN(v) || v === Infinity, { from, to } = wrong ? { from: 0, to: 1 } : barOf(v, item.range);
    const least = Number.isFinite(v) && item.range[0] ? LEAST_BAR_PX : 0; // the lowest maximum is a number too
    const long = Math.max(least, width * Math.abs(to - from));
    ctx.fillStyle = wrong ? palette.alarm : fill;
    ctx.fillRect(x + width * from - (v < 0 && from > 0 ? long : 0), y + r * u + u * 0.12, long, u * 0.76);
    const size = Math.min(u * 0.9, width * 0.4);
    const told = wrong && size >= Math.max(SMALLEST_FIGURE_PX * 0.7, palette.smallest);
    if (told) write(ctx, number(v), x + width / 2, y + (r + 0.5) * u, { size, weight: 700, font: palette.font,
      align: "center", colour: palette.ground });
  });
  if (zero > 0 && zero < 1) {
    ctx.fillStyle = palette.muted;
    ctx.fillRect(x + width * zero - 0.5, y, 1, height);
  }
}

/** From where to where the bar of v goes, as parts of the width that shows `low` to `high`: from 0, a negative v to the
 * left, or from the end that is nearer to 0. −∞ has none. */
export function barOf(v, [low, high]) {
  const at = (value) => Math.max(0, Math.min(1, (value - low) / (high - low || 1)));
  const from = at(0);
  return { from, to: v === -Infinity ? from : at(v) };
}

/** Where a matrix's symbol stands, {left, middle, size}: above it, beside its shape where there is room for `shape`; of
 * one that stands above another, at its left. */
export function symbolPlace(ctx, palette, { item, column, x, y, width, height }) {
  const em = palette.size, gap = em * 0.45, full = Math.max(em * 1.25, palette.smallest);
  const wide = widest(ctx, [item.symbol], full * 1.08, palette.font);
  const fit = column.state ? Math.min(1, Math.max((width + gap) / wide, palette.smallest / full)) : 1; // beside others
  const size = full * fit, symbol = wide * fit;
  if (item !== column.main) return { left: x - em * 0.5 - symbol, middle: y + Math.min(size * 0.6, height - size / 2), size };
  const isOne = sides(item).every((side) => side === 1); // a single number needs no shape
  const shape = column.state || !item.here || isOne ? "" : times(sides(item));
  const word = column.state || isOne ? "" : item.word;     // of a single number it stands inside
  const room = (text) => gap + widest(ctx, [text], smallOf(palette), palette.font);
  const text = [word && shape && `${word} · ${shape}`, word, shape].find((one) => one && symbol + room(one) <= width);
  const left = x + (width - symbol - (text ? room(text) : 0)) / 2;
  return { left, middle: y - em, size, shape: text ? { text, left: left + symbol + gap } : null };
}

/** A matrix's symbol, and its shape and note where it is on chip and there is room. */
function nameTile(ctx, palette, place, { note = "" }) {
  const { item, x, y, height, column, shown } = place;
  const em = palette.size, { font } = palette;
  const ink = item.quantity ? palette.quantity[item.quantity].ink : palette.text;
  const { left, middle, size, shape } = symbolPlace(ctx, palette, place);
  write(ctx, item.symbol, left, middle, { size, weight: 650, font, colour: shown ? ink : palette.muted });
  const small = { size: smallOf(palette), font, colour: palette.muted };
  if (shape) write(ctx, shape.text, shape.left, y - em * 0.92, small);
  if (item === column.main || !shown) return;
  for (const { text, below } of notesOf(palette, { item, size, height }, note)) {
    write(ctx, text, x - em * 0.5, y + below, { ...small, align: "right" });
  }
}

/** What stands below the symbol of a matrix above another, as far as it has room: its shape and a note, each {text,
 * below: from the matrix's top}. */
export function notesOf(palette, { item, size, height }, note) {
  const small = smallOf(palette);
  return [times(sides(item)), note].map((text, i) => ({ text, below: size * 1.4 + small * (0.5 + 1.2 * i) }))
    .filter(({ text, below }) => text && below + small / 2 <= height);
}

/** The names of the rows, left of each line's first tile; where they have no room, the followed row's, if it has. */
export function nameRows(ctx, palette, { names, places }, { selected, own }) {
  const style = { size: smallOf(palette), font: palette.font, align: "right" };
  const named = names ?? { [selected]: own }, size = style.size * 1.08; // bold is wider
  for (const { x, y, u } of places.filter(({ line }, i) => line !== places[i - 1]?.line)) {
    const right = x - palette.size * 0.7;
    if (!names && (!own || widest(ctx, [own], size, palette.font) > right - palette.size)) return;
    for (const [r, name] of Object.entries(named)) {
      const follows = Number(r) === selected;
      write(ctx, name, right, y + (Number(r) + 0.5) * u, { ...style, weight: follows ? 650 : 400,
        colour: follows ? palette.text : palette.muted });
    }
  }
}
