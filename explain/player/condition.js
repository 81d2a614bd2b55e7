// A condition on variables, such as m_i[3] > 5: read, checked against the run, and decided at a step. Nothing in it is
// run as code.
//
//   condition = term {("and" | "or") term}, "and" first · term = side, one of < <= > >= == !=, side
//   side = number | inf | nan | name | name[i, j], with − before it

const CONDITION_WORDS = /\s*(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|[A-Za-z_]\w*|<=|>=|==|!=|&&|\|\||[^\s])/giy;
const HOLDS = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "==": (a, b) => a === b || (a !== a && b !== b), "!=": (a, b) => a !== b && (a === a || b === b),
};
const NUMBER_NAMES = { inf: Infinity, nan: NaN };
const CONDITION_EXAMPLE = "Write one such as m_i[3] > 5, or p == nan.";

class ConditionReader {
  constructor(text, known) {
    const ascii = text.replaceAll("−", "-").replaceAll("∞", "inf");
    this.words = [...ascii.matchAll(CONDITION_WORDS)].map(([, word]) => word);
    this.known = known;
    this.names = new Set();
  }

  get next() {
    return this.words[0];
  }

  take(...wanted) {
    if (!wanted.includes(this.next)) return undefined;
    return this.words.shift();
  }

  refuse(what) {
    throw new Error(`${what} ${CONDITION_EXAMPLE}`);
  }

  whole() {
    const holds = this.either();
    if (this.next !== undefined) this.refuse(`“${this.next}” is not allowed there.`);
    return holds;
  }

  either() {
    let holds = this.both();
    while (this.take("or", "||")) {
      const left = holds, right = this.both();
      holds = (values) => left(values) || right(values);
    }
    return holds;
  }

  both() {
    let holds = this.comparison();
    while (this.take("and", "&&")) {
      const left = holds, right = this.comparison();
      holds = (values) => left(values) && right(values);
    }
    return holds;
  }

  comparison() {
    const left = this.side();
    const sign = this.take(...Object.keys(HOLDS));
    if (!sign) this.refuse(this.next === undefined ? "A comparison is missing." : `“${this.next}” is not a comparison.`);
    const right = this.side();
    return (values) => {
      const a = left(values), b = right(values);
      const many = Math.max(a.length, b.length);
      if (a.length !== many && a.length !== 1) return false;
      if (b.length !== many && b.length !== 1) return false;
      for (let i = 0; i < many; i++) if (HOLDS[sign](a[i % a.length], b[i % b.length])) return true;
      return false;
    };
  }

  /** A function from the variables' values to the numbers of this side. */
  side() {
    const sign = this.take("-") ? -1 : 1;
    const word = this.words.shift();
    if (word === undefined) this.refuse("A number or a variable is missing.");
    const number = NUMBER_NAMES[word.toLowerCase()] ?? (/^[\d.]/.test(word) ? Number(word) : undefined);
    if (number !== undefined && !this.known.has(word)) return () => [sign * number];
    if (!/^[A-Za-z_]/.test(word)) this.refuse(`“${word}” is not a number or a variable.`);
    const shape = this.known.get(word);
    if (!shape) {
      const names = [...this.known.keys()];
      const listed = names.slice(0, 12).join(", ") + (names.length > 12 ? ", …" : "");
      throw new Error(`There is no variable “${word}” with numbers in this run. There are ${listed}.`);
    }
    this.names.add(word);
    const place = this.place(word, shape);
    return (values) => {
      const value = values.get(word);
      if (!value?.data) return [];
      if (!place) return sign === 1 ? value.data : Array.from(value.data, (x) => -x);
      const at = place.reduce((index, i, axis) => index * value.shape[axis] + i, 0);
      const inside = place.length === value.shape.length && place.every((i, axis) => i < value.shape[axis]);
      return inside ? [sign * value.data[at]] : [];
    };
  }

  /** The index behind a variable, or null: then any element may fulfil the condition. */
  place(name, shape) {
    if (!this.take("[")) return null;
    const place = [];
    do {
      if (!/^\d+$/.test(this.next ?? "")) this.refuse(`An index of ${name} must be a whole number from 0.`);
      place.push(Number(this.words.shift()));
    } while (this.take(","));
    if (!this.take("]")) this.refuse(`A ] is missing after the index of ${name}.`);
    if (place.length !== shape.length || place.some((i, axis) => i >= shape[axis])) {
      const has = shape.length ? `has the shape ${shape.join(" × ")}` : "is one number and takes no index";
      throw new Error(`${name}[${place.join(", ")}] does not exist: ${name} ${has}.`);
    }
    return place;
  }
}

/**
 * Reads a condition. `known`: name → shape, of the variables with numbers. Returns {names, holds(values: name →
 * value)}; a condition on a whole tile holds if one element fulfils it. Throws an Error with a sentence for the reader.
 */
export function readCondition(text, known) {
  const reader = new ConditionReader(text, known);
  if (!reader.words.length) reader.refuse("The condition is empty.");
  const holds = reader.whole();
  if (!reader.names.size) reader.refuse("The condition has no variable.");
  return { names: [...reader.names], holds };
}
