// Numbers, equations and sentences.

/** An HTML element; its text is text and nothing else. */
export function element(tag, className, text) {
  const out = document.createElement(tag);
  if (className) out.className = className;
  if (text !== undefined) out.textContent = text;
  return out;
}

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MATHML_TAGS = new Set(["math", "mrow", "mi", "mn", "mo", "msub", "msup", "mover", "mfrac", "mtext", "msqrt", "mspace"]);
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

const minus = (text) => text.replace("-", "−");

function special(x) {
  if (x !== x) return "NaN";
  if (x === Infinity) return "∞";
  if (x === -Infinity) return "−∞";
  return null;
}

const scientific = (x, digits) => {
  const [mantissa, exponent] = x.toExponential(digits).split("e");
  const power = [...String(Math.abs(Number(exponent)))].map((digit) => SUPERSCRIPTS[digit]).join("");
  return `${minus(mantissa)}·10${exponent[0] === "-" ? "⁻" : ""}${power}`;
};

/** A number to read: three decimals, fewer where it is large, powers of ten past that. Integers stay whole. */
export function short(x, whole = false) {
  const size = Math.abs(x);
  const named = special(x);
  if (named) return named;
  if (whole || x === 0) return size < 1e7 ? minus(String(x)) : scientific(x, 3);
  if (size >= 1e5 || size < 5e-4) return scientific(x, 2);
  return minus(x.toFixed(size < 100 ? 3 : size < 1000 ? 2 : 1));
}

/** A number for a small cell: at most five characters. */
export function tiny(x, whole = false) {
  const size = Math.abs(x);
  const named = special(x);
  if (named) return named;
  if (x === 0) return "0";
  if (whole) return size < 1e4 ? minus(String(x)) : minus(x.toExponential(0).replace("e+", "e"));
  if (size >= 1000 || size < 0.005) return minus(x.toExponential(0).replace("e+", "e"));
  return minus(x.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0));
}

const DIGITS = { f64: 16, f32: 8, bf16: 4, f16: 5 };

/** A number with all the digits its type holds. */
export function exact(x, dtype) {
  const named = special(x);
  if (named) return named;
  return minus(Number.isInteger(x) && Math.abs(x) < 1e15 ? String(x) : String(Number(x.toPrecision(DIGITS[dtype] ?? 8))));
}

const GROUPED = new Intl.NumberFormat("en-US");
export const grouped = (n) => GROUPED.format(n);
export const bytes = (n) => `${grouped(n)} B`;
export const times = (shape) => shape.join("×");

// --- equations ---

/**
 * MathML from the wrapper's tree: a string, or [tag, {q, or}?, …children]. A text "{…}" is a place for a number;
 * `places` collects its element. `q` names the variable, by which it is coloured.
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

/** The largest element or the sum along the row of a tile that is selected (axis 1), its column (axis 0), or all of a vector. */
export function reduced(value, how, axis, { row, col }) {
  if (!value?.data) return null;
  const [height, width] = value.shape.length === 2 ? value.shape : [1, value.data.length];
  const start = value.shape.length < 2 ? 0 : axis === "0" ? col : row * width;
  const [count, stride] = value.shape.length === 2 && axis === "0" ? [height, width] : [width, 1];
  let out = how === "sum" ? 0 : -Infinity;
  for (let i = 0; i < count; i++) {
    const x = value.data[start + i * stride];
    out = how === "sum" ? out + x : x > out ? x : out;   // like the kernel's max, this one passes over NaN
  }
  return out;
}

/** Element (row, column) of the matmul of two tiles, the second one maybe transposed. */
export function dotted(a, b, transposed, row, col) {
  if (a?.shape?.length !== 2 || b?.shape?.length !== 2) return null;
  const inner = a.shape[1];
  const width = b.shape[1];
  if ((transposed ? b.shape[1] : b.shape[0]) !== inner || row >= a.shape[0] || col >= (transposed ? b.shape[0] : width)) return null;
  let out = 0;
  for (let i = 0; i < inner; i++) out += a.data[row * inner + i] * b.data[transposed ? col * width + i : i * width + col];
  return out;
}
