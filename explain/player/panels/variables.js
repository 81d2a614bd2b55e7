// The variables of a kernel without roles, all of them: scalars as numbers, arrays as small pictures. Every element can
// be read: under the pointer, under a finger, or by the arrow keys on a focused picture.

import { LOAD } from "../counters.js";
import { programPlace, sameLine } from "../grid.js";
import { grouped, times } from "../numbers.js";
import { paintArray } from "../pictures/array.js";
import { Surface } from "../surface.js";
import { explain } from "../terms.js";
import { isFloat, product } from "../trace.js";
import { element, largestFinite } from "../words.js";
import { Panel } from "./panel.js";

const CELL_LINE_EM = 1.6;                                  // of the smallest text
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class VariablesPanel extends Panel {
  constructor(lane) {
    super(lane, "variables");
    this.items = new Map();
    this.slices = new Map();                               // of a variable with more axes than two: the one shown
    this.cells = new WeakMap();                            // canvas → {at: (x, y) → cell, told: cell → its words}
  }

  write(k) {
    const { story } = this;
    const { trace } = story;
    const live = this.live(k).sort((a, b) => b.step - a.step);
    const { otherProgram } = this.lane;
    const beside = otherProgram === story.programs[story.programAt[k]] ? null : otherProgram;
    const there = beside ? sameLine(story, k, beside) : -1;
    const others = new Map(beside ? this.live(there).map(({ name, index }) => [name, index]) : []);
    const place = beside && programPlace(story.launchAt(there), beside.id);
    const { buffers } = story.launchAt(k);
    const stored = story.accesses(k).filter((access) => access.stored >= 0).map(({ buffer, stored: index, mask }, i) =>
      ({ name: `stored ${i}`, label: "stored", step: k, index, mask, where: ` in ${buffers[buffer].name}` }));
    const also = beside ? `; beside: program ${place} at step ${grouped(this.lane.timeOf(there))}` : "";
    this.head("variables", "", `${live.length}, latest change first${also}`);
    const fresh = [];
    const rows = [...stored, ...live].flatMap((one) => {
      const index = others.get(one.name);
      if (index === undefined) return [one];
      const same = index === one.index;
      return [one, { ...one, name: `${one.name} beside`, index, where: ` in program ${place}`, other: true, same }];
    });
    const items = rows.map(({ name, label, step, index, mask, where = "", other = false, same = false }) => {
      const key = `${index} ${where} ${this.slices.get(label) ?? 0} ${this.lane.stamp} ${same}`;
      let item = this.items.get(name);
      if (item?.dataset.key !== key) {
        item = same ? sameItem(where) : this.variable(label, trace.value(index), where, this.lanesOf(index, mask), fresh);
        item.classList.toggle("beside", other);
        item.dataset.key = key;
        this.items.set(name, item);
      }
      item.classList.toggle("changed", step === k && !other);
      return item;
    });
    this.root.querySelector("ul").replaceChildren(...items);
    for (const paint of fresh) paint();
  }

  /** The variables of the function at step k: name, label, the step that set it, its value's number. */
  live(k) {
    const { story } = this;
    const here = story.trace.source[k];
    return story.trace.header.names.flatMap(([source, label], name) => {
      const change = source === here ? story.lastChange(name, k, story.frameStart[k]) : -1;
      if (change < 0) return [];
      const step = story.historyStep[change], loads = story.accesses(step).filter(({ kind }) => kind === LOAD);
      const mask = loads.length === 1 ? loads[0].mask : -1;
      return [{ name, label, step, index: story.historyValue[change], mask }];
    });
  }

  /** Which lanes of a value the mask of its load or store lets through; null where it lets all through. */
  lanesOf(index, mask = -1) {
    const { trace } = this.story;
    const lanes = mask < 0 ? null : trace.value(mask).data, { data } = trace.value(index);
    return lanes && lanes.length === data?.length && lanes.some((on) => !on) ? lanes : null;
  }

  /** A variable's line; `where` its value goes, `lanes` as `lanesOf` has them. An array's painter goes to `fresh`, to
   * run when the line is on the page. */
  variable(label, value, where, lanes, fresh) {
    const { shape, data, dtype, unit } = this.lane.numbersOf(value);
    const item = element("li");
    const title = element("span", "name", label);
    title.dataset.name = label;
    if (shape?.length || where) title.append(element("small", "", `${times(shape ?? [])} ${unit}${where}`.trim()));
    if (lanes) title.append(element("small", "", `hatched: ${grouped(lanes.filter((on) => !on).length)} masked`));
    item.append(title);
    if (!shape?.length || !data.length) {
      const text = element("span", "value");
      explain(text, this.lane.glance(label, value), this.lane.annotations.terms);
      item.append(text);
      return item;
    }
    const [rows, cols] = shape.length === 1 ? [1, shape[0]] : shape.slice(-2);
    const count = product(shape.slice(0, -2));
    const slice = Math.min(this.slices.get(label) ?? 0, count - 1);
    const outer = placeIn(shape.slice(0, -2), slice);
    if (count > 1) title.append(this.turner(label, outer, slice, count));
    const part = (list) => list.slice(slice * rows * cols, (slice + 1) * rows * cols);
    const shown = part(data), open = lanes && part(lanes);
    const canvas = element("canvas");
    const line = Math.max(20, CELL_LINE_EM * this.palette.smallest); // a projector's numbers need more
    canvas.style.height = `${Math.min(6 * line, Math.max(line, rows * Math.min(line, (11 * line) / cols)))}px`;
    item.append(canvas);
    const told = ({ row, col }) => {
      const place = [...outer, ...(shape.length === 1 ? [col] : [row, col])].join(", ");
      const masked = open && !open[row * cols + col] ? ", masked" : "";
      return `${label}[${place}] = ${this.lane.element(shown[row * cols + col], dtype, unit)}${masked}`;
    };
    const cells = { rows, cols, row: 0, col: 0, told, at: () => null };
    this.cells.set(canvas, cells);
    this.listen(canvas, cells, `${label}, ${times(shape)} ${unit}`);
    const largest = largestFinite(data) || 1;
    fresh.push(() => {
      const surface = new Surface(canvas);
      surface.measure();
      const array = { data: shown, rows, cols, ramp: "scores", largest, whole: !isFloat(dtype), lanes: open };
      cells.at = paintArray(surface, this.palette, array);
    });
    return item;
  }

  /** The buttons that choose the slice of an array with more than two axes. */
  turner(label, outer, slice, count) {
    const turn = (sign, name, by) => {
      const button = element("button", "", sign);
      button.type = "button";
      button.setAttribute("aria-label", `${name} slice of ${label}`);
      button.addEventListener("click", () => {
        this.slices.set(label, (slice + by + count) % count);
        this.write(this.lane.step);
        const again = `button[aria-label="${CSS.escape(`${name} slice of ${label}`)}"]`;
        this.root.querySelector(again)?.focus();
      });
      return button;
    };
    const box = element("small", "slice");
    box.append(turn("‹", "previous", -1), ` [${[...outer, ":", ":"].join(", ")}] `, turn("›", "next", 1));
    return box;
  }

  /** Makes a picture's elements readable by keys: the arrows move over them, like a pointer. */
  listen(canvas, cells, title) {
    const said = { role: "slider", tabindex: 0, "aria-label": title, "aria-valuemin": 0,
      "aria-valuemax": cells.rows * cells.cols - 1 };
    for (const [name, value] of Object.entries(said)) canvas.setAttribute(name, String(value));
    const say = () => {
      canvas.setAttribute("aria-valuenow", String(cells.row * cells.cols + cells.col));
      canvas.setAttribute("aria-valuetext", cells.told(cells));
    };
    say();
    const show = () => {
      const { left, top } = canvas.getBoundingClientRect();
      const [x, y] = cells.at.centre?.(cells.row, cells.col) ?? [0, 0];
      const at = { bubbles: true, composed: true, clientX: left + x, clientY: top + y };
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
    };
    canvas.addEventListener("focus", show);
    canvas.addEventListener("keydown", (event) => {
      const move = ARROWS[event.key];
      if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();                             // it steps elsewhere
      cells.row = Math.max(0, Math.min(cells.rows - 1, cells.row + move[0]));
      cells.col = Math.max(0, Math.min(cells.cols - 1, cells.col + move[1]));
      say();
      show();
    });
    canvas.addEventListener("mousedown", (event) => {      // a click leaves the arrow keys to the player
      event.preventDefault();
      canvas.closest(".player").focus({ preventScroll: true });
    });
  }

  hover(x, y, canvas) {
    const cells = this.cells.get(canvas);
    const at = cells?.at(x, y);
    return at ? cells.told(at) : null;
  }
}

/** The line of a variable that is the same in the program beside. */
function sameItem(where) {
  const item = element("li");
  item.append(element("span", "name"), element("span", "value", `the same${where}`));
  return item;
}

/** The index along each of these axes of entry `at`, row-major. */
function placeIn(shape, at) {
  const out = [];
  for (let axis = shape.length - 1, rest = at; axis >= 0; axis--) {
    out.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return out;
}
