// Attention on chip: row beside row, Kᵀ above S = QKᵀ and V above Õ = P̃V, as the two matmuls read them.

import { MAX, RESCALE, SUM, tiles } from "./column.js";

export const ATTENTION = {
  of: ["queries", "values"],
  columns: [tiles(["queries"]), tiles(["scores"], "keys"), MAX, RESCALE, tiles(["exponentials"]), SUM,
    tiles(["output", "accumulator"], "values")],
};
/** These have the head's dimensions along one side. */
export const DEEP = new Set(["queries", "keys", "values", "accumulator", "other_output", "output_gradient",
  "queries_gradient", "keys_gradient", "values_gradient", "input_gradient", "weight_gradient"]);
