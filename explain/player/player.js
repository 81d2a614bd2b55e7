// The player: one timeline over one or two runs. Everything on screen follows from the step, in one synchronous pass.
// The default export is what Streamlit calls; an exported page calls it the same way with the packet and an element.

import { Lane } from "./lane.js";
import { Palette, Surface, TIMELINE_INSET, paintTimeline } from "./paint.js";
import { Story, weave } from "./story.js";
import { decodeTrace } from "./trace.js";
import { fillTip } from "./tip.js";
import { element, grouped } from "./words.js";

const SETTLED_MS = 400;
const SAID_MS = 300;
const PLAY_MS = 550;
const FAR_DOWN = 0.42;                                     // of the window's height
const PAGE_HEAD_PX = 72;
const FLOP_KINDS = ["matmul", "exp", "other"];
const LOAD = 0, STORE = 1;                                 // kinds of access, in the trace
const INSTANCES = new WeakMap();                           // one player per mount; Streamlit calls again when data or theme change

/** The wrapper's packet: u32 length, JSON, and the trace files it gives the places of. */
function unpack(packet) {
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength);
  const length = view.getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(packet.subarray(4, 4 + length)));
  const files = packet.subarray(4 + length);
  return { ...head, runs: head.runs.map((run) => ({ glossary: head.glossary, ...run, trace: files.subarray(run.offset, run.offset + run.bytes) })) };
}

class Player {
  constructor(root) {
    this.root = root;
    this.$ = (selector) => root.querySelector(selector);
    this.section = this.$(".player");
    this.range = this.$("input[type=range]");
    this.surface = new Surface(this.$(".timeline canvas"));
    this.lanes = [];
    this.step = 0;
    this.length = 0;
    this.stamp = 0;
    this.abort = new AbortController();
    this.observer = new ResizeObserver(() => this.resized());
    this.listen();
  }

  // --- loading ---

  async update({ data, setStateValue }) {
    this.report = setStateValue;
    const packet = unpack(data);
    if (packet.id !== this.id) return this.load(packet);
    if (!this.length) return undefined;                    // still loading, or failed
    if (packet.step !== this.asked) {
      this.asked = packet.step;
      this.go(packet.step);
    }
    this.fit();
    if (this.retheme()) this.render();
    return undefined;
  }

  async load(packet) {
    this.id = packet.id;
    this.asked = packet.step;
    this.query = packet.query;
    this.pause();
    if (packet.height) this.section.style.setProperty("--height", `${packet.height}px`);
    try {
      const traces = await Promise.all(packet.runs.map(({ trace, error }) => (error ? Promise.reject(new Error(error)) : decodeTrace(trace))));
      if (packet.id !== this.id || this.abort.signal.aborted) return;
      const stories = traces.map((trace, i) => new Story(trace, packet.runs[i].view));
      if (stories.some(({ steps }) => steps === 0)) throw new Error("the trace holds no steps: no program was recorded");
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
    this.section.classList.add("failed");
    Object.assign(this.section.dataset, { testid: "player", step: 0, steps: 0, line: "" });
  }

  build(packet, stories) {
    this.$(".failure").hidden = true;
    this.section.classList.remove("failed");
    this.observer.disconnect();
    this.stories = stories;
    this.woven = weave(stories);
    this.length = this.woven[0].length;
    const template = this.$("template");
    const roots = stories.map(() => template.content.firstElementChild.cloneNode(true));
    this.$(".lanes").replaceChildren(...roots);
    this.section.classList.toggle("two", stories.length === 2);
    this.lanes = roots.map((root, i) => new Lane(root, stories[i], packet.runs[i], (picked) => this.picked(i, picked)));
    const [{ view }] = packet.runs;
    this.$(".title").textContent = packet.runs.map((run) => run.view.title).join("  ·  ");
    this.section.setAttribute("aria-label", `${packet.runs.map((run) => run.view.title).join(" beside ")}: a recorded run. Arrow keys step, Shift and arrows go tile by tile, Space plays, up and down choose the row.`);
    this.$(".badge").textContent = [...new Set(packet.runs.map((run) => run.view.badge))].join("  ·  ");
    this.range.max = this.length - 1;
    this.section.dataset.steps = this.length;
    this.buildScore();
    this.buildPicker(view);
    this.buildNaN();
    this.buildCounters();
    this.step = this.clamp(packet.step);
    this.fit();
    this.retheme(true);
    for (const canvas of this.root.querySelectorAll("canvas")) this.observer.observe(canvas);
    this.resized();
    this.render();
    if (this.shown) this.settle();                         // another run than the address knows
    this.takeFocus();
    this.shown = true;
    this.section.dataset.testid = "player";                // from here on it can be stepped, and its data tell where it is
  }

  /** What the timeline shows, in its own steps; `stops` are the tile visits, and programs that visit no tile. */
  buildScore() {
    const first = this.woven.map((steps) => {
      const at = new Map();
      steps.forEach((step, t) => at.has(step) || at.set(step, t));
      return at;
    });
    const [story] = this.stories;
    this.score = {
      length: this.length,
      programs: story.programs.map((program) => first[0].get(program.first)),
      visits: story.visits.map((visit) => first[0].get(visit.begin)),
      rescales: this.stories.flatMap((s, i) => s.rescales.map(({ step, rows, of }) => ({ at: first[i].get(step), share: rows / of, rows, of }))),
      stops: story.programs.flatMap((program, p) => {
        const visits = story.visits.filter((visit) => visit.program === p);
        return (visits.length ? visits.map((visit) => visit.begin) : [program.first]).map((step) => first[0].get(step));
      }),
      nan: Math.min(...this.stories.map((s, i) => (s.firstNaN ? first[i].get(s.firstNaN.step) : Infinity))),
    };
    if (this.score.nan === Infinity) this.score.nan = null;
    this.positionOf = first;
    this.lanes.forEach((lane, i) => (lane.timeOf = (k) => first[i].get(k) ?? k));
  }

  buildPicker(view) {
    const [{ programs, trace }] = this.stories;
    const picker = this.$(".picker");
    picker.hidden = programs.length < 2;
    picker.firstElementChild.textContent = view.pick_program || "program";
    const names = view.program_names ?? {};
    const { launches, sources } = trace.header;
    picker.querySelector("select").replaceChildren(...programs.map(({ id, launch }, p) => {
      const option = document.createElement("option");
      option.value = p;
      const axes = id.filter((_, axis) => launches[launch].grid[axis] > 1);
      const own = names[id.join(",")] ?? (axes.length ? axes.join(", ") : "0");
      option.textContent = launches.length > 1 ? `${sources[launches[launch].source].function} · ${own}` : own;
      return option;
    }));
  }

  buildNaN() {
    const box = this.$(".nan");
    const found = this.stories.map(({ firstNaN }) => firstNaN).find(Boolean);
    box.hidden = !found;
    if (found) box.textContent = `NaN, first in ${found.name} at step ${this.score.nan + 1}`;
  }

  buildCounters() {
    this.counted = this.stories.map((story) => {
      const box = element("div", "count-of");
      const tables = [element("table"), element("table")];
      const scope = element("p", "scope");
      box.append(...tables, scope);
      return { story, box, tables, scope, launch: -1, cells: null };
    });
    this.$(".counters").replaceChildren(...this.counted.map(({ box }) => box));
  }

  /** The tables of a launch: bytes by buffer, read and written, and FLOPs; in each cell this program so far / all programs. */
  tabulate(entry, k) {
    const { story, tables } = entry;
    const { launch } = story.programs[story.programAt[k]];
    if (entry.launch === launch) return;
    entry.launch = launch;
    const { buffers, totals, programs } = story.launchAt(k);
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const all = programs === 1 ? [] : [element("span", "", ` / all ${grouped(programs)} programs`)];
    entry.scope.replaceChildren("this program so far", ...all, " · trace");
    const fill = (table, title, heads, rows) => {
      table.replaceChildren();
      const head = table.insertRow();
      head.append(...[title, ...heads].map((text) => Object.assign(element("th", "", text), { scope: "col" })));
      return rows.map(([name, all]) => {
        const row = table.insertRow();
        row.append(Object.assign(element("th", "", name), { scope: "row" }));
        return all.map((total) => {
          const cell = row.insertCell();
          const now = element("b");
          const commas = grouped(total).length - String(total).length;
          now.style.minWidth = `${String(total).length + 0.5 * commas}ch`; // so that nothing moves while it counts
          cell.append(now, ...(programs === 1 ? [] : [element("span", "", ` / ${grouped(total)}`)]));
          return now;
        });
      });
    };
    const names = buffers.map(({ name }) => name.replace(/_ptr$/, ""));
    const [read, written] = fill(tables[0], "HBM bytes", [...names, "all"], [
      ["read", [...totals.read_bytes, sum(totals.read_bytes)]],
      ["written", [...totals.written_bytes, sum(totals.written_bytes)]],
    ]);
    const [flops] = fill(tables[1], "FLOPs", FLOP_KINDS, [["done", FLOP_KINDS.map((kind) => totals.flops[kind])]]);
    entry.cells = { read, written, flops };
  }

  // --- theme and size ---

  /** Reads the theme's colours; true if they changed. */
  retheme(force = false) {
    const probe = document.createElement("i");
    probe.style.color = "var(--st-background-color, #ffffff)";
    this.section.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
    probe.remove();
    const dark = 0.299 * r + 0.587 * g + 0.114 * b < 128;
    this.section.dataset.theme = dark ? "dark" : "light";
    const css = getComputedStyle(this.section);
    const look = [dark, css.color, css.fontFamily, css.fontSize, css.getPropertyValue("--ground")].join();
    if (!force && look === this.look) return false;
    this.look = look;
    this.palette = new Palette(this.section, dark);
    this.stamp++;
    return true;
  }

  /** Lets the player be as high as the window has room for, under what stands above it or, far down a page, on a screen of its own. */
  fit() {
    let above = this.section.getBoundingClientRect().top;
    for (let box = this.root.host ?? this.root; box; box = box.parentElement) above += box.scrollTop;
    this.section.style.setProperty("--above", `${Math.round(above < innerHeight * FAR_DOWN ? above : PAGE_HEAD_PX)}px`);
  }

  resized() {
    if (!this.palette) return;
    const rethemed = this.retheme();                       // the type's size follows the width
    const changed = [this.surface.measure(), ...this.lanes.map((lane) => lane.measure())].some(Boolean);
    if (changed) this.stamp++;
    if (changed || rethemed) this.render();
  }

  // --- the one pass ---

  render(motion = false) {
    const t = this.step;
    this.lanes.forEach((lane, i) => lane.render(this.woven[i][t], this.palette, this.stamp, motion));
    this.xOf = paintTimeline(this.surface, this.palette, this.score, t, this.stamp);
    this.range.value = t;
    this.renderCounters(t);
    const [story] = this.stories;
    const k = this.woven[0][t];
    const visit = story.visit(k);
    const program = story.programAt[k];
    const { dataset } = this.section;
    dataset.step = t;
    dataset.line = story.trace.line[k];
    dataset.visit = story.visitAt[k];
    this.range.setAttribute("aria-valuetext", `step ${t + 1} of ${this.length}`);
    this.$(".count").textContent = `step ${grouped(t + 1)} of ${grouped(this.length)}`;
    this.$(".tile").textContent = visit ? `tile visit ${visit.ordinal + 1} of ${story.programs[program].visits}` : story.visits.length ? "between tiles" : "";
    this.$("select").value = program;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      this.$(".live").textContent = `Step ${t + 1} of ${this.length}, ${this.lanes.map((lane) => lane.sentence()).join("; ")}`;
    }, SAID_MS);
  }

  renderCounters(t) {
    this.counted.forEach((entry, i) => {
      const k = this.woven[i][t];
      const { story } = entry;
      this.tabulate(entry, k);
      const accesses = story.accesses(k);
      const at = k * story.bufferCount;
      const show = (cells, counts, still) => {
        let total = 0;
        cells.slice(0, -1).forEach((cell, b) => {
          total += counts[at + b];
          put(cell, grouped(counts[at + b]));
          cell.parentElement.classList.toggle("lit", accesses.some(({ kind, buffer }) => buffer === b && kind !== still));
        });
        put(cells.at(-1), grouped(total));
      };
      show(entry.cells.read, story.read, STORE);
      show(entry.cells.written, story.written, LOAD);
      FLOP_KINDS.forEach((kind, f) => put(entry.cells.flops[f], grouped(story.flops[kind][k])));
    });
  }

  // --- moving ---

  clamp(step) {
    return Math.max(0, Math.min(this.length - 1, Math.trunc(step) || 0));
  }

  /** `motion`: a rescale there is shown as a movement, since the step was made and not jumped to. */
  go(step, motion = false) {
    const next = this.clamp(step);
    if (!this.length || next === this.step) return;
    this.step = next;
    this.render(motion);
    this.settle();
  }

  /** Once the step rests: the address and Python learn of it. */
  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      if (this.query && location.protocol !== "file:") {
        const url = new URL(location.href);
        url.searchParams.set(this.query, this.step);
        history.replaceState(history.state, "", url);
      }
      this.report?.("rest", { id: this.id, step: this.step });
    }, SETTLED_MS);
  }

  do(what) {
    const actions = {
      first: () => this.go(0),
      last: () => this.go(this.length - 1),
      previous: () => this.go(this.step - 1),
      next: () => this.go(this.step + 1, true),
      previousVisit: () => this.go(this.score.stops.findLast((at) => at < this.step) ?? 0),
      nextVisit: () => this.go(this.score.stops.find((at) => at > this.step) ?? this.length - 1),
      play: () => (this.playing ? this.pause() : this.play()),
      up: () => this.picked(0, { ...this.lanes[0].at, row: this.lanes[0].at.row - 1 }),
      down: () => this.picked(0, { ...this.lanes[0].at, row: this.lanes[0].at.row + 1 }),
    };
    if (what !== "play") this.pause();
    actions[what]();
  }

  play() {
    if (this.step >= this.length - 1) this.go(0);
    this.playing = setInterval(() => (this.step < this.length - 1 ? this.go(this.step + 1, true) : this.pause()), PLAY_MS);
    this.showPlaying();
  }

  pause() {
    clearInterval(this.playing);
    this.playing = 0;
    this.showPlaying();
  }

  showPlaying() {
    const button = this.$(".play");
    button.setAttribute("aria-pressed", String(Boolean(this.playing)));
    button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  /** A row, column or tile was chosen in lane i. */
  picked(i, { row, col, step }) {
    if (step !== undefined) return this.go(this.positionOf[i].get(step) ?? this.step);
    const most = Math.max(...this.lanes.map((lane) => lane.rowCount)) - 1;
    for (const lane of this.lanes) lane.selection = { row: Math.max(0, Math.min(most, row)), col: Math.max(0, col) };
    return this.render();
  }

  // --- input ---

  listen() {
    const { signal } = this.abort;
    const on = (target, type, handler, capture = false) => target.addEventListener(type, handler, { signal, capture });
    on(this.section, "keydown", (event) => this.key(event));
    on(document, "keydown", (event) => this.pageKey(event));
    for (const type of ["pointerdown", "keydown"]) on(document, type, () => (this.pointing = type === "pointerdown"), true);
    on(this.$(".buttons"), "click", (event) => {
      const button = event.target.closest("button");
      if (button) this.do(button.dataset.do);
    });
    on(this.range, "input", () => {
      this.pause();
      this.go(Number(this.range.value));
    });
    on(this.$("select"), "change", (event) => {
      this.pause();
      this.go(this.score.programs[Number(event.target.value)]);
      this.section.focus({ preventScroll: true });         // back to the keys that step
    });
    on(this.$(".nan"), "click", () => this.go(this.score.nan));
    on(window, "resize", () => this.length && this.fit());
    for (const type of ["pointermove", "pointerdown"]) on(this.section, type, (event) => this.point(event));
    on(this.section, "pointerleave", () => (this.$(".tip").hidden = true));
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.length && this.retheme() && this.render());
  }

  key(event) {
    if (!this.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.lanes.forEach((lane) => lane.pin(null));
    const { tagName } = event.target;
    if (tagName === "SELECT" || (tagName === "BUTTON" && (event.key === " " || event.key === "Enter"))) return;
    const tile = event.shiftKey;
    const what = {
      ArrowRight: tile ? "nextVisit" : "next", ArrowLeft: tile ? "previousVisit" : "previous", PageDown: "nextVisit", PageUp: "previousVisit",
      ArrowDown: "down", ArrowUp: "up", Home: "first", End: "last", " ": "play",
    }[event.key];
    if (!what) return;
    event.preventDefault();
    this.do(what);
  }

  /** Keys pressed elsewhere on the page, where they mean nothing else, while the player is in sight. */
  pageKey(event) {
    const { target } = event;
    if (event.defaultPrevented || event.composedPath().includes(this.section)) return;
    if (target.closest("input, textarea, select, [contenteditable], [role=radiogroup], [role=dialog], [role=menu], [role=listbox]")) return;
    if (target.closest("button, a, summary") && !event.key.startsWith("Arrow")) return;
    const { top, bottom } = this.section.getBoundingClientRect();
    const middle = (top + bottom) / 2;
    if (middle > 0 && middle < innerHeight) this.key(event);
  }

  /** So that the keys work at once, also after a control was used with the pointer; who is at the keyboard keeps the focus. */
  takeFocus() {
    const { activeElement } = document;
    const free = !activeElement || activeElement === document.body;
    if (free || (this.shown && this.pointing)) this.section.focus({ preventScroll: true });
  }

  point(event) {
    const tip = this.$(".tip");
    const target = event.composedPath()[0];
    const said = this.length ? this.tipFor(event, target) : null;
    tip.hidden = !said;
    if (!said) return;
    fillTip(tip, said, this.palette);
    const frame = this.section.getBoundingClientRect();
    const x = event.clientX - frame.left + 14, y = event.clientY - frame.top + 16;
    tip.style.left = `${Math.max(0, Math.min(x, frame.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + tip.offsetHeight > frame.height ? y - tip.offsetHeight - 28 : y}px`;
  }

  tipFor(event, target) {
    if (target === this.range) return this.tipForTime(event);
    const lane = this.lanes.find(({ root }) => root.contains(target));
    if (!lane) return null;
    if (target.dataset?.name) return lane.hoverName(target.dataset.name, Number(target.dataset.source));
    if (target.tagName !== "CANVAS") return null;
    const panel = target.closest(".panel").classList[1];
    return lane.hover(panel, event.offsetX, event.offsetY);
  }

  tipForTime(event) {
    const inner = this.surface.width - 2 * TIMELINE_INSET;
    const t = this.clamp(Math.round(((event.offsetX - TIMELINE_INSET) / inner) * (this.length - 1)));
    const near = this.score.rescales.find(({ at }) => Math.abs(this.xOf(at) - event.offsetX) < 3);
    const k = this.woven[0][t];
    const [story] = this.stories;
    const visit = story.visit(k);
    const words = [`step ${t + 1}${visit ? `, tile ${visit.ordinal + 1}` : ""}, line ${story.trace.line[k]}`];
    if (near) words.push(`rescale: α < 1 in ${near.rows} of ${near.of} rows`);
    return words.join("\n");
  }

  stop() {
    this.abort.abort();
    this.observer.disconnect();
    this.pause();
    clearTimeout(this.settling);
    clearTimeout(this.saying);
  }
}

function put(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}

export default function mount(component) {
  const { parentElement } = component;
  let player = INSTANCES.get(parentElement);
  if (!player) INSTANCES.set(parentElement, (player = new Player(parentElement)));
  player.update(component).catch((error) => player.fail(error));
  return () => {
    player.stop();
    INSTANCES.delete(parentElement);
  };
}
