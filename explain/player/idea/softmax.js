// A softmax on chip, in the order in which it is computed; with the K largest, where a kernel keeps them.

import { MAX, RESCALE, SUM, tiles } from "./column.js";

export const SOFTMAX = {
  of: ["scores", "exponentials", "kept"],
  columns: [tiles(["scores"]), MAX, RESCALE, tiles(["exponentials"]), SUM, tiles(["output"]), tiles(["weights"]),
    tiles(["kept"]), tiles(["kept_weight"])],
  /** `x`: the symbol of its input, S in attention; `loops`: whether a program takes several tiles. */
  words: (sets, { x, loops }) => ({ scores: x === "x" ? "element" : "score", output: "weight",
    exponentials: sets("running_max") || sets("new_max") ? `exp(${x} − m)` : `exp(${x})`,
    ...(loops ? {} : { max: "maximum", sum: "sum" }) }),
};
