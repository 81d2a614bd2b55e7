// The variables of a kernel without roles: scalars as numbers, arrays as small pictures.

import { times } from "../numbers.js";
import { paintArray } from "../pictures/array.js";
import { Surface } from "../surface.js";
import { explain } from "../terms.js";
import { isFloat } from "../trace.js";
import { element } from "../words.js";
import { Panel } from "./panel.js";

const SMALL_ARRAYS = 24;                                   // the most variables shown
const CELL_LINE_EM = 1.6;                                       // of the smallest text

export class VariablesPanel extends Panel {
  constructor(lane) {
    super(lane, "variables");
    this.items = new Map();
  }

  write(k) {
    const { story } = this;
    const here = story.trace.source[k];
    const live = [];
    story.trace.header.names.forEach(([source, label], name) => {
      const change = source === here ? story.lastChange(name, k, story.frameStart[k]) : -1;
      if (change >= 0) live.push({ name, label, step: story.historyStep[change], index: story.historyValue[change] });
    });
    live.sort((a, b) => b.step - a.step).splice(SMALL_ARRAYS);
    this.head("variables", "", "latest change first");
    const fresh = [];
    const items = live.map(({ name, label, step, index }) => {
      const key = `${index} ${this.lane.stamp}`;
      let item = this.items.get(name);
      if (item?.dataset.key !== key) {
        item = this.variable(label, story.trace.value(index), fresh);
        item.dataset.key = key;
        this.items.set(name, item);
      }
      item.classList.toggle("changed", step === k);
      return item;
    });
    this.root.querySelector("ul").replaceChildren(...items);
    for (const paint of fresh) paint();
  }

  /** A variable's line. An array's painter goes to `fresh`, to run when the line is on the page. */
  variable(label, value, fresh) {
    const { shape, data, dtype } = value;
    const item = element("li");
    const title = element("span", "name", label);
    title.dataset.name = label;
    if (shape?.length) title.append(element("small", "", `${times(shape)} ${dtype}`));
    item.append(title);
    if (!data || shape.length === 0 || shape.length > 2 || data.length === 0) {
      const text = element("span", "value");
      explain(text, this.lane.glance(label, value), this.lane.annotations.terms);
      item.append(text);
      return item;
    }
    const [rows, cols] = shape.length === 1 ? [1, shape[0]] : shape;
    const canvas = element("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${label}, ${times(shape)} ${dtype}`);
    const line = Math.max(20, CELL_LINE_EM * this.palette.smallest); // a projector's numbers need more
    canvas.style.height = `${Math.min(6 * line, Math.max(line, rows * Math.min(line, (11 * line) / cols)))}px`;
    item.append(canvas);
    let largest = 0;
    for (const x of data) if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
    fresh.push(() => {
      const surface = new Surface(canvas);
      surface.measure();
      const array = { data, rows, cols, ramp: "scores", largest: largest || 1, whole: !isFloat(dtype) };
      paintArray(surface, this.palette, array);
    });
    return item;
  }
}
