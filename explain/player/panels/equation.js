// What the current line does: a sentence, and where it computes something its equation with the selected row's numbers.

import { number } from "../numbers.js";
import { isFloat } from "../trace.js";
import { dotted, element, elementOf, mathElement, reduced } from "../words.js";
import { Panel } from "./panel.js";

const FORMULA_LEAST = 0.69;                                // of a formula's size: about that of the text

/** Whether a number stands right of an operator: a negative one is then in brackets. */
function followsOperator(slot) {
  let node = slot;
  while (!node.previousElementSibling && node.parentElement?.localName === "mrow") node = node.parentElement;
  const before = node.previousElementSibling;
  return before?.localName === "mo" && /^[+−·/]$/.test(before.textContent);
}

export class EquationPanel extends Panel {
  constructor(lane) {
    super(lane, "equation");
    this.words = this.root.querySelector(".words");
    this.box = this.root.querySelector(".formula");
    this.formulas = new Map();
  }

  write(k) {
    const { trace } = this.story;
    const source = trace.source[k], line = trace.line[k];
    const equation = this.lane.annotations.sources[source].equations[line];
    const changed = equation && this.story.changes(k).find(({ label }) => label === equation.variable);
    const { box } = this;
    this.words.textContent = this.lane.sentence();
    this.root.toggleAttribute("data-stopped", trace.header.report?.failure?.step === k);
    if (!changed) {
      this.head(`Line ${line}`, "");
      if (box.dataset.shown) box.replaceChildren();
      box.dataset.shown = "";
      return;
    }
    const key = `${source} ${line}`;
    if (!this.formulas.has(key)) this.formulas.set(key, this.build(equation));
    const formula = this.formulas.get(key);
    if (box.dataset.shown !== key) box.replaceChildren(formula.root);
    box.dataset.shown = key;
    const where = this.fill(formula, changed, k);
    this.head(`Line ${line}`, "", where);
    cancelAnimationFrame(this.narrowing);
    this.narrowing = requestAnimationFrame(() => this.narrow(formula.root));
  }

  /**
   * Draws a formula that is wider than its panel smaller: at full screen nobody scrolls. Characters are as wide as whole
   * pixels, so one turn may not be enough. It asks for the layout, so it runs when the frame's own layout is due: while
   * a step is written, a layout more would take as long as all the drawing.
   */
  narrow(root) {
    root.style.removeProperty("--narrow");
    for (let share = 1, turn = 0; turn < 3 && this.box.scrollWidth > this.box.clientWidth; turn++) {
      share = Math.max(FORMULA_LEAST, (share * this.box.clientWidth) / this.box.scrollWidth);
      root.style.setProperty("--narrow", share);
    }
  }

  build({ plain, numbers }) {
    const colourOf = (variable) => this.lane.quantityOf.get(variable);
    const root = element("div", "formulae");
    const places = [];
    const wrap = (tree, className) => {
      const row = element("div", className);
      row.append(mathElement(["math", tree], colourOf, places));
      return row;
    };
    root.append(wrap(plain, "plain"));
    const worked = numbers ? wrap(numbers, "worked") : null;
    if (worked) root.append(worked);
    return { root, places, worked };
  }

  /** Puts this row's numbers into the equation; returns which element they are of, "" where there are none. */
  fill({ places, worked }, { label, value }, k) {
    if (!worked) return "";
    const { at, rowCount, colCount, quantityOf } = this.lane;
    const context = { ...at, isOutput: quantityOf.get(label) === "acc" && value.shape?.[1] !== colCount };
    const tiled = value.shape?.length === 2 && value.shape[0] === rowCount
      && (quantityOf.has(label) || value.shape[1] === colCount);
    const readable = value.shape && (value.shape.length === 0 || tiled
      || (value.shape.length === 1 && isFloat(value.dtype)));
    worked.hidden = !readable;
    if (!readable) return "";
    for (const { slot, place, otherwise } of places) {
      const found = this.number(place, k, context) ?? otherwise;
      const text = found.startsWith("−") && followsOperator(slot) ? `(${found})` : found;
      if (slot.textContent !== text) slot.textContent = text;
    }
    const row = rowCount > 1 || this.view.row_labels ? this.lane.label("row", at.row) : "";
    const column = context.isOutput ? `dimension ${at.dim}` : this.lane.label("column", at.col);
    if (value.shape.length === 2) return `${row ? `${row}, ` : ""}${column}`;
    if (value.shape.length === 1 && value.shape[0] !== rowCount) {
      return this.story.roles.cols ? this.lane.label("column", at.col) : `place ${at.col} of ${value.shape[0]}`;
    }
    return value.shape.length || (rowCount === 1 && quantityOf.has(label)) ? row : "";
  }

  number(place, k, context) {
    const [how, ...parts] = place.split("|");
    const current = (name) => this.lane.lookup(name, k);
    if (how === "pid") return String(this.story.programs[this.story.programAt[k]].id[Number(parts[0])]);
    if (how === "dot") {
      const [a, b] = [current(parts[0]), current(parts[1])];
      const product = dotted(a, b, parts[2] === "T", context.row, context.isOutput ? context.dim : context.col);
      return product === null ? null : number(product);
    }
    if (parts.length) {
      const result = reduced(current(parts[0]), how, parts[1], context);
      return result === null ? null : number(result);
    }
    const [name, when, hint] = place.split(":");
    const value = this.lane.lookup(name, when === "old" ? k - 1 : k, k);
    const at = elementOf(value, hint || undefined,
      { ...context, isOutput: context.isOutput && this.lane.quantityOf.get(name) === "acc" });
    if (at < 0) return null;
    return value.dtype === "i1" ? (value.data[at] ? "true" : "false") : number(value.data[at], !isFloat(value.dtype));
  }
}
