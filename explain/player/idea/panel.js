// Idea: the tiles of a beat on chip, the whole matrices in HBM below, what moves between them, and the followed row's
// numbers.

import { beatName, beatSentence, bufferSymbol } from "../beat_words.js";
import { bytes, exact, number, times } from "../numbers.js";
import { frameBuffer, paintBuffer } from "../panels/hbm.js";
import { Panel } from "../panels/panel.js";
import { PairsTree } from "../panels/pairs.js";
import { widest, write } from "../surface.js";
import { explainDrawn, termOf } from "../terms.js";
import { element } from "../words.js";
import { MOST_FIGURES, ROW_DIGITS, areRows, figureOf, figureSize, nameRows, paintTile, placeTiles, sides, symbolPlace,
  wordPlace } from "./chip.js";
import { drawContents, loadedContents, paintContents, writtenContents } from "./contents.js";
import { bufferSymbolPlace, hbmWords, nameBand, paintFigures, paintWays, placeBand, shorterFigures,
  wholeFigure } from "./memory.js";
import { Scenes } from "./scene.js";
import { paintWhole, placeWhole } from "./whole.js";

const HBM_SHARE = 0.3, HBM_SHARE_NARROW = 0.25;            // of the picture's height, at most
const LEAST_GRID_PX = 4;                                   // narrower tiles would be a veil of lines
const READ_OPACITY = 0.55;                                 // of what the beat reads, over the counts
const NARROW_EM = 40, TRAFFIC_EM = 8.5;                    // of the picture's width
const HBM_WORD_EM = 1.6, WORDS_LINE = 1.3;                 // beside the buffers; a line of words by their size

const ANEW = new Set(["drop", "load", "setup"]);           // m and ℓ under another name, or of other rows
const ROW_BEATS = new Set(["new_max", "exponentials", "rescale", "add", "merge", "keep", "normalise", "row_gradient",
  "weights_gradient", "scores_gradient"]);

const ease = (t) => t * t * (3 - 2 * t);
const mix = (a, b, t) => a + (b - a) * t;
const itemsOf = (columns) => columns.flatMap(({ main, above }) => (above ? [main, above] : [main]));

export class IdeaPanel extends Panel {
  constructor(lane) {
    super(lane, "idea");
    this.head("Idea", "");
    this.cells = document.createElement("canvas");
    this.scenes = new Scenes(lane);
    this.strip = this.root.querySelector(".beats");
    this.tree = lane.story.joins ? new PairsTree(lane.story, this.root.querySelector(".tree")) : null;
    this.says = this.root.querySelector(".says");
    this.numbers = this.root.querySelector(".numbers");
    this.terms = this.root.querySelector(".terms");
    this.strip.addEventListener("click", (event) => {
      const at = event.target.closest("button")?.dataset.at;
      if (at) lane.select({ step: Number(at) });
    });
  }

  get shown() {
    return this.story.beats.length > 0;
  }

  render(k) {
    const { lane, surface } = this;
    const { beat } = lane;
    this.beat = beat;
    if (!beat || !surface.visible) return;
    this.scene = this.scenes.of(beat, lane.hides ? k : beat.end - 1);
    if (lane.finished) this.scene.moves = [];
    const items = this.scene.columns.flatMap(({ main, above, state }) => [{ ...main, state },
      ...(above ? [above] : [])]);
    this.items = items.filter(({ whole }) => !whole);
    this.names = lane.rowLabels();
    if (!this.strip.hasChildNodes()) this.makeRoom();
    this.arrange();
    this.figures = this.figuresNow();
    this.paint();
    const { beside } = this, figures = beside?.placed && beside.figuresNow();
    if (figures && figures.look !== beside.figures.look) Object.assign(beside, { figures }).paint();
    this.at = (x, y) => this.under(x, y);
    this.canvas.setAttribute("aria-label", this.described());
  }

  /** Writes what takes room from the picture, so that it is drawn once, at the size that it keeps. */
  makeRoom() {
    this.writeStrip();
    this.writeNumbers();
    this.surface.measure();
  }

  // --- the picture ---

  /** The same panel of the run beside, while it shows something. */
  get beside() {
    const panel = this.lane.beside?.panels.get("idea");
    return panel?.items && panel.surface.visible ? panel : null;
  }

  /** Places the tiles as large as they fit; beside a run that has a tile of the same shape, both at one scale, that
   * tile at one height, and the whole S at one size. */
  arrange() {
    const { beside } = this;
    const same = (one, other) => one.role && one.role === other.role && !one.state && one.rows === other.rows
      && one.cols === other.cols;
    this.place({ square: Boolean(beside) });
    const shared = beside && this.items.find((one) => beside.items.some((other) => same(one, other)));
    if (!shared) return;
    const panels = [this, beside], least = (side) => Math.min(...panels.map(({ placed }) => placed.scale[side]));
    beside.place({ square: true });
    const u = least("u");
    for (const panel of panels) panel.place({ u, square: true });
    const wide = least("wide");
    for (const panel of panels) panel.place({ u, wide });
    const column = Math.min(...panels.map(({ whole }) => whole?.column ?? Infinity));
    for (const panel of panels) panel.place({ u, wide, column });
    const twins = panels.map(({ placed }) => placed.places.find(({ item }) => same(item, shared)));
    if (!twins.every(Boolean)) return;
    const tops = panels.map(({ placed }, i) => twins[i].y - placed.shift.y);
    const highest = Math.max(...tops), lowest = Math.min(...panels.map(({ placed }, i) => tops[i] + placed.free.y));
    if (highest > lowest) return;
    const y = Math.max(highest, Math.min(lowest, (twins[0].y + twins[1].y) / 2));
    panels.forEach((panel, i) => panel.place({ u, wide, column, shift: { x: panel.placed.shift.x, y: y - tops[i] } }));
  }

  place(limit) {
    const { surface: { ctx }, palette, scene, names } = this, { columns } = scene;
    const { narrow, inside } = this.area();
    // Where there is little room, the state is drawn as bars only: the followed row's numbers stand below.
    const hasRoom = ({ state, main }) => !state || main.rows > MOST_FIGURES;
    const drawn = narrow && !areRows(columns) ? columns.filter(hasRoom) : columns;
    this.placed = placeTiles(ctx, palette, drawn, inside, names, limit);
    const onChip = this.onChip(), free = palette.size;
    const head = { left: onChip.left + widest(ctx, [onChip.told], onChip.size, palette.font) + free,
      right: inside.x + inside.width, middle: onChip.middle };
    const values = itemsOf(columns).find(({ role }) => role === "values"), note = values && this.coordinates(values);
    this.whole = scene.whole && placeWhole(ctx, palette, this.placed.places, { shape: scene.whole, note }, head,
      limit.column);
  }

  /** The words above the tiles: {text: the term, told: with the bytes, left, middle, size}. */
  onChip() {
    const { palette, scene } = this, size = hbmWords(palette);
    const held = itemsOf(scene.columns).filter((item) => item.here);
    const total = held.reduce((sum, { rows, cols, itemBytes }) => sum + rows * cols * itemBytes, 0);
    return { text: "on chip", told: `on chip · ${bytes(total)}`, left: palette.size * 0.8,
      middle: Math.max(palette.size, size * 0.8), size };
  }

  get narrow() {
    return this.surface.width < this.palette.size * NARROW_EM;
  }

  /** The picture's parts: {narrow, band: of HBM, inside: the box of the tiles, bottom: of the chip}. */
  area() {
    const { surface: { width }, palette, narrow, beside } = this;
    const em = palette.size, pad = em * (narrow ? 0.4 : 0.8);
    const own = this.bandOf(), height = Math.min(this.surface.height, beside?.surface.height ?? Infinity);
    const band = beside ? { ...own, height: Math.max(own.height, beside.bandOf().height) } : own; // one floor for both
    const above = Math.max(em, palette.smallest) * 1.35;   // for the line “on chip”
    const told = narrow ? em * 1.5 : 0;                    // “HBM” and what was moved, in a line of its own
    const inside = { x: pad, y: pad * 0.4 + above, width: width - 2 * pad, height: height - band.height - told - above
      - pad * 1.5 };
    return { narrow, band, inside, bottom: inside.y + inside.height + pad };
  }

  /** The format and the size of the numbers, the same in both runs: {figure, size, look: both and the scale as a text}.
   */
  figuresNow() {
    const { surface: { ctx }, palette, beside } = this, panels = beside ? [this, beside] : [this];
    const items = panels.flatMap((panel) => panel.items);
    const written = (digits) => {
      const figure = figureOf(items, digits);
      const found = panels.filter(({ placed }) => placed)
        .map(({ placed }) => figureSize(ctx, palette, placed.places, figure));
      const size = Math.min(...found.map((one) => one.size).filter(Boolean), 1e3) % 1e3;
      return { figure, size, everywhere: found.every((one) => one.everywhere) };
    };
    const rows = areRows(this.placed.places.map(({ column }) => column));
    const ways = ROW_DIGITS.slice(0, rows ? undefined : 1).map(written);
    const { figure, size } = ways.find((way) => way.size && way.everywhere) ?? ways.find((way) => way.size) ?? ways[0];
    const { band, bottom } = this.area();
    const { scale, places: [{ x, y }] } = this.placed;
    return { figure, size, look: `${figure(1 / 3)} ${size} ${bottom} ${band.height} ${Object.values(scale)} ${x} ${y}` };
  }

  paint() {
    const { surface, palette, scene, lane } = this;
    if (!scene || !surface.visible) return;
    const em = palette.size;
    const ctx = surface.clear();
    const { narrow, band, bottom } = this.area();
    ctx.fillStyle = palette.raised;
    ctx.beginPath();
    ctx.roundRect(1, 1, surface.width - 2, bottom - 1, em * 0.6);
    ctx.fill();
    const quiet = { size: hbmWords(palette), font: palette.font, colour: palette.muted };
    const onChip = this.onChip();
    write(ctx, onChip.told, onChip.left, onChip.middle, quiet);
    const hbm = this.paintHbm(ctx, quiet, band, bottom, narrow);
    const { row, rows } = lane.at, [first] = this.placed.places;
    const followed = rows > 1 && first.item.here && first.item.rows === rows;
    nameRows(ctx, palette, this.placed, { selected: row, own: followed ? this.names?.[row] ?? "" : "" });
    if (this.whole) this.paintWhole(ctx);
    const t = ease(lane.phase);
    for (const place of this.placed.places) this.paintItem(ctx, place, t);
    this.markRow(ctx);
    this.markDifferences(ctx);
    this.words = [onChip, ...this.wordsOnChip(ctx), ...hbm];
  }

  /** The whole S, which is never in memory, and the tile of it that exists. */
  paintWhole(ctx) {
    const { scene: { columns, beat, k }, story, whole, palette } = this;
    const { rows, cols, here } = itemsOf(columns).find(({ role }) => role === "scores");
    const at = beat.tile < 0 ? null : story.tile(k);
    paintWhole(ctx, palette, whole, at && { top: at.rows[0] / rows, left: at.cols[0] / cols, here });
  }

  /** The symbols above the tiles, and the words in them. */
  wordsOnChip(ctx) {
    const { palette, placed: { places } } = this;
    return places.flatMap((place) => {
      const { item } = place, word = wordPlace(ctx, palette, place);
      const symbol = { text: item.symbol, weight: 650, ...symbolPlace(ctx, palette, place) };
      return [symbol, ...(word ? [word] : [])].map((one) => ({ ...one, name: item.variable }));
    });
  }

  paintItem(ctx, place, t) {
    const { item } = place;
    const { old, now } = item;
    const move = this.ways.find((way) => !way.store && way.place === place);
    const born = item.set >= this.beat.begin && now;
    const gone = !item.here && now && this.beat.kind === "drop";
    const opacity = item.here ? (born && !old?.length && !move ? t : 1) : gone ? 1 - t : 0;
    const moving = t < 1 && old?.length === now?.length && born && !move;
    const data = moving ? Array.from(now, (x, i) => (Number.isFinite(x) && Number.isFinite(old[i]) ? mix(old[i], x, t)
      : x)) : now;
    const from = move && t < 1 ? move.box : null;
    const part = (side) => (from ? mix(from[side], place[side], t) : place[side]);
    const at = { ...place, x: part("x"), y: part("y"), width: part("width"), height: part("height") };
    if (from) paintTile(ctx, this.palette, this.cells, place, { data: null, opacity: 0 });
    paintTile(ctx, this.palette, this.cells, at, { data: opacity > 0 ? data : null, opacity, ...this.figures,
      note: this.coordinates(item), old: this.before(item) });
  }

  /** “keys 16–31”, for K and V; “columns 16–31”, for a loss's W. */
  coordinates({ role, here }) {
    if (!here || !["keys", "values"].includes(role)) return "";
    const cols = this.story.role("cols", this.scene.k)?.data;
    return cols?.length ? `${this.view.axes?.[1] ?? "keys"} ${cols[0]}–${Math.min(cols[cols.length - 1], (this.view.score_shape?.[1] ?? 1e9) - 1)}`
      : "";
  }

  /** The buffers of the launch in their band. */
  bandOf() {
    const { surface, palette, lane, narrow, scenes, scene: { launch, hbm } } = this, { width, height } = surface;
    return surface.remember(`band ${launch}`, `${lane.stamp} ${width} ${height}`, () => {
      const x = palette.size * (narrow ? 0.8 : TRAFFIC_EM);
      const band = placeBand(surface.ctx, palette, hbm.buffers, { x, width: width - x - palette.size,
        height: height * (narrow ? HBM_SHARE_NARROW : HBM_SHARE) }, lane.view, scenes.order(launch));
      const words = palette.size * HBM_WORD_EM + hbmWords(palette) * (2 * WORDS_LINE + 0.5); // “HBM”, read, written
      return { ...band, height: narrow ? band.height : Math.max(band.height, words) };
    });
  }

  /** HBM with its top at y, what the beat moves marked, and the ways of the moves. Returns where its words stand. */
  paintHbm(ctx, quiet, band, y, narrow) {
    const { palette, scene, surface } = this;
    const { hbm, k, moves } = scene;
    const em = palette.size;
    const told = this.traffic(), left = em * 0.8, middle = y + (narrow ? band.height + em : em * HBM_WORD_EM);
    const changes = { ...quiet, weight: 650, colour: palette.quantity.hbm.ink };
    write(ctx, "HBM", left, middle, changes);
    const look = [false, true].map((stored) => (moves.some(({ store }) => store === stored) ? changes : quiet));
    const after = left + widest(ctx, ["HBM "], quiet.size * 1.08, palette.font); // programs ask for more than HBM moves
    write(ctx, narrow ? "requested:" : "requested", after, middle, quiet);
    const start = after + widest(ctx, ["requested: "], quiet.size, palette.font);
    const aside = widest(ctx, [`${told[0]}, `], quiet.size * 1.08, palette.font);
    told.forEach((text, i) => {
      if (narrow) write(ctx, text, start + i * aside, middle, look[i]);
      else write(ctx, text, left, middle + quiet.size * WORDS_LINE * (i + 1), look[i]);
    });
    hbm.advance(k, palette);
    const places = band.places.map((place) => ({ ...place, top: place.top + y }));
    for (const { buffer } of places) Object.assign(buffer, { touched: null, stored: false });
    const boxes = moves.map((move) => ({ ...move, cells: this.cellsOf(move) })).filter(({ cells }) => cells);
    for (const { buffer, cells, store } of boxes) {
      Object.assign(places[buffer].buffer, { touched: cells, stored: store });
    }
    for (const place of places) {
      this.paintInside(ctx, place, boxes.some(({ buffer, store }) => places[buffer] === place && !store));
      this.paintGrid(ctx, place);
    }
    nameBand(ctx, palette, band, y);
    const boxOf = ({ buffer, cells }) => {
      const { x, top, cell, wide } = places[buffer];
      return { x: x + cells.left * wide, y: top + cells.top * cell, width: (cells.right - cells.left + 1) * wide,
        height: (cells.bottom - cells.top + 1) * cell };
    };
    this.ways = boxes.map((move) => ({ store: move.store, box: boxOf(move),
      place: this.placed.places.find(({ item }) => item.variable === move.name) }));
    paintWays(ctx, palette, this.ways.filter(({ place }) => place), { along: y + em * 0.75, right: surface.width },
      this.placed.places, places);
    const symbols = places.map((place) => ({ text: place.symbol, name: place.buffer.name, weight: 650,
      ...bufferSymbolPlace(ctx, palette, place) }));
    return [{ text: "HBM", left, middle, size: quiet.size, weight: 650 }, ...symbols];
  }

  /** A buffer's numbers, as far as the launch shows them; else how often each element was read. */
  paintInside(ctx, place, isRead) {
    const { palette, surface, lane, scene: { launch, hbm }, story } = this;
    const { buffer } = place, { touched } = buffer;
    this.contents ??= new Map();
    if (!this.contents.has(launch)) {
      const of = { story, scenes: this.scenes, buffers: hbm.buffers, launch };
      this.contents.set(launch, { loaded: loadedContents(of), written: writtenContents(of) });
    }
    const { loaded, written } = this.contents.get(launch);
    if (written.has(buffer)) return this.paintWritten(ctx, place, written.get(buffer));
    const held = loaded.get(buffer);
    if (!held) return this.paintReads(ctx, place, isRead && touched);
    const { image, words, shorter } = surface.remember(`contents ${launch} ${buffer.name}`, lane.stamp, () => {
      const { shade, ramp, diverging, largest } = this.scenes.lookOf(held);
      const colourOf = (x) => palette.pixel(shade(x), palette[ramp], largest, diverging);
      return { shorter: shorterFigures(held.values), ...drawContents(buffer, held, colourOf) };
    });
    const full = isRead ? touched : null;
    paintContents(ctx, palette, place, image, full);
    const isFull = (cell) => {
      const col = cell % buffer.width, row = Math.floor(cell / buffer.width);
      return full && row >= full.top && row <= full.bottom && col >= full.left && col <= full.right;
    };
    paintFigures(ctx, palette, place, { ...held, words, figure: this.figures.figure, shorter }, isFull);
    frameBuffer(ctx, palette, place);
  }

  /** How often each element was read, and what the beat reads. */
  paintReads(ctx, place, touched) {
    const { palette } = this;
    paintBuffer(ctx, palette, place);
    if (!touched) return;
    const { x, top, cell, wide } = place, { left, right, top: first, bottom } = touched;
    ctx.fillStyle = palette.quantity.hbm.fill;
    ctx.globalAlpha = READ_OPACITY;
    ctx.fillRect(x + left * wide, top + first * cell, (right - left + 1) * wide, (bottom - first + 1) * cell);
    ctx.globalAlpha = 1;
    frameBuffer(ctx, palette, place);
  }

  /** The numbers that are written so far; a frame is around what the beat writes. */
  paintWritten(ctx, place, written) {
    const { palette, surface, lane, scene: { launch, k } } = this;
    const { buffer, x, top, cell, wide } = place, { width, height } = buffer;
    const look = surface.remember(`written ${launch} ${buffer.name}`, lane.stamp, () => ({
      ...this.scenes.lookOf(written), shorter: shorterFigures(written.values),
      ...(written.whole ? { largest: Infinity, figure: wholeFigure, shorter: [] } : {}), // a column has no shade
    }));
    const colourOf = (value) => palette.pixel(look.shade(value), palette[look.ramp], look.largest, look.diverging);
    const held = written.upTo(k), { image, words } = drawContents(buffer, held, colourOf);
    ctx.fillStyle = palette.css(palette.reads[0]);
    ctx.fillRect(x, top, width * wide, height * cell);
    ctx.imageSmoothingEnabled = cell < 1;
    ctx.drawImage(image, x, top, width * wide, height * cell);
    const { figure, shorter } = { ...this.figures, ...look };
    paintFigures(ctx, palette, place, { ...held, words, figure, shorter }, () => true);
    frameBuffer(ctx, palette, place, false, palette.quantity.hbm.fill);
  }

  /** The tiles of a buffer as a grid, by the largest part that one access of the launch touches. */
  paintGrid(ctx, { buffer, x, top, cell, wide }) {
    const { palette } = this;
    const tile = this.tileOf(buffer);
    if (!tile) return;
    ctx.strokeStyle = palette.muted;
    ctx.lineWidth = 0.75;
    ctx.beginPath();
    const fits = (side) => side >= LEAST_GRID_PX;
    for (let row = tile.rows; fits(tile.rows * cell) && row < buffer.height; row += tile.rows) {
      ctx.moveTo(x, top + row * cell);
      ctx.lineTo(x + buffer.width * wide, top + row * cell);
    }
    for (let col = tile.cols; fits(tile.cols * wide) && col < buffer.width; col += tile.cols) {
      ctx.moveTo(x + col * wide, top);
      ctx.lineTo(x + col * wide, top + buffer.height * cell);
    }
    ctx.stroke();
  }

  tileOf(buffer) {
    const { hbm, launch, program } = this.scene;
    if (buffer.tile === undefined && buffer.drawn) {
      const all = this.scenes.accesses(program.first, program.end)
        .filter((move) => hbm.buffers[move.buffer] === buffer);
      const boxes = all.map((move) => this.cellsOf(move)).filter(Boolean);
      const most = (low, high) => Math.max(0, ...boxes.map((box) => box[high] - box[low] + 1));
      buffer.tile = boxes.length ? { rows: most("top", "bottom"), cols: most("left", "right"), launch } : null;
    }
    return buffer.tile;
  }

  /** The cells of its buffer that a move touches: {top, bottom, left, right}; null for none. */
  cellsOf({ step, buffer: wanted }) {
    const { hbm } = this.scene;
    let box = null;
    hbm.touch(step, (buffer, cell) => {
      if (buffer !== hbm.buffers[wanted]) return;
      const col = cell % buffer.width, row = (cell - col) / buffer.width;
      box ??= { top: row, bottom: row, left: col, right: col };
      box = { top: Math.min(box.top, row), bottom: Math.max(box.bottom, row), left: Math.min(box.left, col),
        right: Math.max(box.right, col) };
    });
    return box;
  }

  /** “12,288 B read” and “0 B written”: the run's traffic so far. */
  traffic() {
    const moved = this.story.traffic(this.scene.k);
    return ["read", "written"].map((way, i) => `${bytes(moved[i])} ${way}`);
  }

  markRow(ctx) {
    const { row, rows } = this.lane.at;
    if (rows < 2) return;
    const counts = ROW_BEATS.has(this.beat.kind);          // in the others the whole tile does
    ctx.strokeStyle = counts ? this.palette.text : this.palette.muted;
    ctx.lineWidth = counts ? 1.5 : 0.75;
    for (const { item, x, y, width, u, column } of this.placed.places) {
      if (item !== column.main || item.rows !== rows || item.ofKeys || !item.here) continue;
      ctx.strokeRect(x - 1.5, y + row * u - 0.5, width + 3, u + 1);
    }
  }

  /** A frame and a ≠ at what differs from the other run. */
  markDifferences(ctx) {
    const { palette, lane: { marks } } = this;
    ctx.strokeStyle = palette.alarm;
    ctx.lineWidth = 2;
    for (const { item, x, y, width, height } of marks ? this.placed.places : []) {
      if (!item.here || !marks.roles.has(item.role)) continue;
      ctx.strokeRect(x - 2, y - 2, width + 4, height + 4);
      const size = Math.max(palette.size, palette.smallest), middle = { x: x + width / 2, y: y + height + 2 };
      ctx.fillStyle = palette.raised;                      // on the frame, where no word stands
      ctx.fillRect(middle.x - size * 0.5, middle.y - size * 0.45, size, size * 0.9);
      write(ctx, "≠", middle.x, middle.y, { size, weight: 700, font: palette.font, align: "center",
        colour: palette.alarm });
    }
  }

  // --- in words ---

  write() {
    const { story, lane, beat, scene } = this;
    if (!beat || !scene || !this.surface.visible) return;
    const text = lane.finished ? "Finished: the other run goes on."
      : lane.hides ? lane.sentence() : beatSentence(story, beat, lane.at.row);
    if (this.says.textContent !== text) this.says.textContent = text;
    this.writeStrip();
    this.tree?.show(scene.k);
    this.root.classList.toggle("merges", scene.columns.some(({ main }) => main.role === "other_max"));
    this.writeNumbers();
    this.writeTerms();
  }

  /** What the picture's words mean. */
  writeTerms() {
    const { words, lane, terms } = this;
    const key = words.map(({ text, left, middle, size }) => [text, left, middle, size]).join();
    if (terms.dataset.key === key) return;
    terms.dataset.key = key;
    const explained = words.map((word) => ({ ...word, definition: lane.meaning(word.text, word.name) }));
    explainDrawn(terms, explained.filter(({ definition }) => definition));
  }

  /** The beats of this tile, or of the stretch between tiles, the current one marked. */
  writeStrip() {
    const { story, beat, strip, lane } = this;
    const own = story.beats.filter(({ program, tile }) => program === beat.program && tile === beat.tile);
    const here = beat.tile < 0 ? own.slice(...this.stretch(own, beat)) : own;
    const key = `${here[0].begin} ${here.length}`;
    if (strip.dataset.key !== key) {
      strip.dataset.key = key;
      const title = element("li", "place", this.placeName(beat));
      strip.replaceChildren(title, ...here.map((one) => {
        const item = element("li"), button = element("button");
        button.append(element("span", "", beatName(story, one)));
        button.type = "button";
        button.dataset.at = one.at;
        button.dataset.kind = one.kind;
        button.setAttribute("aria-label", beatName(story, one));
        item.append(button);
        return item;
      }));
    }
    strip.querySelectorAll("button").forEach((button, i) => {
      if (here[i].begin === beat.begin) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    strip.classList.toggle("waits", Boolean(lane.waits));
  }

  /** The part of a program's beats outside its tiles that is one stretch. */
  stretch(own, beat) {
    let from = own.indexOf(beat), to = from + 1;
    while (from > 0 && own[from - 1].end === own[from].begin) from--;
    while (to < own.length && own[to].begin === own[to - 1].end) to++;
    return [from, to];
  }

  placeName({ program, tile, begin }) {
    const { story } = this;
    const visit = story.visit(begin);
    if (visit) return story.placeOf(visit).replace(/^./, (letter) => letter.toUpperCase());
    const most = story.beats.findLast((beat) => beat.program === program && beat.tile >= 0)?.tile + 1;
    if (tile >= 0) return `Merge ${tile + 1} of ${most}`;
    const first = story.beats.find((beat) => beat.program === program && beat.tile >= 0);
    if (!first) return `Program ${story.programs[program].id[0]}`;
    if (begin < first.begin) return "Before";
    return story.beats.some((beat) => beat.program === program && beat.tile >= 0 && beat.begin > begin) ? "Between"
      : "After";
  }

  /** The followed row's m, α and ℓ, and what this beat makes of them. */
  writeNumbers() {
    const { lane, numbers, scene } = this;
    const { row, rows } = lane.at;
    const of = (data) => (data?.length === rows ? data[row] : data?.length === 1 ? data[0] : undefined);
    const states = scene.columns.filter(({ state }) => state).map(({ main }) => main);
    const lines = states.map((item) => {
      const now = item.here ? of(item.now) : undefined, old = of(this.before(item));
      const changed = old !== undefined && !Object.is(old, now) && Number.isFinite(old);
      return { item, text: now === undefined ? "–" : number(now), old: changed ? `${number(old)} → ` : "" };
    });
    const name = rows > 1 || this.view.row_labels ? lane.label("row", row) : "";
    const key = [name, ...lines.map(({ item, text, old }) => `${item.symbol}${old}${text}`)].join("|");
    if (numbers.dataset.key === key) return;
    numbers.dataset.key = key;
    const nodes = lines.flatMap(({ item, text, old }) => {
      const [own, word, term, value] = [element("div"), element("dt", "word"), element("dt"), element("dd")];
      const meaning = lane.meaning(item.symbol, item.variable);
      word.append(termOf(item.word, meaning));
      term.append(termOf(item.symbol, meaning));
      term.dataset.q = value.dataset.q = item.quantity;
      value.append(element("small", "", old), element("b", "", text));
      own.append(word, term, value);
      return [own];
    });
    numbers.replaceChildren(...(name && nodes.length ? [element("dt", "of", name)] : []), ...nodes);
  }

  /** What a column of state held before this beat: its sum or maximum, whichever variable had it. */
  before({ role, set }) {
    const { scene, story } = this;
    if (ANEW.has(scene.beat.kind)) return undefined;
    const running = { new_max: "running_max", new_sum: "running_sum" }[role] ?? role;
    const k = scene.beat.begin - 1;
    const changed = set >= scene.beat.begin && k >= scene.program.first && running?.startsWith("running");
    return changed ? story.role(running, k)?.data : undefined;
  }

  described() {
    const { scene } = this;
    const said = itemsOf(scene.columns).filter((item) => item.here)
      .map(({ symbol, rows, cols }) => `${symbol} ${rows} by ${cols}`);
    const moved = scene.moves.map(({ buffer, store }) => `${bufferSymbol(scene.hbm.buffers[buffer].name, this.lane.view)} ${store
      ? "written" : "loaded"}`);
    return `On chip: ${said.join(", ") || "nothing"}. HBM: ${moved.join(", ") || "no access"}.`;
  }

  /** A beat is drawn as a movement wherever it is on screen. */
  moves() {
    return this.surface.visible;
  }

  // --- under the pointer ---

  under(x, y) {
    for (const { item, x: left, y: top, width, height, column } of this.placed?.places ?? []) {
      if (!item.here || x < left || x > left + width || y < top || y > top + height) continue;
      const [high, wide] = sides(item);
      const down = Math.min(high - 1, Math.floor(((y - top) / height) * high));
      const across = Math.min(wide - 1, Math.floor(((x - left) / width) * wide));
      const [r, c] = item.turned ? [across, down] : [down, across];
      return { item, r, c, row: item === column.main && item.rows === this.lane.at.rows ? r : this.lane.at.row };
    }
    return null;
  }

  nameAt(x, y) {
    return this.at?.(x, y)?.item.variable ?? null;
  }

  glow() {}

  told({ item, r, c }) {
    const index = item.cols > 1 ? `[${r}, ${c}]` : item.rows > 1 ? `[${r}]` : "";
    const { now, rows, cols, dtype, symbol } = item;
    return `${symbol}${index} = ${exact(now[r * cols + c], dtype)}\n${times([rows, cols])} ${dtype}, ${bytes(
      rows * cols * item.itemBytes)}`;
  }
}
