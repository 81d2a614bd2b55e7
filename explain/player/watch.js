// The watched variable: where it moves, jumps from move to move, and the question before it is set. A buffer's loads or stores can be watched too.

import { LOAD, STORE } from "./counters.js";
import { element, elementOf, short } from "./words.js";
import { isFloat } from "./trace.js";

const WATCHED_FIRST = ["running_max", "new_max", "running_sum", "new_sum", "rescale", "scores", "probabilities", "accumulator", "output"];
const DECIDED_BY = { running_max: "new_max", running_sum: "new_sum" };         // the copy tells nothing: ask where the value is made
const COARSE = 0.05;                                       // an answer this far off, relative, is right only to its few digits

const sameNumber = (x, y) => x === y || (x !== x && y !== y);

/** Whether two decoded values hold the same numbers; NaN equals NaN. */
export function sameNumbers(a, b) {
  if (a === b) return true;
  if (!a?.data || !b?.data || a.data.length !== b.data.length) return false;
  for (let i = 0; i < a.data.length; i++) if (!sameNumber(a.data[i], b.data[i])) return false;
  return true;
}

/** A number as people type it; null where it is none. */
function typedNumber(text) {
  const plain = text.trim().replaceAll("−", "-").replace(",", ".").toLowerCase();
  const infinite = /^([+-]?)(∞|inf(inity)?)$/.exec(plain);
  if (infinite) return { value: infinite[1] === "-" ? -Infinity : Infinity, half: 0 };
  if (plain === "nan") return { value: NaN, half: 0 };
  const number = /^[+-]?(\d+\.?(\d*)|\.(\d+))(?:e([+-]?\d{1,3}))?$/.exec(plain);
  if (!number) return null;
  const decimals = (number[2] ?? number[3] ?? "").length - Number(number[4] ?? 0);
  return { value: Number(plain), half: 0.5000001 * 10 ** -decimals };
}

/** What to say of an answer: right within the rounding of its own digits, or not. */
export function judge(text, truth, name) {
  const answer = typedNumber(text);
  if (!answer) return `“${text.trim()}” is no number: type one such as 1.25, −inf or nan.`;
  const off = Math.abs(answer.value - truth);
  if (sameNumber(answer.value, truth)) return "Right.";
  if (!(off <= answer.half)) return `Not quite: ${name} is ${short(truth)}.`;
  return off <= COARSE * Math.abs(truth) ? "Right, to the digits you gave." : "Right as far as it goes; one more digit would tell.";
}

export class Watch {
  constructor(player) {
    this.player = player;
    this.select = player.$(".watch select");
    this.box = player.$(".ask");
    this.asks = false;
    this.question = null;
    this.moves = [];
    player.on(this.select, "change", () => {
      this.follow(this.select.value);
      player.section.focus({ preventScroll: true });
    });
    player.on(player.$(".watch"), "click", (event) => {
      const button = event.target.closest("button");
      if (button) player.act(button.dataset.do);
    });
    player.on(this.box.querySelector("form"), "submit", (event) => {
      event.preventDefault();
      this.answer();
    });
    const named = (event) => event.composedPath().find((node) => node.dataset?.name);
    const chosen = (event) => {
      const name = named(event)?.dataset.name;
      if (!name || !this.names.includes(name)) return;
      event.preventDefault();
      this.follow(name);
      this.jump(1);
    };
    player.on(player.$(".lanes"), "click", (event) => event.altKey && chosen(event));
    player.on(player.$(".lanes"), "contextmenu", chosen);
  }

  load() {
    this.question = null;
    this.box.hidden = true;
    this.names = this.listNames();
    this.accesses = this.listAccesses();
    const names = [...this.names, ...this.accesses.keys()];
    this.select.replaceChildren(...names.map((name) => Object.assign(element("option", "", name), { value: name })));
    this.player.$(".watch").hidden = !names.length;
    this.follow([this.player.packet.watch, this.name].find((name) => names.includes(name)) ?? names[0]);
  }

  /** What is done to each buffer of a launch: "loads of k" → [{run, launch, buffer, the kind of access that is none}]. */
  listAccesses() {
    const out = new Map();
    this.player.stories.forEach(({ trace }, i) => trace.header.launches.forEach(({ buffers, totals }, launch) => buffers.forEach(({ name }, buffer) => {
      for (const [way, bytes, still] of [["loads", totals.read_bytes, STORE], ["stores", totals.written_bytes, LOAD]]) {
        const key = `${way} of ${name.replace(/_ptr$/, "")}`;
        if (bytes[buffer]) out.set(key, [...(out.get(key) ?? []), { i, launch, buffer, still }]);
      }
    })));
    return out;
  }

  /** The timeline's steps at which these accesses are made, in order. */
  stepsOf(accesses) {
    const { stories, positionOf } = this.player;
    const out = new Set();
    for (const { i, launch, buffer, still } of accesses) {
      const { trace, programs } = stories[i];
      for (const program of programs) {
        if (program.launch !== launch) continue;
        for (let k = program.first; k < program.end; k++) {
          for (let a = trace.access_at[k]; a < trace.access_at[k + 1]; a++) {
            if (trace.access_buffer[a] === buffer && trace.access_kind[a] !== still) out.add(positionOf[i].get(k));
          }
        }
      }
    }
    return [...out].sort((a, b) => a - b);
  }

  /** The variables that hold numbers: those with a part to play first, the others as they appear. */
  listNames() {
    const { stories } = this.player;
    const parts = stories.flatMap(({ view }) => WATCHED_FIRST.map((role) => view.roles?.[role]).filter(Boolean));
    const numeric = stories.flatMap((story) => story.trace.header.names.flatMap(([, label], name) => {
      const first = story.historyStart[name];
      return first < story.historyStart[name + 1] && story.trace.value(story.historyValue[first]).data ? [{ label, step: story.historyStep[first] }] : [];
    }));
    const known = new Set(numeric.map(({ label }) => label));
    const others = numeric.sort((a, b) => a.step - b.step).map(({ label }) => label);
    return [...new Set([...parts.filter((label) => known.has(label)), ...others])];
  }

  follow(name) {
    const { player } = this;
    this.name = name;
    this.select.value = name ?? "";
    const accesses = this.accesses.get(name);
    const settings = name === undefined || accesses ? [] : this.settings(name);
    this.moves = accesses ? this.stepsOf(accesses) : [...new Set(settings.filter(({ moves }) => moves).map(({ at }) => at))];
    this.asked = this.decidedBy(name);
    this.sets = this.asked === name ? settings : this.settings(this.asked);
    this.question = null;
    player.stamp++;
    if (player.ready) player.render();
  }

  /** The variable whose setting decides the value of this one: m_i is a copy of m_new. */
  decidedBy(name) {
    const { roles = {} } = this.player.stories[0].view;
    const role = Object.keys(DECIDED_BY).find((part) => roles[part] === name);
    const made = roles[DECIDED_BY[role]];
    return this.names.includes(made) ? made : name;
  }

  /** Every time the variable is set, in the timeline's steps, in either run: [{at, i, name, moves}]. */
  settings(label) {
    const { stories, positionOf } = this.player;
    const out = [];
    stories.forEach((story, i) => {
      story.trace.header.names.forEach(([, own], name) => {
        if (own !== label) return;
        for (let at = story.historyStart[name]; at < story.historyStart[name + 1]; at++) {
          const step = story.historyStep[at];
          if (step === story.frameStart[step]) continue;   // an argument, handed in
          const before = story.at(name, step - 1);
          const here = story.programAt[step] === story.programAt[step - 1] ? before : null;
          out.push({ at: positionOf[i].get(step), i, name, moves: !here || !sameNumbers(here, story.trace.value(story.historyValue[at])) });
        }
      });
    });
    return out.sort((a, b) => a.at - b.at);
  }

  /** To the next or the previous step at which the variable's value differs from the one before. */
  jump(direction) {
    const { player } = this;
    const t = player.step;
    const to = direction > 0 ? this.moves.find((at) => at > t) : this.moves.findLast((at) => at < t);
    if (to === undefined) return this.player.say(`${this.accesses.has(this.name) ? `no ${this.name}` : `${this.name} does not move`} ${direction > 0 ? "after" : "before"} this step`);
    return direction > 0 ? player.advance(to) : player.go(to);
  }

  // --- the question before a step ---

  toggle() {
    const { player } = this;
    this.asks = !this.asks;
    if (!this.asks) this.question = null;
    player.$("[data-do=ask]").setAttribute("aria-pressed", String(this.asks));
    player.section.classList.toggle("asks", this.asks);
    player.render();
  }

  /** The first setting after step `from` up to `to` that is to be asked for, or undefined. */
  stopWithin(from, to) {
    return this.asks ? this.sets.find(({ at }) => at > from && at <= to && at > 0) : undefined;
  }

  /** Whether this setting is being asked for now. */
  isAsked(set) {
    return this.question?.set === set && this.player.step === set.at - 1;
  }

  ask(set) {
    this.question = { set, given: "" };
    this.box.querySelector("input").value = "";
    this.player.go(set.at - 1, false, true);
  }

  /** Takes back the question; true if there was one. */
  dismiss() {
    const open = Boolean(this.question);
    this.question = null;
    this.box.hidden = true;
    return open;
  }

  answer() {
    const { player, question } = this;
    if (!question) return;
    question.given = this.box.querySelector("input").value;
    player.act("next");
    player.section.focus({ preventScroll: true });
  }

  render(t) {
    const { player, question } = this;
    const past = this.moves.filter((at) => at <= t).length;
    player.$(".watch .moves").textContent = `${past} / ${this.moves.length}`;
    const at = question ? question.set.at : -1;
    if (t !== at && t !== at - 1) this.question = null;
    this.box.hidden = !this.question;
    if (!this.question) return;
    const revealed = t === at;
    this.box.classList.toggle("revealed", revealed);
    this.box.querySelector("form").hidden = revealed;
    const { words, old, now } = this.element(question.set);
    const line = player.stories[question.set.i].trace.line[player.woven[question.set.i][at]];
    this.box.querySelector(".question").textContent = revealed ? `Line ${line}${words}` : `Line ${line} is next. What will ${this.asked} be${words}?`;
    this.box.querySelector(".verdict").textContent = revealed && question.given.trim() ? judge(question.given, now, this.asked) : "";
    const change = this.box.querySelector(".change");
    change.hidden = !revealed;
    if (!revealed) return;
    const name = element("b", "", this.asked);
    const quantity = player.lanes[question.set.i].quantityOf?.get(this.asked);
    if (quantity) name.dataset.q = quantity;
    change.replaceChildren(name, ` ${old === null ? "" : `${old} → `}${this.written}${old === this.written ? ", unchanged" : ""}`);
  }

  /** The question or its answer, for those who listen. */
  said() {
    if (!this.question) return "";
    return `${["question", "change", "verdict"].map((part) => this.box.querySelector(`.${part}`)).filter((p) => !p.hidden && p.textContent).map((p) => p.textContent).join(": ")} `;
  }

  /** The asked element, in words, as it was and as it is: that of the selected row, and the selected column of a tile. */
  element({ i, name, at }) {
    const { player } = this;
    const lane = player.lanes[i];
    const story = player.stories[i];
    const k = player.woven[i][at];
    const value = story.at(name, k), before = story.at(name, k - 1);
    const place = { ...lane.at, isOutput: lane.quantityOf?.get(this.asked) === "acc" };
    const index = Math.max(0, elementOf(value, undefined, place));
    const whole = !isFloat(value.dtype);
    const rows = value.shape.length > 0 && lane.at.rows > 1 && value.shape[0] === lane.at.rows;
    const words = [player.stories.length > 1 ? (i ? "on the right" : "on the left") : "", rows ? lane.label("row", lane.at.row) : ""];
    if (value.shape.length === 2) words.push(place.isOutput ? `dimension ${index % value.shape[1]}` : lane.label("column", lane.at.col));
    const said = words.filter(Boolean).join(", ");
    const old = before?.data?.length === value.data.length ? short(before.data[index], whole) : null;
    this.written = short(value.data[index], whole);
    return { words: said ? `, ${i || player.stories.length > 1 ? "" : "in "}${said}` : "", old, now: value.data[index] };
  }
}
