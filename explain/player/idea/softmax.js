// A softmax on chip, in the order in which it is computed; with the K largest, where a kernel keeps them.

import { MAX, RESCALE, SUM, tiles } from "./column.js";

export const SOFTMAX = {
  of: ["scores", "exponentials", "kept"],
  columns: [tiles(["scores"]), MAX, RESCALE, tiles(["exponentials"]), SUM, tiles(["output"]), tiles(["weights"]),
    tiles(["kept"]), tiles(["kept_weight"])],
  /** `x`: the symbol of its input, S in attention; `begins`: whether m and ℓ go on from tile to tile. */
  words: (sets, { x, begins }) => ({ scores: x === "x" ? "element" : "score", output: "weight",
    exponentials: sets("running_max") || sets("new_max") ? `exp(${x} − m)` : `exp(${x})`,
    ...(begins ? {} : { max: "maximum", sum: "sum" }) }),
};
