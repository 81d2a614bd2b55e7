// The loop invariant at every step: the kernel's m and l beside the maximum and the sum of the elements seen so far, recomputed here.

import { element, exact, short } from "../words.js";
import { Panel } from "./panel.js";

const UNIT = 2 ** -24;                                     // half a step of float32 at 1: one rounding
const LISTED = 6;                                          // the most terms written out

const PROOF = {
  base: "Before the first element: m = −∞ and ℓ = 0, which is right for no elements.",
  step: "Each update: α ℓ = Σ exp(x − m) · exp(m − m~new~) = Σ exp(x − m~new~) over those seen, and the new ones add their terms. So it holds again.",
  end: "After the last: every element is seen, so m is the row’s maximum and ℓ its softmax sum.",
};

/** What stands between ~ is a subscript. */
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
      const row = { tr: element("tr"), name: element("th"), kernel: cell("value"), formula: cell("formula-of"), own: cell("value"), verdict: cell("verdict") };
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
    return Boolean(this.view.invariant) && ["scores", "running_max", "running_sum"].every((role) => this.story.roles[role]);
  }

  /** Each update of a program's sum: {step, settled, tile, scores, sum}, values by their index. What sets the sum without new elements is none. */
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

  /** The elements of one row that the updates saw, in order; those past the row's end are none. */
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
    this.hint(started ? "" : "the maximum and the sum of what was seen, against m and ℓ");
    const what = seen.length ? `after ${seen.length} of ${this.seen(all, row).length} elements${this.lane.rowCount > 1 ? `, ${this.lane.label("row", row)}` : ""}` : "no element seen yet";
    const phase = !all.length || k < (all[0].tile ? this.beginOf(all[0]) : all[0].step) ? "base" : done.length === all.length && k >= last.settled ? "end" : "step";
    for (const item of this.proof) item.classList.toggle("now", item.dataset.phase === phase);
    if (!started) return this.head("loop invariant", "", "");
    const held = this.check(seen, last, row);
    this.head("loop invariant", "", what, held.holds ? "" : "broken");
    this.root.classList.toggle("broken", !held.holds);
    this.max.name.replaceChildren(...said(!last || k >= last.settled ? "m~i~" : "m~new~"));
    const put = (line, { kernel, formula, own, agrees }) => {
      line.kernel.textContent = short(kernel);
      line.kernel.title = exact(kernel, "f32");
      line.formula.textContent = formula;
      line.own.textContent = `= ${short(own)}`;
      line.own.title = exact(own, "f64");
      line.verdict.textContent = agrees ? "✓" : "✗";
      line.verdict.title = agrees ? "equal within rounding" : `differs by ${short(Math.abs(kernel - own))}`;
      line.tr.classList.toggle("differs", !agrees);
    };
    put(this.max, held.max);
    put(this.sum, held.sum);
  }

  /** Where the loop's body that makes an update begins. */
  beginOf({ step }) {
    return this.story.visit(step)?.begin ?? step;
  }

  /** The kernel's pair against float64. The sum may be off by each update's roundings, not by more. */
  check(seen, last, row) {
    const { story } = this;
    const maximum = seen.reduce((m, x) => (x > m ? x : m), -Infinity);
    const base = maximum === -Infinity ? 0 : maximum;
    const terms = seen.map((x) => Math.exp(x - base));
    const total = terms.reduce((sum, term) => sum + term, 0);
    const max = last ? (story.role("new_max", last.step) ?? story.role("running_max", last.step)).data[row] : -Infinity;
    const sum = last ? story.trace.value(last.sum).data[row] : 0;
    const allowed = UNIT * (16 + 8 * seen.length) * total;
    const same = (a, b) => a === b || (a !== a && b !== b);
    const sumAgrees = same(sum, total) || Math.abs(sum - total) <= allowed;
    const maxAgrees = same(max, maximum) || (seen.some((x) => x !== x) && sumAgrees);
    const listed = terms.length > 0 && terms.length <= LISTED ? `${terms.map((term) => short(term)).join(" + ")}` : "Σ exp(x − m)";
    return {
      holds: maxAgrees && sumAgrees,
      max: { kernel: max, formula: seen.length ? "max of those seen" : "max of none", own: maximum, agrees: maxAgrees },
      sum: { kernel: sum, formula: seen.length ? (listed.includes("Σ") ? listed : `Σ exp(x − m) = ${listed}`) : "sum of none", own: total, agrees: sumAgrees },
    };
  }
}
