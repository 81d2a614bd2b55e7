// What all panels of a lane share: the element, its heading, its canvas, and what is under the pointer.

import { Surface } from "../surface.js";
import { element } from "../words.js";

/** A variable's name without _ptr: a tile k and its pointer k_ptr are highlighted together. */
export const stemOf = (name) => name?.replace(/_ptr$/, "") ?? null;

export class Panel {
  /** `name` is the panel's class on the page. `shown` tells whether the run has anything for it. */
  constructor(lane, name) {
    this.lane = lane;
    this.name = name;
    this.story = lane.story;
    this.view = lane.view;
    this.root = lane.$(`.${name}`);
    this.heading = this.root.querySelector("h3");
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

  /** Draws the picture of step k. All panels draw before any of them writes: a font set on a canvas of a changed
   * page forces a layout. */
  render() {}

  /** Writes the panel's text of step k. */
  write() {}

  /** Does what needs the layout of step k. It comes after all writing, so that one layout is enough. */
  settle() {}

  /** Handles a click: by default it selects the row. */
  clicked(at) {
    this.lane.select({ ...this.lane.selection, row: at.row });
  }

  /** The tooltip at (x, y) of the canvas, or null. A panel with several canvases is told which. */
  hover(x, y) {
    const at = this.at?.(x, y);
    return at ? this.told(at) : null;
  }

  told() {
    return null;
  }

  /** The variable drawn at (x, y) of the canvas: by default the heading's. */
  nameAt() {
    return this.depicts ?? null;
  }

  /** Highlights the panel if it draws the highlighted variable. */
  glow(stem) {
    this.root.classList.toggle("glow", Boolean(stem) && stemOf(this.depicts) === stem);
  }

  /** Sets the heading; `variable` is the one that the panel draws, if any. */
  head(title, quantity, note = "", alarm = "", variable = "") {
    this.headed = { title, quantity, note, alarm, variable };
  }

  /** Sets the text for a panel with nothing to show yet. */
  hint(words) {
    this.hinted = words;
  }

  /** Writes heading and hint. */
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
