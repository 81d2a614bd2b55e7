// A loss on chip: Wᵀ above the logits, each token's state beside them; in the backward pass P from L, and its gradients.

import { MAX, RESCALE, SUM, numbered, tiles } from "./column.js";

const words = () => ({ target: "target's logit", lse: "logsumexp", loss: "loss" });

export const LOSS = {
  of: ["target"],
  columns: [tiles(["queries"]), tiles(["scores"], "keys"), MAX, RESCALE, tiles(["exponentials"]), SUM,
    numbered("target"), numbered("lse"), numbered("loss")],
  words,
};

export const LOSS_BACKWARD = {
  of: ["gradient"],
  columns: [tiles(["queries"]), tiles(["scores"], "keys"), numbered("lse"), tiles(["exponentials"]),
    tiles(["gradient"]), tiles(["input_gradient", "weight_gradient"])],
  words,
};
