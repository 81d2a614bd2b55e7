// The running state, row by row: m, α and ℓ, before this tile and now.

import { exact, number, range } from "../numbers.js";
import { paintRows } from "../pictures/rows.js";
import { explainDrawn } from "../terms.js";
import { Panel } from "./panel.js";

const STATE = ["running_max", "running_sum", "rescale"];

export class RowsPanel extends Panel {
  constructor(lane) {
    super(lane, "rows");
    this.terms = this.root.querySelector(".terms");
  }

  get shown() {
    const { roles } = this.story;
    return !roles.tile_at && STATE.some((role) => roles[role]);
  }

  /** The state of the current rows: before this tile, and after its update, if that has happened. */
  state(k) {
    const { story, lane } = this;
    const has = (...roles) => roles.some((role) => story.roles[role]);
    const start = story.programs[story.programAt[k]].first;
    const since = Math.max(start, story.changedAt("rows", start, k));
    const begin = lane.visit?.begin ?? k + 1;
    const read = (role, at) => (story.changedAt(role, since, at) >= 0 ? story.role(role, at)?.data : undefined);
    const updated = (role, from) => (story.changedAt(role, from, k) >= 0 ? story.firstChange(role, from) : -1);
    const alpha = updated("rescale", begin);
    // A sum that is set before alpha is loaded, not updated.
    const update = (next, running, from) => {
      const role = story.roles[next] ? next : running;
      const at = updated(role, from);
      return at < 0 ? { before: read(running, k) } : { before: read(running, at - 1), now: read(role, k) };
    };
    const added = !has("rescale") ? begin : alpha < 0 ? k + 1 : alpha + 1;
    return {
      rows: lane.rowCount,
      labels: lane.rowLabels(),
      max: has("running_max", "new_max") ? update("new_max", "running_max", begin) : null,
      alpha: has("rescale") ? (alpha < 0 ? new Array(lane.rowCount) : read("rescale", k)) : null,
      sum: has("running_sum") ? update("new_sum", "running_sum", added) : null,
      span: lane.ranges.max,
      largestSum: lane.ranges.sum,
    };
  }

  render(k) {
    this.shownState = this.state(k);
    const { max, alpha, sum } = this.shownState;
    const known = [max?.before, max?.now, sum?.before, sum?.now].some(Boolean);
    const parts = [max && "running max m", alpha && "rescale factor α", sum && "running sum ℓ"].filter(Boolean);
    const kept = STATE.some((role) => this.story.nameOf(role, k) !== undefined); // else another launch's kernel has it
    this.hint(known ? "" : kept ? `${parts.join(", ")} of each row` : "This launch's kernel keeps none.");
    this.known = known;
    this.paint();
    const when = !known ? (kept ? "not set yet" : "") : this.lane.visit ? "before this tile → now" : "";
    this.head("running state", "", [this.window(), when].filter(Boolean).join(" · "));
    const { row } = this.lane.at;
    const read = (name, value) => (value === undefined ? "" : `; ${name} ${number(value)}`);
    const [m, l] = [max, sum].map((part) => (part?.now ?? part?.before)?.[row]);
    this.canvas.setAttribute("aria-label",
      `Running state, row ${row}${read("max", m)}${read("rescale factor", alpha?.[row])}${read("sum", l)}`);
  }

  paint() {
    const { lane, surface, palette, known, shownState: state } = this;
    const { max, alpha, sum } = state;
    const phase = this.moves(lane.step) ? lane.phase : 1;
    const glows = lane.quantityOf.get(lane.glowing), differs = this.differing(), { row } = lane.at;
    const factors = alpha?.[0] === undefined ? null : alpha, marked = differs && [...differs].join();
    const values = [max?.before, max?.now, factors, sum?.before, sum?.now];
    const inputs = [known, ...values, state.rows, state.labels?.join(), row, phase, glows, marked, lane.stamp];
    const paint = () => paintRows(surface, palette, state, row, phase, glows, differs);
    this.at = surface.draw(inputs, () => (known ? paint() : (surface.clear(), null)));
  }

  /** “rows 24–30 of 16–31”, where not all have room. */
  window() {
    const { shown } = this.at ?? {};
    const rows = (this.lane.tile ?? this.story.tile(this.lane.step))?.rows ?? [];
    const from = (first, last) => range(rows[first] ?? first, rows[last] ?? last);
    if (!shown) return "";
    return `${shown[0] < shown[1] ? "rows" : "row"} ${from(...shown)} of ${from(0, this.lane.rowCount - 1)}`;
  }

  /** What the columns' titles mean. */
  write() {
    const { roles } = this.view;
    const names = { max: roles.running_max, alpha: roles.rescale, sum: roles.running_sum };
    explainDrawn(this.terms, (this.at?.words ?? []).map((word) => ({ ...word, definition: this.lane.meaning("",
      names[word.key]) })).filter(({ definition }) => definition));
  }

  /** Which of these rows differ from the other run. */
  differing() {
    const { marks, tile, step } = this.lane;
    const rows = (tile ?? this.story.tile(step))?.rows ?? [];
    return marks ? new Set(Array.from(rows.keys()).filter((r) => marks.rows.has(rows[r]))) : null;
  }

  /** Whether step k rescales the sum: then it is drawn as a movement. */
  moves(k) {
    const { story } = this;
    const changed = ["new_sum", "running_sum"].some((role) => story.roles[role] && story.changedAt(role, k, k) === k);
    const { sum, alpha } = this.shownState;
    return changed && Boolean(sum?.now && sum.before && alpha?.length && alpha[0] !== undefined);
  }

  /** The variable of the column under the pointer: the updated one, once it is set. */
  nameAt(x, y) {
    const { roles } = this.view;
    const { max, sum } = this.shownState;
    const part = this.at?.(x, y)?.part;
    if (part === "max") return (max.now && roles.new_max) || roles.running_max || null;
    if (part === "sum") return (sum.now && roles.new_sum) || roles.running_sum || null;
    return part === "alpha" ? roles.rescale : null;
  }

  glow() {
    this.paint();
  }

  told({ row }) {
    const { max, alpha, sum, labels } = this.shownState;
    const said = [`row ${labels?.[row] || row}`];
    const change = (name, before, after) => {
      const numbers = [before, after].filter((x) => x !== undefined).map((x) => exact(x, "f32"));
      said.push(`${name}  ${numbers.join(" → ")}`);
    };
    if (max) change("m", max.before?.[row], max.now?.[row]);
    if (alpha && alpha[row] !== undefined) said.push(`α  ${exact(alpha[row], "f32")}`);
    if (sum) change("ℓ", sum.before?.[row], sum.now?.[row]);
    return said.join("\n");
  }
}
