// Two tiles' pairs (m, ℓ), merged: its own pair, the other one, their two factors.

import { numbered } from "./column.js";

export const MERGE = {
  of: ["other_max"],
  columns: [numbered("running_max"), numbered("running_sum"), numbered("other_max"), numbered("other_sum"),
    numbered("rescale"), numbered("other_rescale")],
};
