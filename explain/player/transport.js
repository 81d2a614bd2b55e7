// The transport: clock, play and its speed, the timeline with its scrub bar, and the place in the run.

import { clocksOf, tick } from "./clocks.js";
import { keepChoice, lastChoice } from "./depth.js";
import { buttonOf, openDialog } from "./dialog.js";
import { grouped } from "./numbers.js";
import { TIMELINE_INSET, paintTimeline } from "./pictures/timeline.js";
import { sourceOfOdd } from "./provenance.js";
import { Surface } from "./surface.js";
import { FINDINGS } from "./watch.js";
import { element } from "./words.js";

const PLAY_MS = 550, BEAT_MS = 1600;                       // a step, or a beat, at speed 1
const MOST_MARKED = 40;                                    // programs, or tiles, with a mark; beyond: launches
const NEAR_PX = 3;                                         // from a mark on the timeline
const CHOICES = { code: ["every", "line", "beat", "tile"], idea: ["beat", "tile"] };

export class Transport {
  constructor(player) {
    this.player = player;
    this.range = player.$("input[type=range]");
    this.surface = new Surface(player.$(".timeline canvas"));
    this.chosen = { code: lastChoice("clock") ?? "line", idea: "beat" }; // the clock of each depth
    this.speed = 1;
    this.listen();
  }

  listen() {
    const { player } = this;
    player.on(player.$(".buttons"), "click", (event) => {
      const button = event.target.closest("button");
      if (button) player.act(button.dataset.do);
    });
    player.on(this.range, "input", () => {
      player.pause();
      player.go(Number(this.range.value));
    });
    player.on(player.$(".clock"), "click", (event) => {
      const button = event.target.closest("button");
      if (button) this.choose(button.dataset.clock);
    });
    player.on(player.$(".speed"), "change", (event) => {
      this.speed = Number(event.target.value);
      if (this.playing) this.play();
      player.section.focus({ preventScroll: true });
    });
    player.on(player.$(".nan"), "click", () => player.go(this.oddAt));
    player.on(player.$(".count"), "click", () => player.act("goTo"));
  }

  load() {
    const { stories, positionOf, length } = this.player;
    const [story] = stories;
    const at = (step) => positionOf[0].get(step);
    this.clocks = clocksOf(this.player);
    const odd = Math.min(...stories.map((s, i) => (s.firstOdd ? positionOf[i].get(s.firstOdd.step) : Infinity)));
    const marks = (s, i) => s.rescales.map(({ step, rows, of }) => ({ at: positionOf[i].get(step), rows, of }));
    this.score = {
      length,
      programs: story.programs.map((program) => at(program.first)),
      starts: story.programs.filter(({ launch }, p) => story.programs.length <= MOST_MARKED
        || launch !== story.programs[p - 1]?.launch).map((program) => at(program.first)),
      visits: story.visits.length > MOST_MARKED ? [] : story.visits.map((visit) => at(visit.begin)),
      rescales: stories.flatMap(marks),
      odd: odd === Infinity ? null : odd,
    };
    this.range.max = length - 1;
    const of = stories.map((s) => s.rescales.length > 0), one = of.length > 1 && of[0] !== of[1];
    const whose = one ? `${of[0] ? "left" : "right"}: ` : "";
    this.player.$(".timeline-key .rescaled").lastChild.textContent = `${whose}0 < α < 1`;
    const found = stories.map(({ firstOdd }) => firstOdd).find(Boolean);
    this.oddWords = found ? `${found.what}, first in ${found.name}` : "";
    this.showClock();
  }

  measure() {
    return this.surface.measure();
  }

  // --- the clock ---

  /** The key of the clock in force. */
  get level() {
    const level = this.chosen[this.player.depth.shown];
    return this.clocks[level] ? level : "line";
  }

  /** The clock of Shift and an arrow. */
  get coarser() {
    return this.level === "tile" ? "pass" : "tile";
  }

  choose(level) {
    const { shown } = this.player.depth;
    this.chosen[shown] = level;
    if (shown === "code") keepChoice("clock", level);
    this.showClock();
    this.player.section.focus({ preventScroll: true });
  }

  showClock() {
    const { player, clocks, level } = this;
    const coarser = clocks[this.coarser];
    player.section.dataset.clock = clocks[level].name;
    player.$(".tour .unit").textContent = clocks[level].name.replace("every ", "");
    const keys = CHOICES[player.depth.shown].filter((key) => clocks[key]);
    player.$(".clock").replaceChildren(...keys.map((key) => {
      const { name, says } = clocks[key];
      const button = buttonOf("", name, `Step by ${name}`, () => {});
      button.title = `Step by ${says}`;
      button.dataset.clock = key;
      button.setAttribute("aria-pressed", String(key === level));
      return button;
    }));
    const name = (what, words, keys) => {
      const button = player.$(`.buttons [data-do=${what}]`);
      button.setAttribute("aria-label", words);
      button.title = keys ? `${words} · ${keys}` : words;
    };
    const turns = player.tour?.on;                         // then the arrows are the captions'
    name("next", `Next ${clocks[level].says}`, turns ? "" : "→");
    name("previous", `Previous ${clocks[level].says}`, turns ? "" : "←");
    name("nextCoarse", `Next ${coarser.says}`, "Shift →");
    name("previousCoarse", `Previous ${coarser.says}`, "Shift ←");
  }

  /** One on or back by a clock. */
  step(direction, level = this.level) {
    const { player } = this;
    const small = direction > 0 && ["every", "line", "beat"].includes(level);
    player.advance(tick(this.clocks[level], player.step, direction, player.length), small);
  }

  // --- playing ---

  play() {
    const { player } = this;
    clearInterval(this.playing);
    if (player.step >= player.length - 1) player.go(0);
    const pace = this.level === "beat" ? BEAT_MS : PLAY_MS;
    this.playing = setInterval(() => (player.step < player.length - 1 ? this.step(1) : this.pause()),
      pace / this.speed);
    this.showPlaying();
  }

  pause() {
    if (!this.playing) return;
    clearInterval(this.playing);
    this.playing = 0;
    this.showPlaying();
  }

  showPlaying() {
    const button = this.player.$(".play");
    button.setAttribute("aria-pressed", String(Boolean(this.playing)));
    button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  // --- the place in the run ---

  render(t) {
    const { player } = this;
    const [story] = player.stories;
    const k = player.woven[0][t];
    const visit = story.visit(k);
    const veiled = player.watch.asks;                      // the future is to be predicted
    const score = { ...this.score, watched: this.watched };
    const stamp = `${player.stamp} ${player.depth.shown}`;
    this.xOf = paintTimeline(this.surface, player.palette, score, t, stamp, veiled);
    this.explainMarks();
    this.range.value = t;
    const { begin, last } = player.steps;
    const steps = last > begin ? `steps ${grouped(begin)}–${grouped(last)}` : `step ${grouped(t)}`;
    const step = `${steps} of ${grouped(player.length - 1)}`;
    const place = this.countsBeats ? `${this.placeAt(t)} of ${grouped(player.beats.length)}` : step;
    this.range.setAttribute("aria-valuetext", place);
    Object.assign(player.$(".count"), { textContent: place, title: this.countsBeats ? step : "" });
    const between = story.visits.length ? `between ${story.tileName}s` : "";
    const side = player.stories.length > 1 ? "left: " : "";
    const ended = side && k === story.steps - 1;           // the other run goes on
    player.$(".tile").textContent = ended ? "left: finished" : visit ? side + story.placeOf(visit) : between;
    player.$(".nan").hidden = !this.oddWords || (veiled && this.score.odd > t);
    if (this.oddWords) this.renderOdd(t);
  }

  /** Idea counts beats, Code steps. */
  get countsBeats() {
    return this.player.depth.shown === "idea";
  }

  /** The place of step t as this depth counts: “beat 16” or “step 71”. */
  placeAt(t) {
    return this.countsBeats ? `beat ${grouped(this.player.beatAt(t))}` : `step ${grouped(t)}`;
  }

  /** The button of the first NaN or ∞. At that step, or at one before that set one, it leads back to what was read. */
  renderOdd(t) {
    const { player } = this;
    let words = `${this.oddWords} at ${this.placeAt(this.score.odd)}`;
    this.oddAt = this.score.odd;
    if (t <= this.score.odd) player.stories.forEach((story, i) => {
      const from = sourceOfOdd(story, player.woven[i][t])?.of.find(({ odd, step }) => odd && step >= 0);
      if (!from) return;
      this.oddAt = player.positionOf[i].get(from.step);
      words = `‹ from ${from.words}, ${this.placeAt(this.oddAt)}`;
    });
    player.$(".nan").textContent = words;
    player.$(".nan").setAttribute("aria-label", words);
  }

  /** The steps with a triangle: what changes the watched variable, at the depth where one chooses it; a buffer's loads
   *  or stores at both. */
  get watched() {
    const { depth, watch } = this.player;
    return depth.shown === "code" || watch.accesses.has(watch.name) ? watch.moves : [];
  }

  /** Beside the timeline: what its orange ticks, its bar and its triangles mean. */
  explainMarks() {
    const { $, watch } = this.player;
    $(".timeline-key").hidden = watch.asks;
    $(".timeline-key .rescaled").hidden = !this.score.rescales.length;
    $(".timeline-key .first-odd").hidden = !this.oddWords;
    $(".timeline-key .first-odd span").textContent = `first ${this.oddWords.split(",")[0]}`;
    $(".timeline-key .watched").textContent = this.watched.length ? `▼ ${this.changeWords()}` : "";
  }

  /** “m_i changes”, “loads of q”. */
  changeWords() {
    const { name, accesses, condition } = this.player.watch;
    return accesses.has(name) || condition || name === FINDINGS ? name : `${name} changes`;
  }

  /** The tooltip at x of the timeline: the marks there, or what each kind of mark means. */
  tip(x) {
    const { player } = this;
    const inner = this.surface.width - 2 * TIMELINE_INSET;
    const t = player.clamp(Math.round(((x - TIMELINE_INSET) / inner) * (player.length - 1)));
    const k = player.woven[0][t];
    const [story] = player.stories;
    const visit = story.visit(k);
    const tile = visit ? `, ${this.clocks.tile.name} ${visit.ordinal + 1}` : "";
    const line = this.countsBeats ? "" : `, line ${story.trace.line[k]}`;
    const words = [`${this.placeAt(t)}${tile}${line}`];
    if (player.watch.asks && t > player.step) return words[0];
    const near = (at) => Math.abs(this.xOf(at) - x) < NEAR_PX;
    const rescale = this.score.rescales.find(({ at }) => near(at));
    if (rescale) words.push(`rescale: 0 < α < 1 in ${rescale.rows} of ${rescale.of} rows`);
    const moves = this.watched, change = this.changeWords();
    if (moves.some(near)) words.push(change);
    if (words.length > 1) return words.join("\n");
    if (this.score.rescales.length) words.push("orange: a rescale, 0 < α < 1 in one row or more");
    if (moves.length) words.push(`▾: ${change}`);
    return words.join("\n");
  }

  /** Asks for the number of a step, or of a beat, as the counter has it, and goes there. */
  askStep() {
    const { player, countsBeats } = this;
    player.pause();
    const [unit, first, last, now] = countsBeats ? ["beat", 1, player.beats.length, player.beatAt(player.step)]
      : ["step", 0, player.length - 1, player.step];
    const Unit = countsBeats ? "Beat" : "Step";
    const input = element("input");
    Object.assign(input, { type: "text", inputMode: "numeric", value: String(now), autocomplete: "off" });
    input.setAttribute("aria-label", `${Unit} number`);
    const refusal = element("p", "refusal");
    refusal.setAttribute("role", "alert");
    const form = element("form", "go-to");
    const label = element("label");
    label.append(`${Unit} `, input, ` of ${grouped(last)}`);
    const submit = element("button", "strong", "Go");
    submit.setAttribute("aria-label", `Go to this ${unit}`);
    form.append(label, submit, refusal);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = input.value.trim().replaceAll(",", "");
      const number = /^\d{1,9}$/.test(text) ? Number(text) : -1;
      if (number < first || number > last) {
        const said = input.value.trim() || "without a number";
        refusal.textContent = `There is no ${unit} ${said}. Enter ${first} to ${grouped(last)}.`;
        input.select();
        return;
      }
      close(player.section);
      player.go(countsBeats ? player.beats[number - 1].at : number);
    });
    const close = openDialog(player.section, `Go to ${unit}`, form, "small");
    input.focus();
    input.select();
  }
}
