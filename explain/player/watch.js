// The watched variable: the steps that change it, jumps between them, and the question before it is set. A buffer's
// loads or stores can be watched too, a condition, and what the checks have found.

import { readCondition } from "./condition.js";
import { LOAD, STORE } from "./counters.js";
import { openDialog } from "./dialog.js";
import { Hall, cellsOf } from "./hall.js";
import { number } from "./numbers.js";
import { alongAxis, element, elementOf, mathElement } from "./words.js";
import { isFloat } from "./trace.js";

const WATCHED_FIRST = [
  "running_max", "new_max", "running_sum", "new_sum", "rescale", "scores", "exponentials", "accumulator", "output",
];
// M_i copies m_new: the question is asked where m_new is set.
const DECIDED_BY = { running_max: "new_max", running_sum: "new_sum" };
// The most relative error of an answer that is right to its digits.
const COARSE = 0.05;

/** The choice that leads from finding to finding. */
export const FINDINGS = "findings";
const ONE_OF = { queries: "query", keys: "key" };
const NEW_CONDITION = "condition …";

// The most elements of a row that a question lists.
const MOST_GIVEN = 16;

const sameNumber = (x, y) => x === y || (x !== x && y !== y);

/** Whether two decoded values hold the same numbers; NaN equals NaN. */
function sameNumbers(a, b) {
  if (a === b) return true;
  if (!a?.data || !b?.data || a.data.length !== b.data.length) return false;
  for (let i = 0; i < a.data.length; i++) if (!sameNumber(a.data[i], b.data[i])) return false;
  return true;
}

/** A typed number, and half a unit of its last digit; null where it is none. */
function typedNumber(text) {
  const plain = text.trim().replaceAll("−", "-").replace(",", ".").toLowerCase();
  const infinite = /^([+-]?)(∞|inf(inity)?)$/.exec(plain);
  if (infinite) return { value: infinite[1] === "-" ? -Infinity : Infinity, half: 0 };
  if (plain === "nan") return { value: NaN, half: 0 };
  const parsed = /^[+-]?(\d+\.?(\d*)|\.(\d+))(?:e([+-]?\d{1,3}))?$/.exec(plain);
  if (!parsed) return null;
  const decimals = (parsed[2] ?? parsed[3] ?? "").length - Number(parsed[4] ?? 0);
  return { value: Number(plain), half: 0.5000001 * 10 ** -decimals };
}

/** The verdict on an answer, which may be rounded: [right, rough, wrong or invalid; the same in words]. */
function judge(text, truth, name) {
  const answer = typedNumber(text);
  if (!answer) return ["invalid", `“${text.trim()}” is not a number. Type one such as 1.25, −inf or nan.`];
  const off = Math.abs(answer.value - truth);
  if (sameNumber(answer.value, truth)) return ["right", "Right."];
  if (!(off <= answer.half)) return ["wrong", `Not quite: ${name} = ${number(truth)}.`];
  return off <= COARSE * Math.abs(truth) ? ["right", "Right, to your digits."]
    : ["rough", "Right, but give one more digit."];
}

/** The places of an equation's tree: the texts in braces, without them. */
function placesOf(tree) {
  if (typeof tree === "string") return /^\{.+\}$/.test(tree) ? [tree.slice(1, -1)] : [];
  return Array.isArray(tree) ? tree.flatMap(placesOf) : [];
}

export class Watch {
  constructor(player) {
    this.player = player;
    this.select = player.$(".watch select");
    this.box = player.$(".ask");
    this.asks = false;
    this.question = null;
    this.moves = [];
    this.hall = new Hall(player);
    player.on(this.select, "change", () => {
      if (this.select.value === NEW_CONDITION) return this.askCondition();
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
    const chosen = (event) => {
      const name = event.composedPath().find((node) => node.dataset?.name)?.dataset.name;
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
    this.hall.leave();
    this.names = this.listNames();
    this.accesses = this.listAccesses();
    this.condition = null;
    this.found = this.listFindings();
    const names = [...(this.found.length ? [FINDINGS] : []), ...this.names, ...this.accesses.keys()];
    this.offer(names.length ? [...names, NEW_CONDITION] : []);
    this.player.$(".watch").hidden = !names.length;
    this.otherwise = [this.player.packet.watch, this.name].find((name) => names.includes(name)) ?? names[0];
    this.follow(this.otherwise);
  }

  offer(names) {
    const options = names.map((name) => Object.assign(element("option", "", name), { value: name }));
    this.select.replaceChildren(...options);
  }

  /** The timeline's steps at which a check has found something, in order. */
  listFindings() {
    const { stories, positionOf } = this.player;
    const steps = stories.flatMap(({ trace }, i) =>
      (trace.header.report?.findings ?? []).map(({ step }) => positionOf[i].get(step)));
    return [...new Set(steps)].sort((a, b) => a - b);
  }

  /** Asks for a condition and follows it; one that cannot be read is explained. */
  askCondition() {
    const { player } = this;
    player.pause();
    this.select.value = this.name ?? "";
    const input = element("input");
    Object.assign(input, { type: "text", value: this.condition ?? "", placeholder: "m_i[3] > 5", autocomplete: "off" });
    input.setAttribute("aria-label", "Condition");
    const refusal = element("p", "refusal");
    refusal.setAttribute("role", "alert");
    const form = element("form", "go-to");
    const label = element("label");
    label.append("Stop where ", input);
    const submit = element("button", "strong", "Watch");
    submit.setAttribute("aria-label", "Watch this condition");
    form.append(label, submit, refusal);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      try {
        this.read(input.value);
      } catch (error) {
        refusal.textContent = error.message;
        input.select();
        return;
      }
      close(player.section);
      this.follow(input.value.trim());
      this.jump(1);
    });
    const close = openDialog(player.section, "Watch a condition", form, "small");
    input.focus();
    input.select();
  }

  /** A condition on this run's variables. Throws an Error with a sentence if it cannot be read. */
  read(text) {
    const shapes = new Map();
    for (const { trace, historyStart, historyValue } of this.player.stories) {
      trace.header.names.forEach(([, label], name) => {
        const value = historyStart[name] < historyStart[name + 1] && trace.value(historyValue[historyStart[name]]);
        if (value && value.data && !shapes.has(label)) shapes.set(label, value.shape);
      });
    }
    return readCondition(text, shapes);
  }

  /** The timeline's steps that set a variable of the condition and leave it true. */
  stepsWhere({ names, holds }) {
    const { stories, woven } = this.player;
    const at = names.flatMap((label) => this.settings(label).map(({ at, i, name }) => ({ at, i, name })));
    const source = ({ i, name }) => stories[i].trace.header.names[name][0];
    const fulfilled = at.filter((set) => {
      const story = stories[set.i], k = woven[set.i][set.at];
      const value = (label) => story.at(story.byName.get(`${source(set)} ${label}`), k);
      return holds(new Map(names.map((label) => [label, value(label)])));
    });
    return [...new Set(fulfilled.map((set) => set.at))].sort((a, b) => a - b);
  }

  /** The accesses of each buffer: “loads of k” → [{i (the run), launch, buffer, still (the kind of access that is
   * none)}]. */
  listAccesses() {
    const out = new Map();
    const add = (way, still, moved, i, launch, buffers) => buffers.forEach(({ name }, buffer) => {
      const key = `${way} of ${name.replace(/_ptr$/, "")}`;
      if (moved[buffer]) out.set(key, [...(out.get(key) ?? []), { i, launch, buffer, still }]);
    });
    this.player.stories.forEach(({ trace }, i) => trace.header.launches.forEach(({ buffers, totals }, launch) => {
      add("loads", STORE, totals.read_bytes, i, launch, buffers);
      add("stores", LOAD, totals.written_bytes, i, launch, buffers);
    }));
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

  /** The variables that hold numbers: those with a role first, the others in order of appearance. */
  listNames() {
    const { stories } = this.player;
    const parts = stories.flatMap(({ view }) => WATCHED_FIRST.map((role) => view.roles?.[role]).filter(Boolean));
    const numeric = stories.flatMap((story) => story.trace.header.names.flatMap(([, label], name) => {
      const first = story.historyStart[name];
      if (first >= story.historyStart[name + 1] || !story.trace.value(story.historyValue[first]).data) return [];
      return [{ label, step: story.historyStep[first] }];
    }));
    const known = new Set(numeric.map(({ label }) => label));
    const order = (a, b) => (a.step === 0) - (b.step === 0) || a.step - b.step;   // what never changes comes last
    const others = numeric.sort(order).map(({ label }) => label);
    return [...new Set([...parts.filter((label) => known.has(label)), ...others])];
  }

  follow(name) {
    const { player } = this;
    const known = this.names.includes(name) || this.accesses.has(name) || (name === FINDINGS && this.found.length);
    let condition = null;
    try {
      condition = name !== undefined && !known ? this.read(name) : null;
    } catch {
      return;                                              // of an address, or of a caption for other runs
    }
    this.name = name;
    this.condition = condition && name;
    if (condition && ![...this.select.options].some(({ value }) => value === name)) {
      this.select.prepend(Object.assign(element("option", "", name), { value: name }));
    }
    this.select.value = name ?? "";
    const accesses = this.accesses.get(name);
    const settings = this.names.includes(name) ? this.settings(name) : [];
    const changes = settings.filter(({ moves }) => moves).map(({ at }) => at);
    this.moves = accesses ? this.stepsOf(accesses) : condition ? this.stepsWhere(condition)
      : name === FINDINGS ? this.found : [...new Set(changes)];
    this.asked = this.decidedBy(name);
    this.sets = this.asked === name ? settings : this.settings(this.asked);
    this.question = null;
    player.stamp++;
    if (!player.ready) return;
    player.render();
    player.settle();
  }

  /** The variable that decides this one's value: m_i is a copy of m_new. */
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
          const moves = !here || !sameNumbers(here, story.trace.value(story.historyValue[at]));
          out.push({ at: positionOf[i].get(step), i, name, moves });
        }
      });
    });
    return out.sort((a, b) => a.at - b.at);
  }

  /** Goes to the next or the previous step that changes the variable. */
  jump(direction) {
    const { player } = this;
    const t = player.step;
    const to = direction > 0 ? this.moves.find((at) => at > t) : this.moves.findLast((at) => at < t);
    const none = this.condition ? `${this.name} is never true` : this.names.includes(this.name)
      ? `${this.name} does not change` : `No ${this.name}`;
    if (to === undefined) return this.player.say(`${none} ${direction > 0 ? "after" : "before"} this step.`);
    return direction > 0 ? player.advance(to) : player.go(to);
  }

  // --- the question before a step ---

  toggle() {
    const { player } = this;
    this.asks = !this.asks;
    if (this.asks) this.hall.seek();
    else this.question = null;
    player.$("[data-do=ask]").setAttribute("aria-pressed", String(this.asks));
    player.section.classList.toggle("asks", this.asks);
    player.render();
  }

  /** The first setting after step `from` up to `to` that has a question, or undefined. */
  stopWithin(from, to) {
    return this.asks ? this.sets.find(({ at }) => at > from && at <= to && at > 0) : undefined;
  }

  /** The last one of these, or undefined. */
  lastWithin(from, to) {
    return this.sets.findLast(({ at }) => at > from && at <= to && at > 0);
  }

  /** Whether this setting's question is open. */
  isAsked(set) {
    return this.question?.set === set && this.player.step === set.at - 1;
  }

  /** Whether a question is open at step t: what follows is to be predicted. */
  hides(t) {
    return this.question?.set.at - 1 === t;
  }

  ask(set) {
    this.question = { set, given: "" };
    this.box.querySelector("input").value = "";
    this.player.go(set.at - 1, false, true);
    this.box.querySelector("input").focus({ preventScroll: true });
  }

  /** Closes the question; true if there was one. */
  dismiss() {
    const open = Boolean(this.question);
    if (open) this.player.section.focus({ preventScroll: true });
    this.question = null;
    this.box.hidden = true;
    this.hall.leave();
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
    const moves = player.$(".watch .moves");
    const what = this.condition ? "true" : this.names.includes(this.name) ? "change" : this.name?.split("s of ")[0];
    moves.textContent = `${what} ${past} of ${this.moves.length}`;
    moves.dataset.of = `${past}/${this.moves.length}`;
    const at = question ? question.set.at : -1;
    if (t !== at && t !== at - 1) this.question = null;
    this.box.hidden = !this.question;
    const revealed = t === at;
    this.hall.render(this.question, revealed);
    if (!this.question) return;
    this.box.classList.toggle("revealed", revealed);
    this.box.querySelector("form").hidden = revealed;
    const { words, old, now } = this.element(question.set);
    this.give(question.set, revealed);
    const line = player.stories[question.set.i].trace.line[player.woven[question.set.i][at]];
    const asks = revealed ? `Line ${line}${words}`
      : this.hall.asked?.words ?? `Next is line ${line}. What will ${this.asked} be${words}?`;
    this.box.querySelector(".question").textContent = asks;
    const [verdict, judged] = revealed && question.given.trim() ? judge(question.given, now, this.asked) : ["", ""];
    this.box.dataset.verdict = verdict;
    this.box.dataset.line = line;
    this.box.dataset.asked = this.asked;
    this.box.querySelector(".verdict").textContent = judged;
    const change = this.box.querySelector(".change");
    change.hidden = !revealed;
    if (!revealed) return;
    const name = element("b", "", this.asked);
    const quantity = player.lanes[question.set.i].quantityOf?.get(this.asked);
    if (quantity) name.dataset.q = quantity;
    change.replaceChildren(name, ` ${old === null ? "" : `${old} → `}${this.written}`);
  }

  /** Shows the asked line's formula, and the numbers that enter it: of the selected element, before the line runs. */
  give({ i, at }, revealed) {
    const lane = this.player.lanes[i];
    const k = this.player.woven[i][at];
    const { trace } = lane.story;
    const equation = lane.annotations.sources[trace.source[k]].equations[trace.line[k]];
    const formula = this.box.querySelector(".formula"), given = this.box.querySelector(".given");
    formula.hidden = given.hidden = revealed || !equation;
    if (formula.hidden) return;
    formula.replaceChildren(mathElement(["math", equation.plain], (name) => lane.quantityOf.get(name), []));
    const numbers = new Map(placesOf(equation.numbers).filter((place) => place !== equation.variable)
      .flatMap((place) => this.numbersOf(place, lane, k)));
    given.replaceChildren(...[...numbers].map(([name, text]) => {
      const pair = element("div");
      const term = element("dt", "", name);
      const quantity = lane.quantityOf.get(name);
      if (quantity) term.dataset.q = quantity;
      pair.append(term, element("dd", "", text));
      return pair;
    }));
  }

  /** The numbers that an equation's place stands for before step k: [[name, text], …]. */
  numbersOf(place, lane, k) {
    const at = { ...lane.at, isOutput: lane.quantityOf.get(this.asked) === "acc" };
    const list = (name, axis, where = at) => {
      const value = lane.lookup(name, k - 1, k);
      const all = alongAxis(value, axis, where)?.map((x) => number(x, !isFloat(value.dtype)));
      return all ? [[name, all.slice(0, MOST_GIVEN).join(", ") + (all.length > MOST_GIVEN ? ", …" : "")]] : [];
    };
    const [how, ...parts] = place.split("|");
    if (how === "dot") {
      const column = at.isOutput ? at.dim : at.col;
      return [...list(parts[0], "1"),
        ...list(parts[1], parts[2] === "T" ? "1" : "0", { row: column, col: column })];
    }
    if (parts.length) return how === "pid" ? [] : list(parts[0], parts[1]);
    const [name, , hint] = place.split(":");
    const value = lane.lookup(name, k - 1, k);
    const index = elementOf(value, hint || undefined, { ...at, isOutput: lane.quantityOf.get(name) === "acc" });
    return index < 0 || !value.data ? [] : [[name, number(value.data[index], !isFloat(value.dtype))]];
  }

  /** The question or its answer, for screen readers. */
  said() {
    if (!this.question) return "";
    const parts = ["question", "given", "change", "verdict"].map((part) => this.box.querySelector(`.${part}`));
    return `${parts.filter((p) => !p.hidden && p.textContent).map((p) => p.textContent).join(": ")} `;
  }

  /** The asked element at the selected row and column: its place in words, its old and new value, the cells of the map
   * that it comes from. */
  element({ i, name, at }) {
    const { player } = this;
    const lane = player.lanes[i];
    const story = player.stories[i];
    const k = player.woven[i][at];
    const value = story.at(name, k), last = story.at(name, k - 1);
    const place = { ...lane.at, isOutput: lane.quantityOf?.get(this.asked) === "acc" };
    const index = Math.max(0, elementOf(value, undefined, place));
    const whole = !isFloat(value.dtype);
    const rows = value.shape.length > 0 && lane.at.rows > 1 && value.shape[0] === lane.at.rows;
    const words = [player.stories.length > 1 ? (i ? "on the right" : "on the left") : "", rows
      ? lane.label("row", lane.at.row) : ""];
    const column = () => (place.isOutput ? `dimension ${index % value.shape[1]}` : lane.label("column", lane.at.col));
    if (value.shape.length === 2) words.push(column());
    const said = words.filter(Boolean).join(", ");
    const before = last?.data?.length === value.data.length ? last.data[index] : null, now = value.data[index];
    this.written = number(now, whole);
    const role = Object.keys(story.roles).find((one) => story.roles[one].get(story.trace.source[k]) === name);
    return { words: said ? `, ${i || player.stories.length > 1 ? "" : "in "}${said}`
      : "", old: before === null ? null : number(before, whole), now, before,
      role, cells: cellsOf(story, k, role, lane.at.row, now),
      shape: story.scoreMap && [story.scoreMap.height, story.scoreMap.width],
      axes: (story.view.axes ?? []).map((axis) => ONE_OF[axis] ?? axis) };
  }
}
