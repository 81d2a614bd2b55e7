// SRAM: the tiles that a later line still reads, to scale by their bytes, against what the GPU has.

import { binary, bytes, times } from "../numbers.js";
import { hatching, widest, write } from "../surface.js";
import { itemBytes, product } from "../trace.js";
import { element } from "../words.js";
import { Panel, stemOf } from "./panel.js";


const bytesOf = (tiles) => tiles.reduce((sum, tile) => sum + tile.bytes, 0);

export class SramPanel extends Panel {
  constructor(lane) {
    super(lane, "sram");
    this.head("on-chip memory", "");
    this.fromHbm = this.findLoaded();
    this.items = new Map();
    this.list = this.root.querySelector(".tiles");
    this.most = this.findMost();
  }

  get shown() {
    return this.lane.annotations.sources.some(({ alive }) => alive && Object.keys(alive).length);
  }

  /** The variables that a load sets: they have HBM's colour. */
  findLoaded() {
    const { access_at, access_kind, change_at, change_name, header } = this.story.trace;
    const out = new Set();
    for (let k = 0; k < this.story.steps; k++) {
      if (access_at[k] === access_at[k + 1] || access_kind[access_at[k]] === 1) continue;
      for (let c = change_at[k]; c < change_at[k + 1]; c++) out.add(header.names[change_name[c]][1]);
    }
    return out;
  }

  /** The most bytes alive at any step: the scale of the picture at every step. */
  findMost() {
    let most = 1;
    for (let k = 0; k < this.story.steps; k++) most = Math.max(most, bytesOf(this.alive(k)));
    return most;
  }

  /** The tiles alive after step k, the callers' first: [{name, bytes, value}]. */
  alive(k) {
    const { story, lane } = this;
    const { trace } = story;
    const frames = [];
    for (let at = k; at >= 0; ) {
      frames.unshift(at);
      if (!trace.depth[at]) break;
      const inner = trace.depth[at];
      at = story.frameStart[at] - 1;                       // the caller's latest line
      while (at >= 0 && trace.depth[at] >= inner) at--;
    }
    const out = [], held = new Set();
    for (const at of frames) {
      const source = trace.source[at];
      for (const name of lane.annotations.sources[source].alive[trace.line[at]] ?? []) {
        const index = story.byName.get(`${source} ${name}`);
        const kept = index === undefined ? -1 : story.lastChange(index, at, story.frameStart[at]);
        if (kept < 0) continue;
        const value = story.historyValue[kept];
        if (frames.length > 1 && held.has(value)) continue; // a helper's argument is its caller's tile
        held.add(value);
        const tile = this.tile(name, trace.header.values[value]);
        if (tile) out.push(tile);
      }
    }
    return out;
  }

  /** A value's bytes on chip; a scalar counts where it is state. Pointers do not: a GPU recomputes addresses. */
  tile(name, value) {
    if (value.k === "p") return null;
    const number = value.k === "s" && (value.d === "float" || value.d === "int");
    const shape = number ? [] : value.s;
    if (!shape || (!shape.length && !this.lane.quantityOf.has(name))) return null;
    const dtype = number ? (value.d === "int" ? "i32" : "f32") : value.d;
    return { name, shape, dtype, bytes: product(shape) * itemBytes(dtype) };
  }

  render(k) {
    if (!this.surface.visible) return;
    const tiles = this.alive(k);
    const total = bytesOf(tiles);
    const { chip } = this.view;
    const room = chip ? chip.shared_bytes + chip.register_bytes : 0;
    const over = chip && total > room ? `${binary(total - room)} too much` : "";
    this.head("on-chip memory", "", `${binary(total)} in use${chip ? ` · ${chip.name}` : ""}`, over);
    this.shownTank = [tiles, total, room];
    this.paint();
    const holds = ({ top, bottom, x: left, width }, x, y) => y >= top && y <= bottom && x >= left && x <= left + width;
    this.at = (x, y) => this.tiles.find((part) => holds(part, x, y)) ?? null;
    const named = tiles.map((tile) => `${tile.name} ${binary(tile.bytes)}`);
    const used = [...named, ...(over ? [over] : [])].join(", ");
    this.canvas.setAttribute("aria-label", `On-chip memory, ${binary(total)} in use: ${used}`);
  }

  write() {
    if (this.surface.visible) this.listTiles(this.shownTank[0]);
  }

  colours(name) {
    const { palette, lane } = this;
    const quantity = lane.quantityOf.get(name) ?? (this.fromHbm.has(name) ? "hbm" : null);
    return quantity ? { fill: palette.quantity[quantity].fill, quantity } : { fill: palette.faint, quantity };
  }

  paint() {
    if (!this.shownTank || !this.surface.visible) return;
    const [tiles, total, room] = this.shownTank;
    const held = tiles.map((tile) => `${tile.name} ${tile.bytes}`).join();
    const { glowing, stamp } = this.lane;
    this.tiles = this.surface.draw([held, glowing, stamp], () => this.paintTank(tiles, total, room));
  }

  glow() {
    this.paint();
  }

  /** The tank at the chip's scale, and the filled part of it enlarged below. Returns the tiles' places. */
  paintTank(tiles, total, room) {
    const { palette, lane, surface, view } = this;
    const ctx = surface.clear();
    const size = palette.size * 0.84;
    const thick = size * 1.05, width = surface.width - 2;
    const text = { size: size * 0.94, font: palette.font, colour: palette.muted };
    let stackTop = 1;
    if (room) {
      const { shared_bytes: sharedBytes, register_bytes: registerBytes } = view.chip;
      const whole = Math.max(room, total), shared = (width * sharedBytes) / whole, end = (width * room) / whole;
      const named = (x, room, size, ...names) => {
        const texts = names.map((name) => `${name} ${binary(size)}`);
        const fits = texts.find((one) => widest(ctx, [one], text.size, text.font) <= room) ?? "";
        write(ctx, fits, x, text.size * 0.64, text);
      };
      named(1, shared - 6, sharedBytes, "shared memory", "shared", "");
      named(1 + shared + 5, end - shared - 6, registerBytes, "registers", "");
      const top = size * 1.35;
      ctx.fillStyle = palette.raised;
      ctx.fillRect(1, top, end, thick);
      let x = 1;
      for (const tile of tiles) {
        const long = (width * tile.bytes) / whole;
        ctx.fillStyle = this.colours(tile.name).fill;
        ctx.fillRect(x, top, long, thick);
        x += long;
      }
      ctx.strokeStyle = palette.muted;
      ctx.lineWidth = 1;
      ctx.strokeRect(1, top, shared, thick);
      ctx.strokeRect(1 + shared, top, end - shared, thick);
      if (total > room) {
        ctx.fillStyle = hatching(ctx, palette.text, 1);
        ctx.fillRect(1 + end, top, width - end, thick);
        ctx.strokeStyle = palette.css(palette.nan);
        ctx.lineWidth = 2;
        ctx.strokeRect(1 + end, top, width - end, thick);
      }
      stackTop = top + thick + size * 1.25;
      const filled = (width * total) / whole;
      ctx.strokeStyle = palette.faint;                     // from the filled part to the same part, enlarged
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(1, top + thick);
      ctx.lineTo(1, stackTop);
      ctx.moveTo(1 + filled, top + thick);
      ctx.lineTo(1 + (width * total) / this.most, stackTop);
      ctx.stroke();
    }
    const bottom = Math.max(stackTop + size * 1.5, surface.height - 2);
    let x = 1;
    return tiles.map((tile) => {
      const { fill } = this.colours(tile.name);
      const part = { ...tile, x, top: stackTop, bottom, width: (width * tile.bytes) / this.most };
      x += part.width;
      ctx.fillStyle = fill;
      ctx.fillRect(part.x, stackTop, Math.max(1, part.width - 1), bottom - stackTop);
      const style = { size: size * 1.1, weight: 650, align: "center", font: palette.font };
      if (widest(ctx, [tile.name], style.size * 1.1, style.font) <= part.width - 6) {
        const colour = palette.inkOn(palette.packed(fill));
        write(ctx, tile.name, part.x + part.width / 2, (stackTop + bottom) / 2, { ...style, colour });
      }
      if (lane.glowing !== null && stemOf(lane.glowing) === stemOf(tile.name)) {
        ctx.strokeStyle = palette.text;
        ctx.lineWidth = 2.5;
        ctx.strokeRect(part.x + 1.25, stackTop + 1.25, Math.max(1, part.width - 3.5), bottom - stackTop - 2.5);
      }
      return part;
    });
  }

  /** The tiles by name, the largest first; each item is made once. */
  listTiles(tiles) {
    const sorted = tiles.toSorted((a, b) => b.bytes - a.bytes);
    const shown = sorted.map(({ name, bytes: size }) => {
      let item = this.items.get(name);
      if (!item) {
        item = element("li");
        item.dataset.name = name;
        item.append(element("i"), element("b", "", name), " ", element("span"));
        const { quantity } = this.colours(name);
        if (quantity) item.querySelector("b").dataset.q = quantity;
        item.firstChild.style.background = quantity ? `var(--f-${quantity})` : "var(--faint)";
        this.items.set(name, item);
      }
      const said = binary(size);
      if (item.lastChild.textContent !== said) item.lastChild.textContent = said;
      return item;
    });
    const key = shown.map((item) => item.dataset.name).join();
    if (this.listed !== key) this.list.replaceChildren(...shown);
    this.listed = key;
  }

  nameAt(x, y) {
    return this.at?.(x, y)?.name ?? null;
  }

  clicked() {}

  told({ name, shape, dtype, bytes: size }) {
    return `${name}  ${shape.length ? `${times(shape)} ${dtype}` : dtype}\n${bytes(size)}, read by a later line`;
  }
}
