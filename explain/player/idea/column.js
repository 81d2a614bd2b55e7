// The columns of the picture on chip: the roles of the variables that stand in one, and how each role is drawn.

/** A column of tiles: it shows the variable that was set last of these roles; above it stands another role's tile. */
export const tiles = (roles, above) => ({ roles, above });

/** A column with a number for each row. */
export const numbered = (...roles) => ({ roles, state: true });

export const MAX = numbered("new_max", "running_max"), SUM = numbered("new_sum", "running_sum");
export const RESCALE = numbered("rescale");

/** What a number is called, by its quantity; a family has words of its own for some roles. */
export const QUANTITY_WORDS = { max: "running max", sum: "running sum", alpha: "rescale factor" };

/** [quantity, ramp, whether the ramp has two directions] of a role; without a look: a tile as it was loaded. */
export const LOOKS = {
  scores: ["scores", "scores", true], kept: ["scores", "scores", true], exponentials: ["p", "share", false],
  weights: ["p", "share", false], kept_weight: ["p", "share", false], accumulator: ["acc", "output", true],
  output: ["acc", "output", true], other_output: ["acc", "output", true], running_max: ["max"], new_max: ["max"], other_max: ["max"], running_sum: ["sum"],
  new_sum: ["sum"], other_sum: ["sum"], rescale: ["alpha"], other_rescale: ["alpha"],
  logsumexp: ["slate"], row_gradient: ["slate"],
  output_gradient: ["acc", "output", true], weights_gradient: ["p", "weights", true],
  scores_gradient: ["scores", "scores", true], queries_gradient: ["acc", "output", true],
  keys_gradient: ["acc", "output", true], values_gradient: ["acc", "output", true],
  target: ["scores"], lse: [null], loss: ["acc"], gradient: ["scores", "scores", true],
  input_gradient: ["acc", "output", true], weight_gradient: ["acc", "output", true],
  queries: [null, "inputs", true], keys: [null, "inputs", true], values: [null, "inputs", true],
};
