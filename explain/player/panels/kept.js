// The list that a top-k keeps: its K largest elements so far, in order, with their columns; at the end their weights.

import { paintStrip } from "../pictures/strip.js";
import { exact, short } from "../words.js";
import { Panel } from "./panel.js";

export class KeptPanel extends Panel {
  constructor(lane) {
    super(lane, "kept");
    const [event] = this.story.eventsOf("kept");
    this.root.style.setProperty("--list", event && this.story.trace.value(event.value).data.length > 16 ? "11em" : "5.8em");
  }

  get shown() {
    return Boolean(this.story.roles.kept);
  }

  render(k) {
    const { story, lane } = this;
    const places = lane.lookup("K", k)?.data?.[0] ?? Infinity;      // a list of a power of two has places to spare
    const first = (role) => Array.from(story.role(role, k)?.data ?? []).slice(0, places);
    this.kept = first("kept");
    this.cols = first("kept_at");
    this.weights = first("kept_weight");
    const filled = this.kept.filter((x) => x > -Infinity).length;
    this.head("largest so far", "scores", this.kept.length ? `${filled} of ${this.kept.length} places filled, sorted` : "");
    this.hint(this.kept.length ? "" : "the K largest elements, largest first");
    const labels = this.cols.map((col) => (col < 0 ? "–" : this.view.col_labels?.[col] ?? `x${col}`));
    const lines = [{ label: "x", quantity: "scores", ramp: "scores", largest: story.scoreMap?.largest ?? 1, diverging: true, data: this.kept }];
    if (this.weights.length) lines.push({ label: "y", quantity: "acc", ramp: "share", largest: 1, diverging: false, data: this.weights });
    this.at = paintStrip(this.surface, this.palette, { lines, labels, selected: -1 });
    this.canvas.setAttribute("aria-label", `Largest so far: ${this.kept.slice(0, 16).map((x, i) => `${short(x)} in column ${this.cols[i]}`).join("; ")}`);
  }

  clicked() {}

  told({ col }) {
    const weight = this.weights.length ? `\nweight ${exact(this.weights[col], "f32")}` : "";
    return this.cols[col] < 0 ? "an empty place" : `place ${col + 1}: column ${this.cols[col]}\nx ${exact(this.kept[col], "f32")}${weight}`;
  }
}
