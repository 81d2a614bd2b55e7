// The list that a top-k kernel keeps: the K largest elements so far with their columns; at the end their weights.

import { exact, number } from "../numbers.js";
import { paintStrip } from "../pictures/strip.js";
import { Panel } from "./panel.js";

export class KeptPanel extends Panel {
  constructor(lane) {
    super(lane, "kept");
    const [event] = this.story.eventsOf("kept");
    this.root.style.setProperty("--list", event && this.story.trace.value(event.value).data.length > 16 ? "11em"
      : "5.8em");
  }

  get shown() {
    return Boolean(this.story.roles.kept);
  }

  render(k) {
    const { story, lane } = this;
    const places = lane.lookup("K", k)?.data?.[0] ?? Infinity;      // the list's length is a power of two, at least K
    const first = (role) => Array.from(story.role(role, k)?.data ?? []).slice(0, places);
    this.kept = first("kept");
    this.cols = first("kept_at");
    this.weights = first("kept_weight");
    const filled = this.kept.filter((x) => x > -Infinity).length;
    this.head("top k so far", "scores", this.kept.length ? `${filled} of ${this.kept.length}, largest first` : "");
    this.root.dataset.filled = filled;
    this.hint(this.kept.length ? "" : "the K largest elements, largest first");
    const labels = this.cols.map((col) => (col < 0 ? "–" : this.view.col_labels?.[col] ?? `x${col}`));
    const largest = story.scoreMap?.largest ?? 1;
    const lines = [{ label: "x", quantity: "scores", ramp: "scores", largest, diverging: true, data: this.kept }];
    const outputs = { label: "y", quantity: "p", ramp: "share", largest: 1, diverging: false, data: this.weights };
    if (this.weights.length) lines.push(outputs);
    this.at = paintStrip(this.surface, this.palette, { lines, labels, selected: -1 });
    const named = this.kept.slice(0, 16).map((x, i) => `${number(x)} in column ${this.cols[i]}`);
    this.canvas.setAttribute("aria-label", `Top k so far: ${named.join("; ")}`);
  }

  clicked() {}

  told({ col }) {
    const weight = this.weights.length ? `\ny ${exact(this.weights[col], "f32")}` : "";
    return this.cols[col] < 0 ? "empty"
      : `place ${col + 1}: column ${this.cols[col]}\nx ${exact(this.kept[col], "f32")}${weight}`;
  }
}
