// Two tiles' pairs (m, ℓ), merged: its own pair, the other one, their two factors. Of parts of attention, whose pair is
// (lse, 1), also the part's O, above the sum of all.

import { numbered, tiles } from "./column.js";

export const MERGE = {
  of: ["other_max"],
  columns: [numbered("running_max"), numbered("running_sum"), numbered("other_max"), numbered("other_sum"),
    numbered("rescale"), numbered("other_rescale"), tiles(["other_output"]), tiles(["output", "accumulator"])],
  words: (sets) => (sets("other_output") ? { other_max: "lse of the part", other_rescale: "weight of the part" }
    : { other_max: "other max", other_sum: "other sum", other_rescale: "its factor" }),
};
