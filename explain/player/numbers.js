// Every number format of the player. Text has 4 significant digits and exponents as 7.1 × 10⁻⁴; the cells of one
// picture share their number of decimals, or have exponents as 7.1e−4. explain/figures/numbers.py writes the same
// notation.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const SIGNIFICANT = 4;
const SMALLEST = 1e-3, LARGEST = 1e6;                      // beyond them text has an exponent
const LARGEST_WHOLE = 1e7;
const CELL_LARGEST = 1e4;                                 // beyond it, or below
const CELL_SMALLEST = 0.01;                                // this, the largest number of a picture has an exponent
const BRIEF_LARGEST = 1e3;
const DTYPE_DIGITS = { f64: 16, f32: 8, bf16: 4, f16: 5 };
const GROUPED = new Intl.NumberFormat("en-US");

const minus = (text) => text.replace("-", "−");

/** NaN and the infinities as text; null for every other number. */
function special(x) {
  if (x !== x) return "NaN";
  if (x === Infinity) return "∞";
  return x === -Infinity ? "−∞" : null;
}

/** 7.1 × 10⁻⁴, with at most `digits` significant digits. */
function scientific(x, digits) {
  const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
  const power = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("");
  return `${minus(String(Number(mantissa)))} × 10${exponent[0] === "-" ? "⁻" : ""}${power}`;
}

/** A number in text: at most `digits` significant digits, no trailing zeros. Integers (`whole`) keep all their
 * digits. */
export function number(x, whole = false, digits = SIGNIFICANT) {
  const size = Math.abs(x);
  const named = special(x);
  if (named) return named;
  if (whole && size < LARGEST_WHOLE) return minus(grouped(x));
  if (x === 0) return "0";
  if (size >= LARGEST || size < SMALLEST) return scientific(x, digits);
  const rounded = size >= 10 ** digits ? Math.round(x) : Number(x.toPrecision(digits));
  const [units, decimals] = String(rounded).split(".");
  return minus(decimals ? `${grouped(units)}.${decimals}` : grouped(units));
}

/** A number with all the digits that its dtype holds. */
export const exact = (x, dtype) => number(x, Number.isInteger(x), DTYPE_DIGITS[dtype] ?? DTYPE_DIGITS.f32);

/**
 * The format of one picture: a function from a number to its text. `largest` is the largest size in the picture's
 * run; all its numbers have the same decimals, `digits` digits in all, or all have exponents where they would not
 * fit. A number close to 1 has one decimal more: only 1 is written as 1.00.
 */
export function format(largest, digits, whole = false) {
  if (largest >= CELL_LARGEST || (largest > 0 && largest < CELL_SMALLEST)) {
    return (x) => special(x) ?? (x === 0 ? "0" : minus(x.toExponential(1).replace("e+", "e").replace("e-", "e−")));
  }
  const decimals = whole ? 0 : Math.max(0, digits - 1 - Math.max(0, Math.floor(Math.log10(largest || 1))));
  const one = (1).toFixed(decimals), rounded = (x) => x.toFixed(decimals).replace(/^-(?=[0.]+$)/, "");
  const text = (x) => (decimals && x !== 1 && rounded(x) === one ? x.toFixed(decimals + 1) : rounded(x));
  return (x) => special(x) ?? (x === 0 ? "0" : minus(text(x)));
}

/** The format of numbers that stand together on chip and in HBM: as `format`, but only the numbers that overflow the
 * others have an exponent. */
export function mixed(numbers, digits) {
  const fits = (x) => Math.abs(x) < CELL_LARGEST;
  const most = numbers.reduce((most, x) => (fits(x) ? Math.max(most, Math.abs(x)) : most), 0);
  const [plain, huge] = [most || 1, CELL_LARGEST].map((size) => format(size, digits));
  return (x) => (fits(x) ? plain : huge)(x);
}

/** The shortest format of numbers that stand together: two digits, and from 1,000 on one digit and an exponent. */
export function briefest(numbers) {
  const fits = (x) => Math.abs(x) < BRIEF_LARGEST;
  const plain = format(numbers.reduce((most, x) => (fits(x) ? Math.max(most, Math.abs(x)) : most), 0) || 1, 2);
  return (x) => special(x) ?? (fits(x) ? plain(x) : minus(x.toExponential(0).replace("e+", "e")));
}

/** Each different pattern of digits in texts, to measure: in the player's fonts all digits are equally wide. */
export const patterns = (texts) => [...new Set(texts.map((text) => text.replace(/\d/g, "0")))];

export const grouped = (n) => GROUPED.format(n);
export const bytes = (n) => `${grouped(n)} B`;
export const times = (shape) => shape.join(" × ");

/** 16–31, or 16 where both ends are the same. */
export const range = (first, last) => (first === last ? `${first}` : `${first}–${last}`);

/** “1 load”, “2 loads”. */
export const counted = (n, word) => `${grouped(n)} ${word}${n === 1 ? "" : "s"}`;

/** 1st, 2nd, 4th, 8th. */
export const ordinal = (n) => `${n}${{ 1: "st", 2: "nd", 3: "rd" }[n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] ?? "th"}`;

/** Bytes in binary units: 640 B, 10.3 KiB, 4 MiB. */
export function binary(n) {
  const unit = n < 1024 ? 0 : n < 1024 ** 2 ? 1 : 2;
  return `${number(n / 1024 ** unit, false, 3)} ${["B", "KiB", "MiB"][unit]}`;
}
