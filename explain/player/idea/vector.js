// A kernel without a softmax: the tiles that it loads, and its result.

import { tiles } from "./column.js";

export const VECTOR = { of: ["result"], columns: [tiles(["result"])] };
