// A beat in words: its name, and one sentence with the numbers of the followed row.

import { bytes, number } from "./numbers.js";
import { Telling } from "./sentences.js";
import { isNormalised } from "./story.js";

const SYMBOLS = { q: "Q", k: "K", v: "V", o: "O", o_hbm: "O so far", s: "S", p: "P", m: "m", l: "ℓ", lse: "L", top: "y",
  do: "dO", dp: "dP", ds: "dS", dq: "dQ", dk: "dK", dv: "dV", delta: "δ",
  part_o: "O of parts", part_lse: "lse of parts", h: "H", w: "W", x_target: "xₜ", dx: "dX", dh: "dH", dw: "dW",
};
const BY_ROLE = {
  running_max: "m", new_max: "m", running_sum: "ℓ", new_sum: "ℓ",
  rescale: "α", other_rescale: "β", accumulator: "Õ", other_max: "m₂", other_sum: "ℓ₂", weights: "P",
  kept: "kept", other_output: "O of the part", logsumexp: "L", row_gradient: "δ", output_gradient: "dO",
  weights_gradient: "dP", scores_gradient: "dS", queries_gradient: "dQ", keys_gradient: "dK", values_gradient: "dV",
};

/** How a buffer of a run is written: q is Q, m_hbm is m, o_hbm is O of the keys so far; what one launch calls x is S
 * where another wrote it as s. */
export function bufferSymbol(pointer, { also = {}, roles = {} }) {
  const own = pointer.replace(/_(ptr|desc)$/, ""), name = also[own] ?? own;
  if (!Object.keys(roles).length) return name;             // of an unknown kernel: as its code has it
  if (name === "x" && roles.target) return "X";            // a loss's logits, a matrix
  return SYMBOLS[name] ?? SYMBOLS[name.split("_")[0]] ?? name;
}

/** How the variable of a role is written at step k. */
export function roleSymbol(story, role, k) {
  if (role === "exponentials") return isNormalised(story, k) ? "P" : "P̃";
  if (role === "other_max" && !story.view.roles.other_sum) return "lse"; // of a part, which is divided by its sum
  if (role === "values" && story.roles.weights_gradient) return "Vᵀ"; // above dP = dO Vᵀ
  if (role === "accumulator" && !story.view.roles.output) return "O"; // of weights that are divided already
  const variable = story.view.roles[role];
  if (role === "scores" && story.view.roles.target) return "X";
  if (role === "keys") return `${SYMBOLS[variable] ?? variable}ᵀ`;
  return BY_ROLE[role] ?? SYMBOLS[variable] ?? variable;
}

const listedWords = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]);
const symbolsOf = (names, view) => listedWords([...new Set(names.map((name) => bufferSymbol(name, view)))]);

const isOneElement = (story, k) => story.role("scores", k)?.data?.length === 1;

/** A beat's name: “new maximum”, “load K”. */
export function beatName(story, { kind, names, end }) {
  const scores = () => roleSymbol(story, "scores", end - 1);
  const sums = () => names.map((name) => Object.keys(story.view.roles).find((role) => story.view.roles[role] === name))
    .map((role) => roleSymbol(story, role, end - 1)).join(" and ");
  const written = {
    setup: () => "start", load: () => `load ${symbolsOf(names, story.view)}`,
    scores: () => `${story.view.roles.target ? "logits" : "scores"} ${scores()}`, new_max: () => "new maximum",
    exponentials: () => (story.view.roles.scores_gradient ? "P again" : "exponentials"),
    row_gradient: () => "δ", weights_gradient: () => "dP", scores_gradient: () => "dS", rescale: () => `rescale ${sums()}`,
    add: () => (names.includes(story.view.roles.result) ? "add" : `add to ${sums()}`),
    drop: () => `drop ${isOneElement(story, end - 1) ? scores() : "the tile"}`,
    merge: () => "merge", keep: () => "keep the largest",
    pick: () => "target's logit", gradient: () => `gradient ${roleSymbol(story, "gradient", end - 1)}`, loss: () => "loss",
    finish: () => "end of the pass", normalise: () => "divide by ℓ", write: () => `write ${symbolsOf(names, story.view)}`,
  };
  return written[kind]();
}

/** The beat in one sentence, for row `row` of its tile. */
export function beatSentence(story, beat, row) {
  return new BeatTelling(story, beat, row).told();
}

class BeatTelling extends Telling {
  constructor(story, beat, row) {
    super(story, beat.at, row);
    this.beat = beat;
    this.last = beat.end - 1;
  }

  told() {
    const own = {
      load: "moves", write: "moves", scores: "scores", setup: "starts", finish: "ends", drop: "drops",
      normalise: "weights", keep: "keeps",
    }[this.beat.kind];
    return (own && this[own]()) || this.sentence();
  }

  /** Several loads or stores as one; "" for a single one, which has a sentence of its own. */
  moves() {
    const { story, beat } = this;
    const { access_at: at, access_bytes: moved } = story.trace;
    const all = Array.from(moved.slice(at[beat.begin], at[beat.end]));
    if (all.length < 2) return "";
    const total = bytes(all.reduce((sum, n) => sum + n, 0));
    const [verb, way] = beat.kind === "load" ? ["Loads", "from"] : ["Writes", "to"];
    return `${verb} ${symbolsOf(beat.names, story.view)} ${way} HBM: ${total}.`;
  }

  scores() {
    const now = this.along(this.story.role("scores", this.last));
    return now ? this.rowOfScores(now) : "";
  }

  keeps() {
    return this.keptMade(this.story.role("kept", this.last));
  }

  /** The state that stays on chip, with the row's numbers: “m = 2.19”. */
  state() {
    const { story, last } = this;
    const set = (role) => story.changedAt(role, this.program.first, last);
    const held = (running, updated) => {                   // whichever was set last
      const role = set(updated) > set(running) ? updated : running, value = this.number(role, last);
      return value === undefined || !story.roles[role] ? [] : [`${roleSymbol(story, role, last)} = ${number(value)}`];
    };
    const accumulator = story.role("accumulator", last) ? [roleSymbol(story, "accumulator", last)] : [];
    return [...held("running_max", "new_max"), ...held("running_sum", "new_sum"), ...accumulator];
  }

  starts() {
    const state = this.state();
    if (!this.beat.names.length || !state.length) return this.opening();
    return `Nothing is seen yet: ${listedWords(state.map((one) => (/=/.test(one) ? one : `${one} = 0`)))}.`;
  }

  ends() {
    const state = this.state();
    return state.length ? this.say(`the pass is done: ${listedWords(state)}`) : "";
  }

  drops() {
    const what = isOneElement(this.story, this.last) ? "element" : "tile";
    return this.say(`the ${what} is dropped; ${listedWords(this.state())} stay`);
  }

  weights() {
    const value = this.story.role("weights", this.last);
    if (!value || !this.beat.names.includes(this.story.view.roles.weights)) return "";
    return this.say(`P = P̃ ÷ ℓ, with ℓ = ${number(this.number("running_sum", this.last))}`);
  }
}
