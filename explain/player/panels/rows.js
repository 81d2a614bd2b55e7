// The running state, row by row: the maximum, the rescale factor, the sum; as this tile found them, and as they are now.

import { paintRows } from "../pictures/rows.js";
import { exact, short } from "../words.js";
import { Panel } from "./panel.js";

export class RowsPanel extends Panel {
  constructor(lane) {
    super(lane, "rows");
  }

  get shown() {
    return !this.story.roles.tile_at && ["running_max", "running_sum", "rescale"].some((role) => this.story.roles[role]);
  }

  /** The state of the current rows: as this tile found it, and as it is after the update, if that has been made. */
  state(k) {
    const { story, lane } = this;
    const has = (...roles) => roles.some((role) => story.roles[role]);
    const start = story.programs[story.programAt[k]].first;
    const since = Math.max(start, story.changedAt("rows", start, k));
    const begin = lane.visit?.begin ?? k + 1;
    const read = (role, at) => (story.changedAt(role, since, at) >= 0 ? story.role(role, at)?.data : undefined);
    const updated = (role, from) => (story.changedAt(role, from, k) >= 0 ? story.firstChange(role, from) : -1);
    const alpha = updated("rescale", begin);
    // A sum that was set before alpha was fetched, not updated.
    const update = (next, running, from) => {
      const role = story.roles[next] ? next : running;
      const at = updated(role, from);
      return at < 0 ? { before: read(running, k) } : { before: read(running, at - 1), now: read(role, k) };
    };
    return {
      rows: lane.rowCount,
      labels: lane.rowLabels(),
      max: has("running_max", "new_max") ? update("new_max", "running_max", begin) : null,
      alpha: has("rescale") ? (alpha < 0 ? new Array(lane.rowCount) : read("rescale", k)) : null,
      sum: has("running_sum") ? update("new_sum", "running_sum", has("rescale") ? (alpha < 0 ? k + 1 : alpha + 1) : begin) : null,
      span: lane.ranges.max,
      largestSum: lane.ranges.sum,
    };
  }

  render(k) {
    this.shownState = this.state(k);
    const { max, alpha, sum } = this.shownState;
    const known = [max?.before, max?.now, sum?.before, sum?.now].some(Boolean);
    this.head("running state", "", !known ? "not set yet" : this.lane.visit ? "before this tile → now" : "");
    const parts = [max && "maximum", alpha && "rescale factor", sum && "sum"].filter(Boolean);
    this.hint(known ? "" : `each row's running ${parts.join(", ")}`);
    this.known = known;
    this.paint();
    const { row } = this.lane.at;
    const read = (name, value) => (value === undefined ? "" : `${name} ${short(value)}; `);
    this.canvas.setAttribute("aria-label", `Row ${row}: ${read("maximum", (max?.now ?? max?.before)?.[row])}${read("rescale factor", alpha?.[row])}${read("sum", (sum?.now ?? sum?.before)?.[row])}`);
  }

  paint() {
    const { lane, surface, palette, known, shownState: state } = this;
    const { max, alpha, sum } = state;
    const phase = this.moves(lane.step) ? lane.phase : 1, glows = lane.quantityOf.get(lane.glowing), differs = this.differing();
    const inputs = [known, max?.before, max?.now, alpha?.[0] === undefined ? null : alpha, sum?.before, sum?.now, state.rows, state.labels?.join(), lane.at.row, phase, glows, differs && [...differs].join(), lane.stamp];
    this.at = surface.draw(inputs, () => (known ? paintRows(surface, palette, state, lane.at.row, phase, glows, differs) : (surface.clear(), null)));
  }

  /** Which of these rows differ from the run beside this one. */
  differing() {
    const { marks, tile, step } = this.lane;
    const rows = (tile ?? this.story.tile(step))?.rows ?? [];
    return marks ? new Set(Array.from(rows.keys()).filter((r) => marks.rows.has(rows[r]))) : null;
  }

  /** Whether step k is the one that rescales the sum: then it is drawn as a movement. */
  moves(k) {
    const { story } = this;
    const changed = ["new_sum", "running_sum"].some((role) => story.roles[role] && story.changedAt(role, k, k) === k);
    const { sum, alpha } = this.shownState;
    return changed && Boolean(sum?.now && sum.before && alpha?.length && alpha[0] !== undefined);
  }

  /** The variable of the column under the pointer: the updated one, once it is. */
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
    const said = [`row ${labels?.[row] ?? row}`];
    const change = (title, before, after) => said.push(`${title}  ${before === undefined ? "" : exact(before, "f32")}${after === undefined ? "" : ` → ${exact(after, "f32")}`}`);
    if (max) change("max", max.before?.[row], max.now?.[row]);
    if (alpha && alpha[row] !== undefined) said.push(`α  ${exact(alpha[row], "f32")}`);
    if (sum) change("sum", sum.before?.[row], sum.now?.[row]);
    return said.join("\n");
  }
}
