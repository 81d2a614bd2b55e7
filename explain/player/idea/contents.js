// What lies in HBM: the numbers of the buffers that a launch only reads, found in what its lines load; and those that it
// writes, found in the variables that its lines store, and before that in what they load.

import { isFloat } from "../trace.js";

export const LOADED = /^\s*\w+\s*=\s*tl\.load\(/;      // a line that sets a variable to what it loads
const PALE = 0.4;                                          // what the beat does not read

/** What a launch's lines load, in order: [{step, buffer, index, name: the variable that is set, data, cells: −1 for a
 * masked lane}]. */
function* loads({ story, buffers, launch }) {
  const t = story.trace;
  for (const program of story.programs) {
    if (program.launch !== launch) continue;
    for (let step = program.first; step < program.end; step++) {
      const at = t.access_at[step], index = t.access_buffer[at], buffer = buffers[index];
      if (t.access_at[step + 1] - at !== 1 || !buffer.drawn || !LOADED.test(story.text(step))) continue;
      const [loaded] = story.changes(step), { data: offsets } = t.value(t.access_value[at]);
      if (!loaded?.value.data || !isFloat(loaded.value.dtype) || loaded.value.data.length !== offsets.length) continue;
      const mask = t.access_mask[at] < 0 ? null : t.value(t.access_mask[at]).data;
      const cells = Array.from(offsets, (offset, i) => (mask && !mask[i] ? -1 : buffer.cellOf[offset]));
      yield { step, buffer, index, name: loaded.label, data: loaded.value.data, cells };
    }
  }
}

/** Buffer → {values, cells: the known ones, name: the variable that they are loaded into} of a launch; a buffer that is
 * also written has none. */
export function loadedContents(of) {
  const out = new Map(), { totals } = of.story.trace.header.launches[of.launch];
  for (const { buffer, index, name, data, cells } of loads(of)) {
    if (totals.written_bytes[index]) continue;
    const size = buffer.width * buffer.height;
    if (!out.has(buffer)) out.set(buffer, { values: new Float64Array(size), known: new Uint8Array(size), name });
    const { values, known } = out.get(buffer);
    cells.forEach((cell, i) => {
      if (cell >= 0) (values[cell] = data[i]), (known[cell] = 1);
    });
  }
  for (const held of out.values()) held.cells = Array.from(held.known.keys()).filter((cell) => held.known[cell]);
  return out;
}

/** What a buffer holds that a launch writes. `stores`: [{step, cells, data}] in order; `before`: cell → number, as far
 * as the launch loads what was there; `values` is of all of them, for the scale; `name` the variable that they store;
 * `whole` whether its numbers are integers, such as columns. */
class Written {
  constructor(buffer, name, whole) {
    Object.assign(this, { name, whole, stores: [], size: buffer.width * buffer.height, next: 0, k: -1 });
    this.before = new Map();
    this.firstStored = new Map();                          // cell → step
  }

  addStored(store) {
    this.stores.push(store);
    for (const cell of store.cells) if (!this.firstStored.has(cell)) this.firstStored.set(cell, store.step);
  }

  get values() {
    return [...this.before.values(), ...this.stores.flatMap(({ data }) => [...data])];
  }

  /** What a step loads, where no store came before it. */
  addLoaded({ step, cells, data }) {
    const isAsBefore = (cell) => cell >= 0 && !(this.firstStored.get(cell) < step);
    cells.forEach((cell, i) => isAsBefore(cell) && this.before.set(cell, data[i]));
  }

  /** {values, cells: the known ones} after step k. */
  upTo(k) {
    if (k < this.k || !this.held) {
      Object.assign(this, { held: new Float64Array(this.size), known: new Set(this.before.keys()), next: 0 });
      for (const [cell, value] of this.before) this.held[cell] = value;
    }
    for (this.k = k; this.next < this.stores.length && this.stores[this.next].step <= k; this.next++) {
      const { cells, data } = this.stores[this.next];
      cells.forEach((cell, i) => cell >= 0 && ((this.held[cell] = data[i]), this.known.add(cell)));
    }
    return { values: this.held, cells: [...this.known] };
  }
}

/** Buffer → Written of a launch; none of a buffer that gets more than the numbers of one variable. */
export function writtenContents(of) {
  const { story, scenes, buffers, launch } = of;
  const t = story.trace, out = new Map(), unknown = new Set();
  for (const program of story.programs) {
    if (program.launch !== launch) continue;
    for (let step = program.first; step < program.end; step++) {
      const stored = scenes.accesses(step, step + 1), first = t.access_at[step];
      stored.forEach(({ store, name, plain, stored: written }, i) => {
        const at = first + i, buffer = buffers[t.access_buffer[at]];
        if (t.access_kind[at] === 0 || !buffer.drawn) return;
        const held = store && name && (written >= 0 || plain) ? scenes.held(name, step, program)?.value : null;
        const value = held && written >= 0 ? t.value(written) : held;
        const { data: offsets } = t.value(t.access_value[at]);
        const had = out.get(buffer);
        if (value?.data?.length !== offsets.length || (had && had.name !== name)) {
          unknown.add(buffer);
          return;
        }
        if (!had) out.set(buffer, new Written(buffer, name, !isFloat(value.dtype)));
        const mask = t.access_mask[at] < 0 ? null : t.value(t.access_mask[at]).data;
        const cells = Array.from(offsets, (offset, j) => (mask && !mask[j] ? -1 : buffer.cellOf[offset]));
        out.get(buffer).addStored({ step, cells, data: value.data });
      });
    }
  }
  for (const buffer of unknown) out.delete(buffer);
  for (const load of loads(of)) out.get(load.buffer)?.addLoaded(load);
  return out;
}

/** The numbers of a buffer as colours: {image, words: each cell's pixel}. `colourOf` gives a number's. */
export function drawContents({ width, height }, { values, cells }, colourOf) {
  const image = document.createElement("canvas");
  Object.assign(image, { width, height });
  const pen = image.getContext("2d"), pixels = pen.createImageData(width, height);
  const words = new Int32Array(pixels.data.buffer);
  for (const cell of cells) words[cell] = colourOf(values[cell]);
  pen.putImageData(pixels, 0, 0);
  return { image, words };
}

/** A buffer's numbers, pale; in full colour what the beat reads. */
export function paintContents(ctx, palette, { buffer, x, top, cell, wide }, image, touched) {
  const { width, height } = buffer;
  ctx.fillStyle = palette.ground;
  ctx.fillRect(x, top, width * wide, height * cell);
  ctx.imageSmoothingEnabled = cell < 1;
  ctx.globalAlpha = PALE;
  ctx.drawImage(image, x, top, width * wide, height * cell);
  ctx.globalAlpha = 1;
  if (!touched) return;
  const { left, top: first, right, bottom } = touched, across = right - left + 1, down = bottom - first + 1;
  ctx.drawImage(image, left, first, across, down, x + left * wide, top + first * cell, across * wide, down * cell);
}
