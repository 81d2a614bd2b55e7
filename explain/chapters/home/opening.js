// The opening: the scenes on one timeline. What is on screen follows from `time` and the chosen N alone. Nothing runs
// while it is paused, out of sight or behind another tab.

import { Palette, themeOf } from "../../player/palette.js";
import { Surface } from "../../player/surface.js";
import { explain, explainDrawn } from "../../player/terms.js";
import { layoutOf } from "./layouts.js";
import { Pen } from "./pen.js";
import { SCENES, STILLS } from "./scenes.js";

const HELD = 1e-3;                                         // seconds before a scene's end, where it is held
const NUDGE = 1;                                           // seconds that an arrow moves the time's slider by
const IN_SIGHT = 0.3;                                      // of the stage
const AT_N = new Set(["scale", "trips"]);                  // the scenes with N on a slider
const WITHOUT_LINE = new Set(["sentence"]);                // the scenes that no line of a kernel does
const WITH_BYTES = new Set(["trips", "bills"]);            // the scenes that count bytes of loads
const USES_ARROWS = "input, textarea, select, [contenteditable], [role=slider], [role=radiogroup], [role=dialog]";
const TAKES_LETTERS = "input:not([type=range]), textarea, select, [contenteditable]";
const USES_SPACE = `${USES_ARROWS}, a, button, summary, .term, [role=button]`;
// One opening per mount; Streamlit calls again with new data or theme.
const OPENINGS = new WeakMap();
// Under it the tab remembers the time at which a line was followed, for the way back.
const LEFT_AT = "tilescope opening";

/** The packet as the scenes read it: matrices by row, and what belongs to a tile, a program, the followed row. */
class Story {
  constructor(packet) {
    Object.assign(this, packet, { block: packet.block, chosen: null });
    this.rows = packet.tokens.length;
    const values = Object.entries(packet.arrays).map(([name, text]) => [name, floats(text)]);
    this.arrays = Object.fromEntries(values);
    [this.programs, this.tiles] = packet.block.map((side) => Math.ceil(this.rows / side));
    const { alpha, s, acc, l } = this.arrays, [block_m, block_n] = packet.block, { dims, row } = this;
    this.moves = [...Array(this.tiles).keys()].find((j) => j > 0 && alpha[j * this.rows + row] < 1);
    const scores = s.subarray(row * this.rows, (row + 1) * this.rows);
    const room = (Math.max(...scores) - Math.min(...scores)) * 0.04;
    [this.low, this.high] = [Math.min(...scores) - room, Math.max(...scores) + room];
    const ofRow = [...Array(this.tiles).keys()].map((j) => j * this.rows + row);
    this.longest = 1.05 * Math.max(...ofRow.map((i) => l[i]));
    this.largest = Math.max(...ofRow.flatMap((i) => [...acc.subarray(i * dims, (i + 1) * dims)].map(Math.abs)));
    const shapes = { q: [block_m, dims], s: [block_m, block_n], o: [block_m, dims] };
    this.tileShape = Object.fromEntries(Object.entries(shapes).map(([name, sides]) => [name, sides.join(" × ")]));
    this.starts = packet.scenes.map((_, i) => packet.scenes.slice(0, i).reduce((sum, { seconds }) => sum + seconds, 0));
    this.seconds = this.starts.at(-1) + packet.scenes.at(-1).seconds;
  }

  ownRows(program) {
    return [program * this.block[0], Math.min(this.rows, (program + 1) * this.block[0])];
  }

  keysOf(tile) {
    return [tile * this.block[1], Math.min(this.rows, (tile + 1) * this.block[1])];
  }

  /** The followed row's scores in a tile. */
  rowScores(tile) {
    const [first, end] = this.keysOf(tile), at = this.row * this.rows;
    return this.arrays.s.subarray(at + first, at + end);
  }

  /** The followed row after a tile; before the first one m is null. */
  state(tile) {
    const { dims } = this, { m, l, alpha, added, acc } = this.arrays, at = tile * this.rows + this.row;
    if (tile < 0) return { m: null, l: 0, alpha: 0, added: 0, acc: new Float32Array(dims) };
    return { m: m[at], l: l[at], alpha: alpha[at], added: added[at], acc: acc.subarray(at * dims, (at + 1) * dims) };
  }

  /** The scene at a time: its number and how much of it has passed, 0 to 1. */
  at(time) {
    const scene = Math.max(0, this.starts.findLastIndex((start) => start <= time));
    return [scene, Math.min(1, (time - this.starts[scene]) / this.scenes[scene].seconds)];
  }

  /** The moment at which a scene is held: its end, or where its sentence is still to be seen. */
  heldAt(scene) {
    const { name, seconds } = this.scenes[scene];
    return this.starts[scene] + seconds * stillAt(name) - HELD;
  }
}

/** How much of a scene has passed in its still. */
const stillAt = (name) => STILLS[name] ?? 1;

/** 82 seconds are 1:22. */
const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/** Little-endian float32 in base64. */
function floats(text) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

/** Every matrix as a picture with a pixel an element, in the theme's colours. */
function picturesOf({ arrays, rows, dims, tiles, row, block }, palette) {
  const input = (x, most) => palette.pixel(x, palette.inputs, most);
  const scored = (x, most) => palette.pixel(x, palette.scores, most);
  const output = (x, most) => palette.pixel(x, palette.output, most);
  const made = { q: [arrays.q, dims, input], k: [arrays.k, dims, input], v: [arrays.v, dims, input] };
  Object.assign(made, { s: [arrays.s, rows, scored], o: [arrays.o, dims, output] });
  const transposed = Float32Array.from(arrays.k, (_, i) => arrays.k[(i % rows) * dims + Math.floor(i / rows)]);
  made.kt = [transposed, rows, input];
  const first = Math.floor(row / block[0]) * block[0], most = largestOf(arrays.acc);
  for (let j = -1; j < tiles; j++) {
    const from = (j * rows + first) * dims;
    const part = j < 0 ? new Float32Array(block[0] * dims) : arrays.acc.subarray(from, from + block[0] * dims);
    made[`acc${j}`] = [part, dims, (x) => output(x, most)];
  }
  return Object.fromEntries(Object.entries(made).map(([name, parts]) => [name, picture(...parts)]));
}

const largestOf = (data) => data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

function picture(data, columns, colour) {
  const canvas = Object.assign(document.createElement("canvas"), { width: columns, height: data.length / columns });
  const most = largestOf(data) || 1;
  const pixels = Int32Array.from(data, (x) => colour(x, most));
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), columns), 0, 0);
  return canvas;
}

class Opening {
  constructor(root) {
    this.$ = (selector) => root.querySelector(selector);
    this.section = this.$(".opening");
    this.surface = new Surface(this.$(".stage canvas"));
    this.stills = [];
    this.abort = new AbortController();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.playing = this.inSight = false;
    this.observer = new ResizeObserver(() => this.draw());
    const look = ([{ intersectionRatio }]) => this.seen(intersectionRatio >= IN_SIGHT);
    this.watcher = new IntersectionObserver(look, { threshold: IN_SIGHT });
    this.listen();
  }

  on(target, type, handler) {
    target.addEventListener(type, handler, { signal: this.abort.signal });
  }

  // --- loading ---

  update({ data: { packet } }) {
    if (this.data !== packet) this.load(packet);
    this.retheme();
  }

  load(data) {
    this.data = data;
    this.story = new Story(JSON.parse(data));
    const { scenes, seconds, starts, sizes } = this.story;
    const left = sessionStorage.getItem(LEFT_AT);
    sessionStorage.removeItem(LEFT_AT);
    this.time = Math.min(Number(left), seconds - HELD);
    this.wanted = left === null;                           // whether it plays when it is in sight
    this.$(".time").max = seconds;
    this.$(".size input").max = sizes.length - 1;
    const mark = (start) => Object.assign(document.createElement("i"), { style: `left: ${(100 * start) / seconds}%` });
    this.$(".marks").replaceChildren(...starts.slice(1).map(mark));
    this.$(".stills").replaceChildren(...scenes.map((scene) => this.stillOf(scene)));
    this.section.dataset.scenes = scenes.length;
    this.section.dataset.seconds = seconds;
    this.settle();
    this.observer.observe(this.$(".stage"));
    this.observer.observe(this.$(".stills"));
    this.watcher.observe(this.section);
  }

  /** One scene at its end, with its sentence and its line. */
  stillOf(scene) {
    const item = document.createElement("li");
    const [said, stage, terms] = [["p", "sentence"], ["div", "stage"], ["div", "terms"]].map(([name, className]) =>
      Object.assign(document.createElement(name), { className }),
    );
    explain(said, scene.sentence, this.story.terms);
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    const link = this.$(".code").cloneNode(true);
    this.lead(link, scene);
    stage.append(canvas, terms);
    item.append(said, stage, link);
    return item;
  }

  lead(link, scene) {
    link.href = `./${scene.link}`;
  }

  /** Shows the strip of stills to who wants no motion, else the stage. */
  settle() {
    const still = this.still.matches;
    this.section.classList.toggle("still", still);
    this.$(".stills").hidden = !still;
    const canvases = still ? [...this.section.querySelectorAll(".stills canvas")] : [];
    this.stills = canvases.map((canvas) => new Surface(canvas));
    if (still) this.pause();
    else this.seen(this.inSight);
    this.draw();
  }

  retheme() {
    const css = getComputedStyle(this.section), theme = (this.section.dataset.theme = themeOf(this.section));
    const look = [theme, css.fontFamily].join();
    if (look === this.look) return;
    this.look = look;
    this.palette = new Palette(this.section);
    this.pictures = picturesOf(this.story, this.palette);
    this.draw();
  }

  // --- time ---

  get scene() {
    return this.story.at(this.time)[0];
  }

  play() {
    if (this.still.matches) return;
    if (this.time >= this.story.seconds - 2 * HELD) this.time = 0;
    Object.assign(this, { wanted: true, playing: this.inSight && !document.hidden, last: null });
    if (this.playing) requestAnimationFrame((now) => this.frame(now));
    this.draw();
  }

  pause() {
    this.playing = this.wanted = false;
    this.draw();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Comes into sight or leaves it: what does not show does not run. */
  seen(inSight) {
    this.inSight = inSight;
    if (inSight && this.wanted && !this.playing) this.play();
    if (!inSight) this.playing = false;
  }

  frame(now) {
    if (!this.playing || this.abort.signal.aborted) return;
    if (!this.last) performance.mark("opening moves");
    this.time += Math.min(0.1, (now - (this.last ?? now)) / 1000);
    this.last = now;
    if (this.time >= this.story.seconds - HELD) {
      this.time = this.story.seconds - HELD;
      return this.pause();
    }
    this.draw();
    return requestAnimationFrame((next) => this.frame(next));
  }

  /** A moment to look at: nothing moves. */
  show(time) {
    this.time = Math.max(0, Math.min(this.story.seconds - HELD, time));
    this.pause();
  }

  /** → and ← go to the scene after or before. While it plays, it plays on from that scene's beginning; paused, it stays
   * paused and shows that scene's still. */
  step(by) {
    const { story, scene, playing } = this, to = Math.max(0, Math.min(story.scenes.length - 1, scene + by));
    if (!playing) return this.show(story.heldAt(to));
    if (to === scene && by > 0) return undefined;          // the last scene plays to its end
    this.time = story.starts[to];
    return this.draw();
  }

  // --- drawing ---

  draw() {
    if (!this.palette) return;
    const { scenes } = this.story;
    if (this.still.matches) this.stills.forEach((surface, i) => this.paint(surface, i, stillAt(scenes[i].name)));
    else this.drawMoment();
  }

  drawMoment() {
    const { story, playing } = this, [scene, passed] = story.at(this.time);
    const { name, sentence } = story.scenes[scene];
    if (scene !== this.drawn) {
      this.drawn = scene;
      if (!AT_N.has(name)) story.chosen = null;
      explain(this.$(".sentence"), sentence, story.terms);
      this.lead(this.$(".code"), story.scenes[scene]);
      this.$(".code").style.visibility = WITHOUT_LINE.has(name) ? "hidden" : "";
      this.$(".bytes").hidden = !WITH_BYTES.has(name);
    }
    const [now, whole] = [this.time, story.seconds].map(clock);
    this.$(".place").textContent = `${now} of ${whole}`;
    const painted = this.paint(this.surface, scene, passed);
    if (painted) this.tellSource(painted.computed);
    this.$(".sentence").ariaLive = playing ? "off" : "polite";
    this.$(".play").textContent = playing ? "Pause" : this.time < story.seconds - 2 * HELD ? "Play" : "Play again";
    const time = this.$(".time");
    time.value = this.time;
    time.ariaValueText = `Scene ${scene + 1} of ${story.scenes.length}, ${Math.round(this.time)} of ${story.seconds} seconds: ${sentence}`;
    this.drawSlider(name);
    Object.assign(this.section.dataset, { scene: name, time: this.time.toFixed(2), playing });
  }

  /** Where the numbers of the picture come from. */
  tellSource(computed) {
    if (computed === this.told) return;
    const { formats, rows } = this.story;
    this.told = computed;
    this.$(".source span").textContent = computed
      ? `Computed from the kernels’ formulas in ${formats.computed}. The recorded run has ${rows} tokens.`
      : `Recorded from the real kernel, in ${formats.recorded}.`;
  }

  /** Draws a scene; the words in the picture are its name. Returns the pen that drew it; null where nothing shows. */
  paint(surface, scene, passed) {
    surface.measure();
    if (!surface.visible || !surface.width) return null;
    const layout = layoutOf(surface), ctx = surface.clear();
    const unit = Math.min(surface.width / layout.width, surface.height / layout.height);
    this.unit = unit;
    this.left = (surface.width - layout.width * unit) / 2;
    ctx.translate(this.left, 0);
    ctx.scale(unit, unit);
    const pen = new Pen(ctx, this.palette, this.pictures, layout, this.story.terms);
    SCENES[this.story.scenes[scene].name](pen, this.story, passed);
    surface.canvas.setAttribute("aria-label", pen.said.join(" · "));
    explainDrawn(surface.canvas.nextElementSibling, pen.terms.map(({ text, x, y, size, weight }) => ({ text, weight,
      definition: this.story.terms[text], left: this.left + x * unit, middle: y * unit, size: size * unit })));
    return pen;
  }

  drawSlider(name) {
    const slider = this.$(".size"), { story, unit } = this;
    slider.hidden = !AT_N.has(name);
    if (slider.hidden) return;
    const at = layoutOf(this.surface).slider;
    const place = { left: this.left + at.x * unit, top: at.y * unit, width: at.w * unit, height: at.h * unit };
    for (const [side, size] of Object.entries(place)) slider.style[side] = `${size}px`;
    const chosen = story.shown ?? 0, { n } = story.sizes[chosen];
    slider.querySelector("input").value = chosen;
    slider.querySelector("input").ariaValueText = `${n} tokens`;
    slider.querySelector("span").textContent = `N = ${n}`;
  }

  /** Fills the screen, or leaves it. */
  fill() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.section.requestFullscreen().catch(() => {});  // not allowed: it stays in the page
  }

  // --- input ---

  listen() {
    const press = (selector, act) => this.on(this.$(selector), "click", act);
    press(".play", () => this.toggle());
    press(".back", () => this.step(-1));
    press(".on", () => this.step(1));
    this.$(".full").hidden = !document.fullscreenEnabled;
    press(".full", () => this.fill());
    press(".stage", (event) => event.target.closest(".size, .term") || this.toggle());
    this.on(this.$(".time"), "input", (event) => this.show(Number(event.target.value)));
    this.on(this.$(".time"), "keydown", (event) => this.nudge(event));
    this.on(this.$(".size input"), "input", (event) => {
      this.story.chosen = Number(event.target.value);
      this.pause();
    });
    this.on(this.section, "focusin", (event) => event.target.matches(".term") && this.pause());
    this.on(document, "keydown", (event) => this.key(event));
    press(".code", () => {
      this.pause();
      sessionStorage.setItem(LEFT_AT, this.time);
    });
    this.on(document, "visibilitychange", () => this.seen(this.inSight && !document.hidden));
    this.on(this.still, "change", () => this.settle());
    const isHere = () => this.section.isConnected || this.stop();   // Streamlit may take it away untold
    this.on(matchMedia("(prefers-color-scheme: dark)"), "change", () => isHere() && this.retheme());
    this.on(document.fonts, "loadingdone", () => this.draw());
  }

  /** On the time's slider an arrow is a second. */
  nudge(event) {
    const by = { ArrowRight: NUDGE, ArrowUp: NUDGE, ArrowLeft: -NUDGE, ArrowDown: -NUDGE }[event.key];
    if (!by) return;
    event.preventDefault();
    this.show(this.time + by);
  }

  /** The arrows step, Space plays and F fills the screen from anywhere while the stage is in sight, but where something
   * else uses them. */
  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1, " ": 0, f: "fill" }[event.key], still = this.still.matches;
    const other = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.defaultPrevented;
    if (by === undefined || other || !this.inSight || (still && !by)) return;
    const target = event.composedPath()[0];
    if (target.closest?.(by === "fill" ? TAKES_LETTERS : by ? USES_ARROWS : USES_SPACE)) return;
    event.preventDefault();
    if (by === "fill") {
      this.fill();
      return;
    }
    if (!still) {
      if (by) this.step(by);
      else this.toggle();
      return;
    }
    const [one, two] = this.section.querySelectorAll(".stills li");
    this.$(".stills").scrollBy(by * (two.offsetLeft - one.offsetLeft), 0);
  }

  stop() {
    this.playing = false;
    this.abort.abort();
    this.observer.disconnect();
    this.watcher.disconnect();
  }
}

export default function mount(component) {
  const { parentElement } = component;
  if (!parentElement.isConnected) return () => {};         // the page was left while this was loaded
  let opening = OPENINGS.get(parentElement);
  if (!opening) OPENINGS.set(parentElement, (opening = new Opening(parentElement)));
  opening.update(component);
  return () => {
    opening.stop();
    OPENINGS.delete(parentElement);
  };
}
