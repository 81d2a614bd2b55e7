// The player: one timeline over one or two runs. Everything on screen follows from the step, in one synchronous pass.
// The default export is what Streamlit calls; an exported page calls it the same way with the packet and an element.

import { Comparison } from "./compare.js";
import { Counters } from "./counters.js";
import { Depth } from "./depth.js";
import { openGrid } from "./grid.js";
import { ExportMenu } from "./export.js";
import { listenToKeys, showKeys } from "./keys.js";
import { Lane } from "./lane.js";
import { Palette, themeOf } from "./palette.js";
import { Presenter } from "./presenter.js";
import { Story } from "./story.js";
import { decodeTrace } from "./trace.js";
import { explain } from "./terms.js";
import { fillTip } from "./tip.js";
import { Tour, printsAsSlides } from "./tour.js";
import { Transport } from "./transport.js";
import { Watch } from "./watch.js";
import { weave } from "./weave.js";
import { element } from "./words.js";

const SETTLED_MS = 400;
const SAID_MS = 300;
const FAR_DOWN = 0.42;                                     // of the window's height
const PAGE_HEAD_PX = 72;
// Place → the step, the caption and the depth it was left at, until the page is reloaded.
const LEFT = (globalThis.tilescopeLeft ??= new Map());
// Player → how often the page had asked for it when it came into sight last.
const REVEALED = (globalThis.tilescopeRevealed ??= new Map());
// The runs and players that are not led through again: their tour was finished, or left before its end.
const LED = (globalThis.tilescopeLed ??= new Set());
// Player → the spot it showed last, to find again in a changed run.
const SPOTS = (globalThis.tilescopeSpots ??= new Map());
// One player per mount; Streamlit calls again with new data or theme.
const INSTANCES = new WeakMap();

const KEYS_IN_SHORT = "Left and right arrows step, with Shift by tile. Up and down choose the row. ? lists all keys.";

/** Reads the wrapper's packet: u32 length, JSON, and the trace files at the places that it gives. */
function unpack(packet) {
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength);
  const length = view.getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(packet.subarray(4, 4 + length)));
  const files = packet.subarray(4 + length);
  const fileOf = ({ offset, bytes: size }) => files.subarray(offset, offset + size);
  const { glossary, terms } = head;
  return { ...head, runs: head.runs.map((run) => ({ glossary, terms, ...run, trace: fileOf(run) })) };
}

/** Where the runs come from: what two have in common once, then what each has alone. */
function badgeOf(badges) {
  const [left, right] = badges.map((badge) => badge.split(" · "));
  if (!right || badges[0] === badges[1]) return badges[0];
  const common = left.filter((part) => right.includes(part));
  const own = (parts) => parts.filter((part) => !common.includes(part)).join(" · ");
  return [...common, `left ${own(left)}`, `right ${own(right)}`].join(" · ");
}

class Player {
  constructor(root) {
    furnish(root);
    this.root = root;
    this.$ = (selector) => root.querySelector(selector);
    this.section = this.$(".player");
    this.lanes = [];
    this.step = 0;
    this.length = 0;
    this.stamp = 0;
    this.ready = false;
    this.abort = new AbortController();
    this.observer = new ResizeObserver(() => this.resized());
    // What is above the player may grow: words come after it, or take another line once their font is there.
    this.around = new ResizeObserver(() => requestAnimationFrame(() => this.length && this.fit()));
    this.depth = new Depth(this);
    this.counters = new Counters(this);
    this.transport = new Transport(this);
    this.watch = new Watch(this);
    this.comparison = new Comparison(this);
    this.presenter = new Presenter(this);
    this.tour = new Tour(this);
    this.listen();
    new ExportMenu(this, this.abort.signal);
  }

  /** Listens until the player is unmounted. */
  on(target, type, handler, options = {}) {
    target.addEventListener(type, handler, { ...options, signal: this.abort.signal });
  }

  // --- loading ---

  async update({ data }) {
    const packet = unpack(data);
    if (packet.id !== this.id) return this.load(packet);
    if (!this.ready) return undefined;                     // still loading, or failed
    if (packet.place !== this.packet.place) {
      if (packet.watch) this.watch.follow(packet.watch);   // it keeps the step of the place that is left
      this.packet = packet;
      this.tour.load();
      this.start();
      this.go(this.step, false, true);
    }
    this.fit();
    if (this.retheme()) this.render();
    this.reveal(packet);
    return undefined;
  }

  async load(packet) {
    this.packet = packet;
    this.id = packet.id;
    this.query = packet.query;
    this.pause();
    if (packet.height) this.section.style.setProperty("--height", `${packet.height}px`);
    try {
      const decoded = ({ trace, error }) => (error ? Promise.reject(new Error(error)) : decodeTrace(trace));
      const traces = await Promise.all(packet.runs.map(decoded));
      if (packet.id !== this.id || this.abort.signal.aborted) return;
      const stories = traces.map((trace, i) => new Story(trace, packet.runs[i].view));
      if (stories.some(({ steps }) => steps === 0)) throw new Error("the trace has no steps: no program was recorded");
      this.build(packet, stories);
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    const box = this.$(".failure");
    box.textContent = `This run cannot be shown: ${error.message}`;
    box.hidden = false;
    this.length = 0;
    this.ready = false;
    this.section.classList.add("failed");
    Object.assign(this.section.dataset, { testid: "player", step: 0, steps: 0, line: "" });
  }

  build(packet, stories) {
    this.ready = false;
    this.$(".failure").hidden = true;
    this.section.classList.remove("failed");
    this.observer.disconnect();
    this.stories = stories;
    const { woven, beats } = weave(stories);
    this.woven = woven;
    this.beats = beats;
    this.length = this.woven[0].length;
    // Of each run: its step → the first step of the timeline with it.
    this.positionOf = this.woven.map((steps) => {
      const at = new Map();
      steps.forEach((step, t) => at.has(step) || at.set(step, t));
      return at;
    });
    const template = this.$("template");
    const roots = stories.map(() => template.content.firstElementChild.cloneNode(true));
    this.$(".lanes").replaceChildren(...roots);
    this.section.classList.toggle("two", stories.length === 2);
    this.lanes = roots.map((root, i) => new Lane(root, stories[i], packet.runs[i], (picked) => this.picked(i, picked)));
    this.lanes.forEach((lane, i) => lane.shareScale(this.lanes[1 - i]));
    this.lanes.forEach((lane, i) => (lane.timeOf = (k) => this.positionOf[i].get(k) ?? k));
    const [{ view }] = packet.runs;
    const titles = packet.runs.map((run) => run.view.title);
    this.section.setAttribute("aria-label", `${titles.join(" and ")}: recorded run. ${KEYS_IN_SHORT}`);
    explain(this.$(".badge"), badgeOf(packet.runs.map((run) => run.view.badge)), packet.terms);
    this.section.dataset.steps = this.length;
    explain(this.$(".title"), titles.join("  ·  "), packet.terms);
    this.buildPicker(view);
    for (const part of [this.counters, this.transport, this.watch, this.comparison, this.presenter,
      this.tour]) part.load();
    this.start();
    this.ready = true;
    this.fit();
    this.retheme(true);
    for (const canvas of this.root.querySelectorAll("canvas")) this.observer.observe(canvas);
    this.around.observe((this.root.host ?? this.root).closest("[data-testid=stMainBlockContainer]") ?? document.body);
    if (!this.resized()) this.render();
    this.remember();
    if (this.shown) this.settle();                         // a run that the address does not have yet
    else printsAsSlides(this);
    this.shown = true;
    this.section.dataset.testid = "player";                // ready to be stepped
    this.tour.greet();
    if (location.hash === "#player") this.section.scrollIntoView();
    this.reveal(packet);
  }

  /** Comes into sight where something on the page has asked for it since it was here last. */
  reveal({ reveal = 0 }) {
    if (reveal > (REVEALED.get(this.player) ?? 0)) this.section.scrollIntoView({ block: "nearest" });
    REVEALED.set(this.player, reveal);
  }

  /** Sets where to start: where this place was left, the tour, the step that is asked for, or one worth seeing. */
  start() {
    const { packet, tour, lanes } = this;
    const left = LEFT.get(this.place);
    const again = packet.caption === 1 && [this.id, this.player].some((one) => LED.has(one));
    const { step = packet.step, caption = again ? 0 : packet.caption ?? 0, link = packet.link } = left ?? {};
    const toured = tour.set(caption - 1);
    if (packet.step !== null && !toured) LED.add(this.player); // who came to a step is not led at the next run either
    if (!toured || step !== null) {
      const start = step ?? packet.otherwise ?? this.sameSpot();
      this.step = start === null ? this.worked() : this.clamp(start);
      const { first } = this.comparison;                   // a step that was asked for shows the row that differs there
      if (!left && first?.t === this.step) for (const { selection } of lanes) selection.row = first.row;
      this.held = step === null && start !== null ? this.step : null;
    }
    const { row, panels, watch, depth = toured ? null : packet.depth } = link ?? {};
    this.depth.start(left?.depth ?? depth);
    this.depth.byHand ||= toured && Boolean(depth);        // the link's depth is a reader's
    if (row) for (const { selection } of lanes) selection.row = Number(row) || 0;
    if (panels) this.presenter.compose(panels.split(","));
    if (watch) this.watch.follow(watch);
  }

  buildPicker(view) {
    const [{ programs, trace }] = this.stories, [lane] = this.lanes;
    const picker = this.$(".picker");
    picker.hidden = programs.length < 2;
    const several = trace.header.launches.length > 1;      // each has tiles of its own
    const word = several ? "Program" : view.pick_program || "program";
    picker.querySelector("span").textContent = word;
    picker.firstElementChild.setAttribute("aria-label", `${word}: the grid`);
    picker.querySelector("select").setAttribute("aria-label", word);
    picker.querySelector("select").replaceChildren(...programs.map((_, p) =>
      Object.assign(element("option", "", lane.programName(p)), { value: p })));
  }

  // --- theme and size ---

  /** Reads the theme's colours; true if they changed. */
  retheme(force = false) {
    const theme = (this.section.dataset.theme = themeOf(this.section));
    const css = getComputedStyle(this.section);
    const named = ["--ground", "--picture-text"].map((name) => css.getPropertyValue(name));
    const look = [theme, css.color, css.fontFamily, css.fontSize, ...named].join();
    if (!force && look === this.look) return false;
    this.look = look;
    this.palette = new Palette(this.section);
    this.stamp++;
    return true;
  }

  /** Makes the player as high as the window allows: below what is above it or, far down a page, a screen of its own. */
  fit() {
    if (this.presenter.presenting) return;                 // it fills the window
    let above = this.section.getBoundingClientRect().top;
    for (let box = this.root.host ?? this.root; box; box = box.parentElement) above += box.scrollTop;
    this.section.style.setProperty("--above", `${Math.round(above < innerHeight * FAR_DOWN ? above : PAGE_HEAD_PX)}px`);
  }

  /** Takes the sizes that the layout gives; true if the step was drawn again. */
  resized() {
    if (!this.palette || !this.section.isConnected) return false;
    const rethemed = this.retheme();                       // the font's size follows the width
    const timeline = this.transport.measure(), changed = this.lanes.map((lane) => lane.measure()).some(Boolean);
    if (changed) {
      this.stamp++;
      for (const lane of this.lanes) lane.step = -1;       // the current line is scrolled into view again
    }
    if (changed || rethemed) this.render();
    else if (timeline && this.ready) this.transport.render(this.step);
    return changed || rethemed;
  }

  // --- the one pass ---

  render(motion = false) {
    const started = performance.now();
    const t = this.step;
    const beat = this.beats.findLast(({ begin }) => begin <= t);
    this.steps = { begin: t, last: t };                    // Idea shows all of a beat, as it is after its last step
    if (this.depth.shown === "idea" && beat && !this.watch.hides(t)) {
      this.steps = { begin: Math.min(beat.begin, t), last: Math.max(beat.end - 1, t) };
    }
    this.comparison.render(this.steps.last);
    this.lanes.forEach((lane, i) => {
      lane.beat = beat?.of[i];
      lane.hides = this.watch.hides(t);
      lane.finished = this.hasFinished(i);
      lane.render(this.woven[i][t], this.palette, this.stamp, { motion, followed: i ? this.lanes[0].row : null });
    });
    for (const lane of this.lanes) lane.write();
    this.lanes.forEach((lane, i) => lane.waits(this.waiting(i, t)));
    this.comparison.write();
    this.transport.render(t);
    this.counters.render(t);
    this.watch.render(t);
    this.tour.render(t);
    const [story] = this.stories;
    const k = this.woven[0][t];
    const { dataset } = this.section;
    dataset.step = t;
    dataset.line = story.trace.line[k];
    dataset.visit = story.visitAt[k];
    dataset.beat = beat?.of[0].kind ?? "";
    this.$(".picker select").value = story.programAt[k];
    for (const lane of this.lanes) lane.settle();
    const told = () => this.lanes.map((lane) => lane.sentence()).join(" Right: ");
    this.say(() => `${this.tour.said()}${this.watch.said()}${this.where(t)} ${told()}`);
    this.section.drawMs = performance.now() - started;     // benchmarks/player.py reads it
  }

  /** Whether run i has ended before what is shown, while the run beside it goes on. */
  hasFinished(i) {
    const { positionOf, stories, steps } = this;
    return stories.length > 1 && positionOf[i].get(stories[i].steps - 1) < steps.begin;
  }

  /** That run i has finished; else why it follows another row than the run beside it, or how far it is when that one
   * has ended; "" else. */
  waiting(i, t) {
    const { lanes: [left, right], stories, woven } = this;
    if (this.hasFinished(i)) return "finished";
    if (!right || left.row === right.row) return "";
    const other = woven[1 - i][t] === stories[1 - i].steps - 1;
    const { row } = this.lanes[1 - i], launches = stories[i].trace.header.launches.length;
    if (other && launches > 1) {
      const { programs, programAt } = stories[i];
      return `launch ${programs[programAt[woven[i][t]]].launch + 1} of ${launches}`;
    }
    return other || row === null || this.lanes[i].row === null ? "" : `row ${row} is in another tile`;
  }

  /** The step to open on: the first difference of two runs; in one the sum after the first rescale, or its second
   * tile. */
  worked() {
    const [story] = this.stories;
    const { first } = this.comparison;
    if (first) {
      for (const { selection } of this.lanes) selection.row = first.row;
      return first.t;
    }
    const at = (step) => this.positionOf[0].get(step);
    const rescale = story.rescales[0]?.step;
    if (rescale === undefined) {
      const visit = story.visits[1] ?? story.visits[0];
      return visit ? at(story.madeIn(visit)) : 0;
    }
    const alpha = story.role("rescale", rescale).data;
    const least = alpha.reduce((smallest, a) => (a > 0 && a < smallest ? a : smallest), 1);
    const row = Math.max(0, alpha.indexOf(least));         // all may be 0
    for (const { selection } of this.lanes) selection.row = row;
    const sum = ["new_sum", "running_sum"].find((role) => story.roles[role]);
    return at(sum ? story.firstChange(sum, rescale) : rescale);
  }

  /** The spot shown last, in a run of the same kernels with other parameters; null where there is none. */
  sameSpot() {
    const spot = SPOTS.get(this.player);
    if (!spot || spot.kernels !== this.kernels) return null;
    for (const { selection } of this.lanes) selection.row = spot.row;
    return this.positionOf[0].get(this.stories[0].stepAt(spot)) ?? null;
  }

  get kernels() {
    return this.stories.map((story) => story.view.kernel ?? story.sources[0].function).join();
  }

  /** A step's place, in words. */
  where(t) {
    const [story] = this.stories, visit = story.visit(this.woven[0][t]);
    const tile = visit ? `, ${story.placeOf(visit)}` : "";
    return this.transport.countsBeats ? `Beat ${this.beatAt(t)} of ${this.beats.length}${tile}.`
      : `Step ${t} of ${this.length - 1}, line ${this.section.dataset.line}${tile}.`;
  }

  /** For screen readers: says the step once it rests. */
  say(words) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.$(".live").textContent = typeof words === "string" ? words : words()),
      SAID_MS);
  }

  // --- moving ---

  clamp(step) {
    return Math.max(0, Math.min(this.length - 1, Math.trunc(step) || 0));
  }

  /** Goes to a step. `motion`: a rescale is animated; `again`: draws also a step that is shown already. */
  go(step, motion = false, again = false) {
    const next = this.clamp(step);
    if (!this.length || (next === this.step && !again)) return;
    this.step = next;
    this.render(motion);
    this.settle();
  }

  /** Draws the step again: something beside it has changed. */
  renderAgain() {
    this.go(this.step, false, true);
  }

  /** Goes forward to `step`, or to the question before it; from an open question to its answer. */
  advance(step, motion = false) {
    const set = this.watch.stopWithin(this.step, this.clamp(step));
    if (!set) return this.go(step, motion);
    if (this.watch.isAsked(set)) return this.go(set.at, true);
    this.pause();
    return this.watch.ask(set);
  }

  /** The start of this run that the packet names. */
  get place() {
    return `${this.packet.place} ${this.id}`;
  }

  /** The player on the page, whatever its run. */
  get player() {
    return this.packet.place?.replace(/ \d+$/, "");
  }

  /** Remembers the step; once it rests, it is in the address. */
  settle() {
    const { step, tour, depth } = this;
    LEFT.set(this.place, { step, caption: tour.at + 1, depth: depth.shown, link: null });
    this.remember();
    clearTimeout(this.settling);
    if (!this.query || location.protocol === "file:") return;
    this.settling = setTimeout(() => {
      const url = new URL(location.href);
      for (const [name, value] of Object.entries(this.seen())) {
        if (value === null) url.searchParams.delete(name);
        else url.searchParams.set(name, value);
      }
      history.replaceState(history.state, "", url);
    }, SETTLED_MS);
  }

  /** What the address says of what is seen; null: as a caption, or as the player itself, has it. */
  seen() {
    const { tour: { caption, at }, presenter, watch, lanes, depth } = this;
    const { row, rows } = lanes[0].at;
    return {
      caption: caption && at + 1,
      [this.query]: this.step === caption?.t ? null : this.step,
      row: rows > 1 && row !== caption?.row ? row : null,
      panels: presenter.composition(),
      depth: depth.possible && depth.shown !== caption?.depth ? depth.shown : null,
      watch: watch.name === (caption?.watch || watch.otherwise) ? null : watch.name,
    };
  }

  /** Keeps the spot for a run with other parameters. One that this run lacks is kept until the reader steps, so a mask
   * that is put on and taken off leads back. */
  remember() {
    if (this.step !== this.held) this.held = null;
    const spot = this.held === null ? this.stories[0].spot(this.woven[0][this.step]) : SPOTS.get(this.player);
    SPOTS.set(this.player, { ...spot, kernels: this.kernels, row: this.lanes[0].selection.row });
  }

  /** The number of the beat at step t, from 1; 0 before the first. */
  beatAt(t) {
    return this.beats.findLastIndex(({ begin }) => begin <= t) + 1;
  }

  pause() {
    this.transport.pause();
  }

  /** Does what a key, a clicker or a swipe stands for: in a tour its captions, else a step. False as for `act`. */
  press(what) {
    return this.tour.takes(what) || this.act(what);
  }

  /** Does what a key, button or swipe stands for. False where there is nothing to do. */
  act(what) {
    const { transport, watch, presenter, tour } = this;
    const row = (by) => this.picked(0, { ...this.lanes[0].at, row: this.lanes[0].at.row + by });
    const actions = {
      first: () => this.go(0),
      last: () => this.go(this.length - 1),
      next: () => transport.step(1),
      previous: () => transport.step(-1),
      nextCoarse: () => transport.step(1, transport.coarser),
      previousCoarse: () => transport.step(-1, transport.coarser),
      nextTile: () => transport.step(1, "tile"),
      previousTile: () => transport.step(-1, "tile"),
      depth: () => this.depth.toggle(),
      play: () => (transport.playing ? this.pause() : transport.play()),
      up: () => row(-1),
      down: () => row(1),
      nextMove: () => watch.jump(1),
      previousMove: () => watch.jump(-1),
      ask: () => watch.toggle(),
      goTo: () => transport.askStep(),
      difference: () => this.comparison.goToFirst(),
      tour: () => tour.toggle(),
      leaveTour: () => tour.leave(),
      panels: () => presenter.list(),
      larger: () => presenter.resize(1),
      smaller: () => presenter.resize(-1),
      present: () => presenter.toggle(),
      blank: () => presenter.blank(),
      help: () => showKeys(this),
      escape: () => this.unpin() || watch.dismiss() || tour.leave() || presenter.leave(),
    };
    if (what !== "play") this.pause();
    return actions[what]();
  }

  /** Ends the highlight of a pinned name; true if there was one. */
  unpin() {
    const pinned = this.lanes.some((lane) => lane.pinned);
    for (const lane of this.lanes) lane.pin(null);
    return pinned;
  }

  /** A row, column or tile was chosen in lane i. */
  picked(i, { row, col, step }) {
    if (step !== undefined) return this.go(this.positionOf[i].get(step) ?? this.step);
    const most = Math.max(...this.lanes.map((lane) => lane.rowCount)) - 1;
    if (i) row = this.lanes[0].placeOf(Number(this.lanes[i].tile?.rows[row])) ?? row;
    for (const lane of this.lanes) lane.selection = { row: Math.max(0, Math.min(most, row)), col: Math.max(0, col) };
    this.render();
    this.settle();
    return true;
  }

  // --- input ---

  listen() {
    listenToKeys(this);
    this.on(this.$(".picker select"), "change", (event) => {
      this.pause();
      this.go(this.transport.score.programs[Number(event.target.value)]);
      this.section.focus({ preventScroll: true });         // for the keys that step
    });
    this.on(this.$(".picker button"), "click", () => openGrid(this));
    this.on(this.$(".tools"), "click", (event) => {
      const button = event.target.closest("button[data-do]");
      if (button && !button.closest(".watch")) this.act(button.dataset.do);
    });
    this.on(this.$(".more"), "click", ({ target }) => {
      const open = this.$("header").classList.toggle("open");
      target.setAttribute("aria-expanded", String(open));
    });
    this.on(window, "resize", () => this.length && this.fit());
    this.on(window, "popstate", () => clearTimeout(this.settling)); // the address is of the next page now
    // A chapter's questions ask for the step of each run, and lead to one, out of a tour: its caption is of another
    // step.
    this.on(window, "tilescope:where", ({ detail }) => {
      if (this.ready) detail.steps = this.woven.map((steps) => steps[this.step]);
    });
    this.on(window, "tilescope:go", ({ detail: { step, run } }) => {
      if (!this.ready) return;
      this.pause();
      this.tour.leave();
      this.go(this.positionOf[run]?.get(step) ?? this.step);
      this.section.scrollIntoView({ block: "start", behavior: "smooth" });
      this.section.focus({ preventScroll: true });
    });
    for (const type of ["pointermove", "pointerdown"]) this.on(this.section, type, (event) => this.point(event));
    this.on(this.section, "pointerleave", () => (this.$(".tip").hidden = true));
    this.on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.ready && this.retheme() && this.render());
    // Drawn words have another width now.
    this.on(document.fonts, "loadingdone", () => this.ready && this.retheme(true) && this.render());
  }

  point(event) {
    const tip = this.$(".tip");
    const target = event.composedPath()[0];
    const said = this.ready ? this.tipFor(event, target) : null;
    tip.hidden = !said;
    if (!said) return;
    fillTip(tip, said, this.palette);
    const frame = this.section.getBoundingClientRect();
    const x = event.clientX - frame.left + 14, y = event.clientY - frame.top + 16;
    tip.style.left = `${Math.max(0, Math.min(x, frame.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + tip.offsetHeight > frame.height ? y - tip.offsetHeight - 28 : y}px`;
  }

  tipFor(event, target) {
    if (target === this.transport.range) return this.transport.tip(event.offsetX);
    const lane = this.lanes.find(({ root }) => root.contains(target));
    if (!lane) return null;
    const named = target.closest("[data-name]");
    if (named) return lane.hoverName(named.dataset.name, named.dataset.source);
    if (target.tagName !== "CANVAS") return null;
    const panel = target.closest(".panel").classList[1];
    return lane.hover(panel, event.offsetX, event.offsetY, target);
  }

  stop() {
    this.abort.abort();
    this.observer.disconnect();
    this.around.disconnect();
    this.pause();
    this.presenter.leave();
    clearTimeout(this.settling);
    clearTimeout(this.saying);
  }
}

/** Puts the player's elements and their style into `root`. */
function furnish(root) {
  const style = document.createElement("style");
  style.textContent = PARTS.css;
  const { body } = new DOMParser().parseFromString(PARTS.html, "text/html");
  root.replaceChildren(style, ...body.children);
}

export default function mount(component) {
  const { parentElement } = component;
  if (!parentElement.isConnected) return () => {};         // the page was left while this was loaded
  let player = INSTANCES.get(parentElement);
  if (!player) INSTANCES.set(parentElement, (player = new Player(parentElement)));
  player.update(component).catch((error) => player.fail(error));
  return () => {
    player.stop();
    INSTANCES.delete(parentElement);
  };
}
