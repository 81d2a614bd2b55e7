// What every panel of a lane shares: its place on the page, its heading, its canvas, and what is under the pointer.

import { Surface } from "../surface.js";
import { element } from "../words.js";

/** A tile and the pointer it is loaded through, k and k_ptr, go together. */
export const stemOf = (name) => name?.replace(/_ptr$/, "") ?? null;

export class Panel {
  /** `name` is the panel's class on the page. A subclass says in `shown` whether the run has anything for it. */
  constructor(lane, name) {
    this.lane = lane;
    this.name = name;
    this.story = lane.story;
    this.view = lane.view;
    this.root = lane.$(`.${name}`);
    this.heading = this.root.querySelector("h4");
    this.canvas = this.root.querySelector("canvas");
    this.surface = this.canvas && new Surface(this.canvas);
    this.at = null;                                        // (x, y) on the canvas → what is there, or null
    this.canvas?.addEventListener("click", (event) => {
      const at = this.at?.(event.offsetX, event.offsetY);
      if (at) this.clicked(at);
    });
  }

  get shown() {
    return true;
  }

  get palette() {
    return this.lane.palette;
  }

  /** Takes the size the layout gives it; true if that changed. */
  measure() {
    return this.surface?.measure() ?? false;
  }

  /** Draws the picture of step k. What the page says has its turn when all are drawn: a font set on a canvas after the page changed has it laid out at once. */
  render() {}

  /** Writes on the page what it says at step k. */
  write() {}

  /** What a click chooses: by default the row that was hit. */
  clicked(at) {
    this.lane.select({ ...this.lane.selection, row: at.row });
  }

  /** What a tooltip says at (x, y) of the canvas, or null. */
  hover(x, y) {
    const at = this.at?.(x, y);
    return at ? this.told(at) : null;
  }

  told() {
    return null;
  }

  /** The variable whose picture is at (x, y) of the canvas: by default the one the heading names. */
  nameAt() {
    return this.depicts ?? null;
  }

  /** Shows whether the variable that glows, by its stem, is this panel's. */
  glow(stem) {
    this.root.classList.toggle("glow", Boolean(stem) && stemOf(this.depicts) === stem);
  }

  /** What the heading will say; `variable` is the one whose picture the panel is, if it is one's. */
  head(title, quantity, note = "", alarm = "", variable = "") {
    this.headed = { title, quantity, note, alarm, variable };
  }

  /** What the panel will show, while it has nothing to show. */
  hint(words) {
    this.hinted = words;
  }

  /** Puts heading and hint on the page. */
  writeHead() {
    const { dataset } = this.root;
    if (this.hinted !== undefined && dataset.hint !== this.hinted) dataset.hint = this.hinted;
    const { title, quantity, note, alarm, variable } = this.headed;
    const parts = [title, note, alarm].join("|");
    if (this.heading.dataset.shown === parts) return;
    this.heading.dataset.shown = parts;
    this.depicts = variable;
    const bold = element("b", "", title);
    if (quantity) bold.dataset.q = quantity;
    if (variable) bold.dataset.name = variable;
    this.heading.replaceChildren(bold, element("span", "", note), ...(alarm ? [element("em", "", alarm)] : []));
  }
}
