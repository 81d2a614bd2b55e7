// A backward pass on chip: S with Kᵀ above it, P, dP with V above it, δ and dS; then the gradients that they add to.

import { numbered, tiles } from "./column.js";

export const BACKWARD = {
  of: ["row_gradient", "weights_gradient", "scores_gradient", "queries_gradient", "keys_gradient", "values_gradient"],
  columns: [tiles(["queries"]), tiles(["output_gradient"]), tiles(["output"]), tiles(["scores"], "keys"),
    numbered("logsumexp"), tiles(["exponentials"]), tiles(["weights_gradient"], "values"), numbered("row_gradient"),
    tiles(["scores_gradient"]), tiles(["queries_gradient"]), tiles(["keys_gradient"]), tiles(["values_gradient"])],
  words: (sets) => ({ logsumexp: "logsumexp",
    row_gradient: sets("weights_gradient") && !sets("scores") ? "rowsum(P ∘ dP)" : "rowsum(dO ∘ O)" }),
};
/** Their rows are keys. */
export const OF_KEYS = new Set(["keys_gradient", "values_gradient"]);
