// The tooltip: a text, or a text with a small picture of an array.

import { paintArray } from "./pictures/array.js";
import { Surface } from "./surface.js";
import { element } from "./words.js";

const WIDEST_PX = 240, TALLEST_PX = 150;

/** Shows `said` in the tooltip: a string, or {title, meaning, text, picture: {data, rows, cols, largest, whole}}. */
export function fillTip(tip, said, palette) {
  if (typeof said === "string") {
    if (tip.textContent !== said || tip.children.length) tip.textContent = said;
    tip.said = said;
    return;
  }
  const { title, meaning, text, picture } = said;
  const key = `${title}\n${meaning}\n${text}`;
  if (tip.said === key && tip.picture === picture?.data) return;
  tip.said = key;
  tip.picture = picture?.data;
  const lines = [element("b", "", title), ...[meaning, text].filter(Boolean).map((words) => element("div", "", words))];
  tip.replaceChildren(...lines);
  if (!picture) return;
  const canvas = element("canvas");
  canvas.setAttribute("aria-hidden", "true");              // the text beside it has its numbers
  const cell = Math.max(1, Math.min(WIDEST_PX / picture.cols, TALLEST_PX / picture.rows, 22));
  canvas.style.width = `${Math.min(WIDEST_PX, Math.ceil(picture.cols * cell))}px`;
  canvas.style.height = `${Math.min(TALLEST_PX, Math.max(8, Math.ceil(picture.rows * cell)))}px`;
  tip.append(canvas);
  tip.hidden = false;                                      // hidden, it has no size
  const surface = new Surface(canvas);
  surface.measure();
  paintArray(surface, palette, { ...picture, ramp: "scores" });
}
