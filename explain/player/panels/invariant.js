// The loop invariant at every step: the kernel's m and ℓ beside the maximum and the sum of the elements seen so far.

import { exact, number } from "../numbers.js";
import { element } from "../words.js";
import { Panel } from "./panel.js";

const UNIT = 2 ** -24;                                     // half a step of float32 at 1: one rounding
const LISTED = 6;                                          // the most terms written out

const PROOF = {
  base: "Before the first element: m = −∞ and ℓ = 0. No elements: it holds.",
  step: "Each update: α ℓ = Σ exp(x − m) · exp(m − m~new~) = Σ exp(x − m~new~) over the old elements. "
    + "The new ones add theirs. It holds again.",
  end: "After the last element: m is the row’s maximum and ℓ its softmax sum.",
};

/** Text and subscripts, which are written between ~. */
function said(text) {
  return text.split("~").map((part, i) => (i % 2 ? element("sub", "", part) : part));
}

export class InvariantPanel extends Panel {
  constructor(lane) {
    super(lane, "invariant");
    this.updates = new Map();
    if (!this.shown) return;
    const cell = (className = "") => element("td", className);
    const line = (quantity, symbol) => {
      const row = { tr: element("tr"), name: element("th"), kernel: cell("value"), formula: cell("formula-of") };
      Object.assign(row, { own: cell("value"), verdict: cell("verdict") });
      row.name.dataset.q = quantity;
      row.name.append(...said(symbol));
      row.tr.append(row.name, row.kernel, row.formula, row.own, row.verdict);
      return row;
    };
    this.max = line("max", "m~i~");
    this.sum = line("sum", "ℓ~i~");
    this.table = element("table");
    this.table.append(this.max.tr, this.sum.tr);
    this.proof = Object.entries(this.story.roles.rescale ? PROOF : {}).map(([phase, text]) => {
      const item = element("li");
      item.dataset.phase = phase;
      item.append(...said(text));
      return item;
    });
    const list = element("ol");
    list.append(...this.proof);
    this.root.append(this.table, list);
  }

  get shown() {
    return Boolean(this.view.invariant)
      && ["scores", "running_max", "running_sum"].every((role) => this.story.roles[role]);
  }

  /** Each update of a program's sum that adds elements: {step, settled, tile, scores, sum}, values by their index. */
  updatesOf(p) {
    if (this.updates.has(p)) return this.updates.get(p);
    const { story } = this;
    const { first, end } = story.programs[p];
    const within = (role) => story.eventsOf(role).filter(({ step }) => step >= first && step < end);
    const scores = within("scores"), maxima = within("running_max");
    const out = [];
    let next = 0;
    for (const { step, value } of within("running_sum")) {
      let latest = null;
      while (next < scores.length && scores[next].step < step) latest = scores[next++];
      if (!latest) continue;
      const settled = story.roles.new_max ? maxima.find((event) => event.step > step)?.step ?? end : step;
      out.push({ step, settled, tile: story.tile(step), scores: latest.value, sum: value });
    }
    this.updates.set(p, out);
    return out;
  }

  /** The elements of one row that the updates saw, in order, up to the row's end. */
  seen(updates, row) {
    const width = this.view.score_shape?.[1] ?? Infinity;
    return updates.flatMap(({ scores, tile }) => {
      const { data } = this.story.trace.value(scores);
      const count = tile.cols.length;
      return Array.from(tile.cols).flatMap((col, c) => (col < width ? [data[row * count + c]] : []));
    });
  }

  write(k) {
    const { story } = this;
    const row = this.lane.at.row;
    const all = this.updatesOf(story.programAt[k]);
    const done = all.filter(({ step }) => step <= k);
    const last = done.at(-1);
    const seen = this.seen(done, row);
    const started = story.role("running_sum", k)?.data;
    this.table.hidden = !started;
    this.hint(started ? "" : "m and ℓ of the kernel against the elements seen so far");
    const where = this.lane.rowCount > 1 ? `, ${this.lane.label("row", row)}` : "";
    const of = this.seen(all, row).length;
    const what = `after ${seen.length} of ${of} elements${where}`;
    Object.assign(this.root.dataset, { seen: seen.length, of });
    const first = all[0]?.tile ? this.beginOf(all[0]) : all[0]?.step ?? Infinity;
    const phase = k < first ? "base" : done.length === all.length && k >= last.settled ? "end" : "step";
    for (const item of this.proof) item.classList.toggle("now", item.dataset.phase === phase);
    if (!started) return this.head("loop invariant", "", "");
    const held = this.check(seen, last, row);
    this.head("loop invariant", "", what, held.holds ? "" : "broken");
    this.root.classList.toggle("broken", !held.holds);
    this.max.name.replaceChildren(...said(!last || k >= last.settled ? "m~i~" : "m~new~"));
    const put = (line, { kernel, formula, own, agrees }) => {
      line.kernel.textContent = number(kernel);
      line.kernel.title = exact(kernel, "f32");
      line.formula.textContent = formula;
      line.own.textContent = `= ${number(own)}`;
      line.own.title = exact(own, "f64");
      line.verdict.textContent = agrees ? "✓" : "✗";
      line.verdict.title = agrees ? "equal up to rounding" : `error ${number(Math.abs(kernel - own))}`;
      line.tr.classList.toggle("differs", !agrees);
    };
    put(this.max, held.max);
    put(this.sum, held.sum);
  }

  /** The step where the iteration that makes an update begins. */
  beginOf({ step }) {
    return this.story.visit(step)?.begin ?? step;
  }

  /** The kernel's pair against float64. The tolerance of the sum is the roundings of its updates. */
  check(seen, last, row) {
    const { story } = this;
    const maximum = seen.reduce((m, x) => (x > m ? x : m), -Infinity);
    const base = maximum === -Infinity ? 0 : maximum;
    const terms = seen.map((x) => Math.exp(x - base));
    const total = terms.reduce((sum, term) => sum + term, 0);
    const max = last ? (story.role("new_max", last.step) ?? story.role("running_max", last.step)).data[row] : -Infinity;
    const sum = last ? story.trace.value(last.sum).data[row] : 0;
    const tolerance = UNIT * (16 + 8 * seen.length) * total;
    const same = (a, b) => a === b || (a !== a && b !== b);
    const sumAgrees = same(sum, total) || Math.abs(sum - total) <= tolerance;
    const maxAgrees = same(max, maximum) || (seen.some((x) => x !== x) && sumAgrees);
    const formula = "Σ exp(x − m)";
    const listed = terms.length > LISTED ? formula : `${formula} = ${terms.map((term) => number(term)).join(" + ")}`;
    return {
      holds: maxAgrees && sumAgrees,
      max: { kernel: max, formula: seen.length ? "max of elements" : "max of none", own: maximum, agrees: maxAgrees },
      sum: { kernel: sum, formula: seen.length ? listed : "sum of none", own: total, agrees: sumAgrees },
    };
  }
}
