// Elements, equations, and what an equation's places hold.

/** An HTML element; its text is text and nothing else. */
export function element(tag, className, text) {
  const out = document.createElement(tag);
  if (className) out.className = className;
  if (text !== undefined) out.textContent = text;
  return out;
}

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MATHML_TAGS = new Set([
  "math", "mrow", "mi", "mn", "mo", "msub", "msup", "mover", "mfrac", "mtext", "msqrt", "mspace",
]);

/**
 * MathML from the wrapper's tree: a string, or [tag, {q, or}?, …children]. A text "{…}" is a place for a number;
 * `places` collects its element. `q` names the variable that colours it.
 */
export function mathElement(node, colourOf, places) {
  if (typeof node === "string") return document.createTextNode(node);
  const [tag, ...rest] = node;
  if (!MATHML_TAGS.has(tag)) throw new Error(`an equation has an element that is not allowed, ${tag}`);
  const made = document.createElementNS(MATHML, tag);
  const attributes = rest[0] && !Array.isArray(rest[0]) && typeof rest[0] === "object" ? rest.shift() : {};
  if (attributes.q) made.dataset.name = attributes.q;
  if (attributes.q && colourOf(attributes.q)) made.dataset.q = colourOf(attributes.q);
  if (typeof rest[0] === "string" && /^\{.+\}$/.test(rest[0])) {
    places.push({ slot: made, place: rest[0].slice(1, -1), otherwise: attributes.or ?? "…" });
    return made;
  }
  made.append(...rest.map((child) => mathElement(child, colourOf, places)));
  return made;
}

/** Which element of a value a place means: its index at the selected row, column and dimension, or −1. */
export function elementOf(value, hint, { row, col, dim, rows, cols, isOutput }) {
  const shape = value?.shape;
  if (!shape) return -1;
  if (shape.length === 0) return 0;
  if (shape.length === 1) {
    if (shape[0] === 1) return 0;
    const along = hint ?? (shape[0] === rows ? "r" : "c");
    const at = along === "r" ? row : col;
    return at < shape[0] ? at : -1;
  }
  if (shape.length !== 2) return -1;
  const across = !isOutput && shape[1] === cols ? col : dim;
  const down = shape[0] === rows ? row : shape[0] === 1 ? 0 : -1;
  return down >= 0 && across < shape[1] ? down * shape[1] + across : -1;
}

/** The elements of a tile's selected row (axis 1) or column (axis 0), or of a whole vector; null if there are none. */
export function alongAxis(value, axis, { row, col }) {
  if (!value?.data) return null;
  const [height, width] = value.shape.length === 2 ? value.shape : [1, value.data.length];
  const start = value.shape.length < 2 ? 0 : axis === "0" ? col : row * width;
  const [count, stride] = value.shape.length === 2 && axis === "0" ? [height, width] : [width, 1];
  return Array.from({ length: count }, (_, i) => value.data[start + i * stride]);
}

/** The least and the largest of some numbers, without NaN; null where there are none. */
export function minMax(data) {
  let low = Infinity, high = -Infinity;
  for (const x of data) if (x === x) (low = Math.min(low, x)), (high = Math.max(high, x));
  return low <= high ? [low, high] : null;
}

/** The largest size of the finite ones; 0 where there are none. */
export function largestFinite(data) {
  let largest = 0;
  for (const x of data) if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
  return largest;
}

/** Their maximum or sum. As the kernel's max does, this one ignores NaN. */
export function reduced(value, how, axis, at) {
  const elements = alongAxis(value, axis, at);
  if (!elements) return null;
  return how === "sum" ? elements.reduce((sum, x) => sum + x, 0)
    : elements.reduce((most, x) => (x > most ? x : most), -Infinity);
}

/** Element (row, col) of the matmul of two tiles; `transposed`: of the first and the second's transpose. */
export function dotted(a, b, transposed, row, col) {
  if (a?.shape?.length !== 2 || b?.shape?.length !== 2) return null;
  const inner = a.shape[1];
  const width = b.shape[1];
  const [depth, wide] = transposed ? [width, b.shape[0]] : b.shape;
  if (depth !== inner || row >= a.shape[0] || col >= wide) return null;
  let out = 0;
  for (let i = 0; i < inner; i++) {
    out += a.data[row * inner + i] * b.data[transposed ? col * width + i : i * width + col];
  }
  return out;
}
