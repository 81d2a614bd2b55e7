// A loss on chip: Wᵀ above the logits, the state of each token beside them; in the backward pass what becomes of P.

import { MAX, RESCALE, SUM, numbered, tiles } from "./column.js";

export const LOSS = {
  of: ["target", "gradient"],
  columns: [tiles(["queries"]), tiles(["scores"], "keys"), MAX, RESCALE, numbered("lse"), tiles(["exponentials"]), SUM,
    numbered("target"), numbered("loss"), tiles(["gradient"]), tiles(["input_gradient", "weight_gradient"])],
  words: () => ({ target: "target's logit", lse: "logsumexp", loss: "loss" }),
};
