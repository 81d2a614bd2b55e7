// HBM: every buffer of the launch, drawn to scale by its bytes; how often each element was read, and what this step
// touches.

import { bytes, counted, grouped, times } from "../numbers.js";
import { hatching, line, setFont, write } from "../surface.js";
import { product } from "../trace.js";
import { element } from "../words.js";
import { Panel, stemOf } from "./panel.js";

const LARGEST_DRAWN = 1 << 20;                             // elements; a larger buffer is an outline only
const BIGGEST_CELL_PX = 26;
const GRID_PX = 7;                                         // from this size on lines separate the cells
const READS_ONLY = 0, WRITES_ONLY = 1;                     // kinds of access, in the trace; an atomic does both

/** One buffer: the cell of each element in its picture, and how often each was read and written up to the step
 * shown. */
class BufferState {
  constructor({ name, item_bytes: itemBytes, shape, strides }, others) {
    this.name = name.replace(/_ptr$/, "");
    this.fullName = name;
    this.bytes = product(shape) * itemBytes;
    this.itemBytes = itemBytes;
    this.shape = shape;
    // A buffer with one number for each row of another is drawn as a column beside it.
    const isRowOf = (other) => other.length === shape.length + 1 && shape.every((side, axis) => side === other[axis]);
    const perRow = others.some(({ shape: other }) => isRowOf(other));
    const sides = perRow ? [...shape, 1] : shape.length > 1 ? shape : [1, ...shape];
    [this.rows, this.cols] = sides.slice(-2);
    this.matrices = product(sides.slice(0, -2));
    // Heads are arranged in a grid about as wide as it is high.
    const square = Math.round(Math.sqrt((this.matrices * this.rows) / this.cols));
    this.across = Math.min(this.matrices, Math.max(1, square));
    this.width = this.cols * this.across;
    this.height = this.rows * Math.ceil(this.matrices / this.across);
    const count = product(shape);
    if (count === 0 || count > LARGEST_DRAWN || this.width * this.height > 2 * LARGEST_DRAWN) return;
    this.place(count, strides);
    this.reads = new Uint32Array(this.width * this.height);
    this.writes = new Uint32Array(this.width * this.height);
    this.lit = [];
    this.image = document.createElement("canvas");
    Object.assign(this.image, { width: this.width, height: this.height });
    this.pen = this.image.getContext("2d");
    this.pixels = this.pen.createImageData(this.width, this.height);
    this.words = new Int32Array(this.pixels.data.buffer);
  }

  get drawn() {
    return Boolean(this.words);
  }

  /** Maps each element in memory to its cell of the picture, and each cell to its element. */
  place(count, strides) {
    const { shape, rows, cols, across, width } = this;
    const reach = shape.reduce((far, side, axis) => far + (side - 1) * Math.max(0, strides[axis]), 0) + 1;
    this.cellOf = new Int32Array(reach).fill(-1);
    this.elementAt = new Int32Array(width * this.height).fill(-1);
    for (let n = 0; n < count; n++) {
      let memory = 0;
      for (let axis = shape.length - 1, rest = n; axis >= 0; axis--) {
        memory += (rest % shape[axis]) * strides[axis];
        rest = Math.floor(rest / shape[axis]);
      }
      const matrix = Math.floor(n / (rows * cols)), inside = n % (rows * cols);
      const row = Math.floor(matrix / across) * rows + Math.floor(inside / cols);
      const cell = row * width + (matrix % across) * cols + (inside % cols);
      if (memory >= 0 && memory < reach) this.cellOf[memory] = cell;
      this.elementAt[cell] = memory;
    }
  }

  /** The indices of the element at a cell. */
  indices(row, col) {
    const { rows, cols, across, shape } = this;
    const matrix = Math.floor(row / rows) * across + Math.floor(col / cols);
    let n = (matrix * rows + (row % rows)) * cols + (col % cols);
    const out = shape.map(() => 0);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      out[axis] = n % shape[axis];
      n = Math.floor(n / shape[axis]);
    }
    // Without the leading axes of size 1.
    return out.slice(Math.min(shape.findIndex((side) => side > 1) >>> 0, Math.max(0, shape.length - 2)));
  }
}

/** The buffers of one launch at a step. Moves from step to step by the accesses between them, forwards or backwards. */
export class HbmState {
  constructor(story, launch) {
    this.story = story;
    const { buffers } = story.trace.header.launches[launch];
    const own = story.programs.filter((program) => program.launch === launch);
    this.first = Math.min(...own.map((program) => program.first));
    this.end = Math.max(...own.map((program) => program.end));
    this.buffers = buffers.map((buffer) => new BufferState(buffer, buffers));
    this.bytes = this.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0);
    this.next = this.first;                                // the first step not counted yet
    this.version = 0;                                      // counts the changes of the picture
    this.mostReads = this.findMost();
  }

  findMost() {
    this.count(this.first, this.end, 1);
    let most = 1;
    for (const { reads } of this.buffers) if (reads) for (const n of reads) if (n > most) most = n;
    for (const { reads, writes } of this.buffers) reads?.fill(0), writes?.fill(0);
    return most;
  }

  /** Calls `visit(buffer, cell, kind)` for every active element of step k's accesses. */
  touch(k, visit) {
    const t = this.story.trace;
    for (let a = t.access_at[k]; a < t.access_at[k + 1]; a++) {
      const buffer = this.buffers[t.access_buffer[a]];
      if (!buffer.drawn) continue;
      const { data } = t.value(t.access_value[a]);
      const mask = t.access_mask[a] < 0 ? null : t.value(t.access_mask[a]).data;
      const kind = t.access_kind[a], { cellOf } = buffer;
      for (let i = 0; i < data.length; i++) {
        if (mask && !mask[i]) continue;
        const cell = cellOf[data[i]];
        if (cell >= 0) visit(buffer, cell, kind);
      }
    }
  }

  count(from, to, by) {
    const add = (buffer, cell, kind) => {
      if (kind !== WRITES_ONLY) buffer.reads[cell] += by;
      if (kind !== READS_ONLY) buffer.writes[cell] += by;
      buffer.stale?.push(cell);
    };
    for (let k = from; k < to; k++) this.touch(k, add);
  }

  /** Brings counts and pixels to step k, with that step's own elements lit. */
  advance(k, palette) {
    if (palette !== this.palette) {
      this.palette = palette;
      for (const buffer of this.buffers) if (buffer.drawn) this.paintAll(buffer);
    }
    for (const buffer of this.buffers) buffer.stale = buffer.drawn ? buffer.lit : undefined;
    if (k >= this.next) this.count(this.next, k + 1, 1);
    else this.count(k + 1, this.next, -1);
    this.next = k + 1;
    for (const buffer of this.buffers) {
      if (!buffer.drawn) continue;
      for (const cell of buffer.stale) buffer.words[cell] = this.shade(buffer, cell);
      Object.assign(buffer, { dirty: buffer.stale.length > 0, lit: [], stale: undefined, touched: null,
        stored: false });
    }
    const lit = palette.lit;
    this.touch(k, (buffer, cell, kind) => {
      buffer.words[cell] = lit;
      buffer.lit.push(cell);
      const col = cell % buffer.width, row = (cell - col) / buffer.width;
      const box = (buffer.touched ??= { top: row, bottom: row, left: col, right: col });
      if (row < box.top) box.top = row;
      if (row > box.bottom) box.bottom = row;
      if (col < box.left) box.left = col;
      if (col > box.right) box.right = col;
      buffer.stored = kind !== READS_ONLY;
    });
    for (const buffer of this.buffers) {
      if (!buffer.drawn || !(buffer.dirty || buffer.lit.length)) continue;
      buffer.pen.putImageData(buffer.pixels, 0, 0);
      this.version++;
    }
  }

  paintAll(buffer) {
    for (let cell = 0; cell < buffer.words.length; cell++) buffer.words[cell] = this.shade(buffer, cell);
    buffer.pen.putImageData(buffer.pixels, 0, 0);
  }

  shade({ reads, writes, elementAt }, cell) {
    if (elementAt[cell] < 0) return 0;
    if (reads[cell] || !writes[cell]) return this.palette.pixel(reads[cell], this.palette.reads, this.mostReads, false);
    return this.palette.written;
  }

  /** The last step up to k that loaded (or stored) an element; −1 if none did. */
  lastAccess(buffer, cell, k, stores) {
    for (let step = k; step >= this.first; step--) {
      let found = false;
      const skipped = stores ? READS_ONLY : WRITES_ONLY;
      this.touch(step, (other, at, kind) => (found ||= other === buffer && at === cell && kind !== skipped));
      if (found) return step;
    }
    return -1;
  }
}

/**
 * The places of buffers, each {buffer, name, size}: in lines from the left, at the largest scale at which all fit into
 * width × height, a cell at most `biggest` pixels wide. A size is written beside its name where that costs little room.
 */
function placeBuffers(ctx, palette, named, { width: room, height }, biggest = BIGGEST_CELL_PX) {
  const size = Math.max(10, palette.size * 0.84);
  const head = size * 1.75, gap = size * 1.1;
  setFont(ctx, `650 ${size}px ${palette.font}`);
  const wordy = named.map((one) => ctx.measureText(`${one.name} ${one.size}`).width);
  const brief = named.map(({ name }) => ctx.measureText(name).width);
  const smallest = Math.min(...named.map(({ buffer }) => Math.sqrt(buffer.itemBytes)));
  const attempt = (labels, scale) => {
    const places = [];
    let x = 1, y = 0, tallest = 0;
    named.forEach((one, b) => {
      const { buffer } = one;
      const cell = Math.sqrt(buffer.itemBytes) * scale;
      const width = Math.max(buffer.width * cell, labels[b]);
      if (x > 1 && x + width > room) (x = 1), (y += head + tallest + gap * 0.6), (tallest = 0);
      places.push({ ...one, x, top: y + head, cell, width });
      x += width + gap;
      tallest = Math.max(tallest, buffer.height * cell);
    });
    const wide = Math.max(...places.map((place) => place.x + place.buffer.width * place.cell));
    return { places, fits: wide <= room && y + head + tallest + 2 <= height };
  };
  const best = (labels) => {
    let scale = biggest / smallest, tried = attempt(labels, scale);
    while (!tried.fits && scale > 1e-4) tried = attempt(labels, (scale *= 0.95));
    return { ...tried, scale };
  };
  const full = best(wordy), short = best(brief);
  const wins = full.scale >= short.scale * 0.8 ? full : short;
  return { size, head, places: wins.places, sized: wins === full };
}

/** Writes the names, and where there is room the sizes, over buffers that `placeBuffers` has placed. */
function nameBuffers(ctx, { text, muted, font }, { places, size, head, sized }) {
  for (const { name, size: bytes, x, top, width } of places) {
    const y = top - head * 0.62;
    write(ctx, name, x, y, { colour: text, size, weight: 650, font });
    if (!sized) continue;
    const named = ctx.measureText(`${name} `).width;
    write(ctx, bytes, x + named, y, { colour: muted, size: size * 0.9, font, room: Math.max(0, width - named) });
  }
}

/** A buffer to scale, with what its step touches marked. */
export function paintBuffer(ctx, palette, place, glows = false) {
  const { buffer, x, top, cell, wide = cell } = place;
  ctx.imageSmoothingEnabled = cell < 1;
  if (buffer.drawn) ctx.drawImage(buffer.image, x, top, buffer.width * wide, buffer.height * cell);
  frameBuffer(ctx, palette, place, glows);
}

/** A buffer's lines, its frame, and around what its step touches another. What it stores is hatched; over numbers, which
 * hatching would hide, it has a frame of the colour `written`. */
export function frameBuffer(ctx, palette, { buffer, x, top, cell, wide = cell }, glows = false, written = null) {
  const w = buffer.width * wide, h = buffer.height * cell;
  if (cell >= GRID_PX) {
    ctx.strokeStyle = palette.line;
    ctx.lineWidth = 1;
    for (let col = 1; col < buffer.width; col++) line(ctx, x + col * wide, top, x + col * wide, top + h);
    for (let row = 1; row < buffer.height; row++) line(ctx, x, top + row * cell, x + w, top + row * cell);
  }
  if (buffer.matrices > 1) {
    ctx.strokeStyle = palette.muted;                     // between the matrices of its heads
    ctx.lineWidth = 1;
    const { cols, rows } = buffer;
    for (let col = cols; col < buffer.width; col += cols) line(ctx, x + col * wide, top, x + col * wide, top + h);
    for (let row = rows; row < buffer.height; row += rows) line(ctx, x, top + row * cell, x + w, top + row * cell);
  }
  ctx.strokeStyle = glows ? palette.text : palette.faint;
  ctx.lineWidth = glows ? 2.5 : 1;
  ctx.strokeRect(x - 0.5, top - 0.5, w + 1, h + 1);
  if (!buffer.touched) return;
  const { top: first, bottom, left, right } = buffer.touched;
  const across = Math.max(2, (right - left + 1) * wide), down = Math.max(2, (bottom - first + 1) * cell);
  const box = [x + left * wide, top + first * cell, across, down];
  ctx.strokeStyle = palette.text;
  ctx.lineWidth = 1.75;
  if (buffer.stored && written) {
    ctx.strokeStyle = written;
    ctx.lineWidth = 3;
  } else if (buffer.stored) {
    ctx.fillStyle = hatching(ctx, palette.text, 1);
    ctx.fillRect(...box);
    ctx.setLineDash([4, 2.5]);
  }
  ctx.strokeRect(...box);
  ctx.setLineDash([]);
}

export class HbmPanel extends Panel {
  constructor(lane) {
    super(lane, "hbm");
    this.head("HBM", "hbm");
    this.states = new Map();
    this.layouts = new Map();
  }

  get shown() {
    return this.story.trace.header.launches.some(({ buffers }) => buffers.length);
  }

  render(k) {
    const { story, lane, palette } = this;
    const { launch } = story.programs[story.programAt[k]];
    this.step = k;
    if (!this.surface.visible) return;                     // it catches up when it is visible
    if (!this.states.has(launch)) this.states.set(launch, new HbmState(story, launch));
    const state = (this.state = this.states.get(launch));
    state.advance(k, palette);
    this.head("HBM", "hbm", `${bytes(state.bytes)}, to scale`);
    this.drawn = this.layout(launch, state);
    this.paint();
    this.at = (x, y) => this.cellAt(this.drawn, x, y);
  }

  write(k) {
    if (!this.surface.visible) return;
    this.legend(this.state);
    this.canvas.setAttribute("aria-label", this.said(k));
  }

  paint() {
    if (!this.drawn || !this.surface.visible) return;
    this.surface.draw([this.drawn, this.state, this.state.version, this.lane.glowing, this.lane.stamp],
      () => this.paintBuffers());
  }

  paintBuffers() {
    const { palette, drawn } = this;
    const ctx = this.surface.clear();
    this.surface.layer("labels", drawn.key, (pen) => nameBuffers(pen, palette, drawn));
    const { glowing } = this.lane;
    for (const place of drawn.places) {
      paintBuffer(ctx, palette, place, glowing !== null && stemOf(glowing) === place.buffer.name);
    }
  }

  glow() {
    this.paint();
  }

  /** The place of each buffer; kept for each launch. */
  layout(launch, { buffers }) {
    const { surface, palette, lane } = this;
    const key = `${launch} ${lane.stamp} ${surface.width} ${surface.height}`;
    const kept = this.layouts.get(launch);
    if (kept?.key === key) return kept;
    const named = buffers.map((buffer) => ({ buffer, name: buffer.name, size: bytes(buffer.bytes) }));
    const layout = { key, ...placeBuffers(surface.ctx, palette, named, surface) };
    this.layouts.set(launch, layout);
    return layout;
  }

  legend(state) {
    const key = `${this.lane.stamp} ${state.mostReads} ${state.first}`;
    if (this.legendOf === key) return;
    this.legendOf = key;
    const { palette } = this;
    const item = (className, label, swatch = element("i")) => {
      const out = element("li", className);
      out.append(swatch, label);
      return out;
    };
    const scale = element("li", "scale");
    const bar = element("i");
    bar.style.background = `linear-gradient(90deg, ${[0, 170, 340, 510].map((at) => palette.css(palette.reads[at]))})`;
    scale.append("reads: 0", bar, grouped(state.mostReads));
    const written = element("i");
    written.style.background = palette.css(palette.written);
    const items = [item("", "written", written), item("loading", "read now"), item("storing", "written now")];
    this.root.querySelector(".legend").replaceChildren(scale, ...items);
  }

  cellAt({ places }, x, y) {
    for (const { buffer, x: left, top, cell } of places) {
      const col = Math.floor((x - left) / cell), row = Math.floor((y - top) / cell);
      const inside = col >= 0 && col < buffer.width && row >= 0 && row < buffer.height;
      if (inside) return { buffer, row, col, cell: row * buffer.width + col };
    }
    return null;
  }

  nameAt(x, y) {
    return this.at?.(x, y)?.buffer.fullName ?? null;
  }

  told({ buffer, row, col, cell }) {
    const whole = `${buffer.name}: ${times(buffer.shape)}, ${bytes(buffer.bytes)}`;
    if (!buffer.drawn) return whole;
    if (buffer.elementAt[cell] < 0) return null;
    const { state, step, lane } = this;
    const last = (stores) => grouped(lane.timeOf(state.lastAccess(buffer, cell, step, stores)));
    const { reads, writes } = buffer;
    const name = `${buffer.name}[${buffer.indices(row, col).join(", ")}]`;
    const said = [`${counted(reads[cell], "read")}${reads[cell] ? `, last at step ${last(false)}` : ""}`];
    if (writes[cell]) said.push(`${counted(writes[cell], "write")}, last at step ${last(true)}`);
    return `${name}: ${said.join("\n")}\n${whole}`;
  }

  /** Goes to the step that last touched what was clicked. */
  clicked({ buffer, cell }) {
    if (!buffer.drawn) return;
    const last = (stores) => this.state.lastAccess(buffer, cell, this.step, stores);
    const step = Math.max(last(false), last(true));
    if (step >= 0) this.lane.select({ step });
  }

  said(k) {
    const { buffers } = this.state;
    const touched = buffers.filter((buffer) => buffer.touched).map(({ name, stored, lit }) => (
      `${counted(lit.length, "element")} of ${name} ${stored ? "written" : "read"}`));
    const step = `Step ${grouped(this.lane.timeOf(k))}: ${touched.join("; ") || "no access"}.`;
    return `HBM, ${counted(buffers.length, "buffer")}. ${step}`;
  }
}
