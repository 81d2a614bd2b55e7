// Reads the trace file, format 1 (docs/trace-format.md): bytes in, typed arrays out.

const MAGIC = "TILESCOP";
const FORMAT = 1;
const ENVELOPE_BYTES = 56;

const PLAIN = {
  f64: [Float64Array, 8], f32: [Float32Array, 4],
  i32: [Int32Array, 4], i16: [Int16Array, 2], i8: [Int8Array, 1],
  u32: [Uint32Array, 4], u16: [Uint16Array, 2], u8: [Uint8Array, 1], i1: [Uint8Array, 1],
};

export const isFloat = (dtype) => dtype[0] === "f" || dtype === "bf16";

/** The bytes of an element of a dtype. */
export const itemBytes = (dtype) => PLAIN[dtype]?.[1] ?? { bf16: 2, f16: 2, i64: 8, u64: 8 }[dtype] ?? 1;

/** A small float from its bits: IEEE, or an 8-bit kind that uses the codes of the infinities for numbers. */
function smallFloat(bits, exponentBits, mantissaBits, bias, kind) {
  const negative = bits >> (exponentBits + mantissaBits);
  const top = (1 << exponentBits) - 1, full = (1 << mantissaBits) - 1;
  const exponent = (bits >> mantissaBits) & top;
  const mantissa = bits & full;
  if (kind === "ieee" && exponent === top) return mantissa ? NaN : negative ? -Infinity : Infinity;
  if (kind === "finite" && exponent === top && mantissa === full) return NaN;
  if (kind === "unsigned zero" && negative && !exponent && !mantissa) return NaN;
  const fraction = mantissa / (full + 1);
  return (negative ? -1 : 1) * (exponent ? (1 + fraction) * 2 ** (exponent - bias) : fraction * 2 ** (1 - bias));
}

function read(buffer, at, dtype, count) {
  if (PLAIN[dtype]) {
    const [Kind, size] = PLAIN[dtype];
    if (at + count * size > buffer.byteLength) throw new Error("an array of the trace lies outside the file");
    return new Kind(buffer, at, count);
  }
  if (dtype === "i64" || dtype === "u64") {
    return Float64Array.from(new (dtype === "i64" ? BigInt64Array : BigUint64Array)(buffer, at, count), Number);
  }
  if (dtype === "bf16") {
    const wide = Uint32Array.from(new Uint16Array(buffer, at, count), (bits) => bits << 16);
    return new Float32Array(wide.buffer);
  }
  if (dtype === "f16") {
    return Float32Array.from(new Uint16Array(buffer, at, count), (bits) => smallFloat(bits, 5, 10, 15, "ieee"));
  }
  // Triton's names: fp8e4nv, fp8e5, fp8e4b8, fp8e4b15, fp8e5b16.
  const eight = /^f8:fp8e([45])(?:b(\d+))?/.exec(dtype);
  if (eight) {
    const exponent = Number(eight[1]), bias = Number(eight[2] ?? (exponent === 5 ? 15 : 7));
    const kind = eight[2] ? "unsigned zero" : exponent === 5 ? "ieee" : "finite";
    return Float32Array.from(new Uint8Array(buffer, at, count),
      (bits) => smallFloat(bits, exponent, 7 - exponent, bias, kind));
  }
  throw new Error(`the trace has values of an unknown dtype, ${dtype}`);
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  try {
    return await new Response(stream).arrayBuffer();
  } catch {
    throw new Error("the trace file is damaged: its contents cannot be unpacked");
  }
}

export const product = (shape) => shape.reduce((n, side) => n * side, 1);

/** An affine tile: base + i·st0 + j·st1 …, row-major. */
function affine(shape, base, strides) {
  const out = new Float64Array(product(shape));
  for (let at = 0; at < out.length; at++) {
    let value = base;
    for (let axis = shape.length - 1, rest = at; axis >= 0; axis--) {
      value += (rest % shape[axis]) * strides[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    out[at] = value;
  }
  return out;
}

const SCALAR_WORDS = { inf: Infinity, "-inf": -Infinity, nan: NaN, True: 1, False: 0, true: 1, false: 0 };
const scalarNumber = (text) => (text in SCALAR_WORDS ? SCALAR_WORDS[text] : Number(text));

class Trace {
  constructor(header, buffer, blobAt) {
    this.header = header;
    this.buffer = buffer;
    this.blobAt = blobAt;
    this.cache = new Array(header.values.length);
    this.steps = header.steps.line.n;
    for (const [name, column] of Object.entries(header.steps)) {
      this[name] = read(buffer, blobAt + column.o, column.d, column.n);
    }
  }

  /**
   * Value `index`, decoded once: {kind, dtype, shape, data}; shape and data are null where it has no numbers. `text`
   * is a value shown as text, `buffer` a pointer's buffer, `items` a tuple's items.
   */
  value(index) {
    return (this.cache[index] ??= this.decode(this.header.values[index]));
  }

  decode(v) {
    const none = { kind: v.k, dtype: "", shape: null, data: null };
    switch (v.k) {
      case "t":
        return { ...none, dtype: v.d, shape: v.s, data: read(this.buffer, this.blobAt + v.o, v.d, product(v.s)) };
      case "a":
        return { ...none, dtype: v.d, shape: v.s, data: affine(v.s, v.b, v.st) };
      case "s": {
        if (!["int", "float", "bool"].includes(v.d)) return { ...none, text: v.v };
        return { ...none, dtype: v.d === "float" ? "f64" : "i64", shape: [], data: [scalarNumber(v.v)], text: v.v };
      }
      case "p":
        return { ...none, buffer: v.b, tile: v.v };
      case "b":
        return { ...none, buffer: v.b, text: `block of ${v.block.join(" × ")}` };
      case "l":
        return { ...none, items: v.v };
      default:
        return { ...none, text: String(v.v) };
    }
  }
}

/** Reads a trace file. Throws an Error with a message for the reader. */
export async function decodeTrace(bytes) {
  if (bytes.byteLength < ENVELOPE_BYTES || String.fromCharCode(...bytes.subarray(0, 8)) !== MAGIC) {
    throw new Error("this is not a trace file");
  }
  const envelope = new DataView(bytes.buffer, bytes.byteOffset, ENVELOPE_BYTES);
  const format = envelope.getUint32(8, true);
  if (format > FORMAT) throw new Error(`the trace file has format ${format}; this player reads up to ${FORMAT}`);
  const payload = bytes.subarray(ENVELOPE_BYTES);
  if (envelope.getBigUint64(16, true) !== BigInt(payload.byteLength)) {
    throw new Error("the trace file is damaged: its length is not the stated one");
  }
  // Both at once: while the page is being built, each wait takes as long as what the browser does next.
  // Without crypto, on plain http, zlib's checksum still applies.
  const [digest, buffer] = await Promise.all([globalThis.crypto?.subtle?.digest("SHA-256", payload),
    inflate(payload).catch((error) => error)]);
  if (digest && new Uint8Array(digest).some((byte, i) => byte !== bytes[24 + i])) {
    throw new Error("the trace file is damaged: wrong digest");
  }
  if (buffer instanceof Error) throw buffer;
  const headerBytes = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headerBytes)));
  return new Trace(header, buffer, 4 + headerBytes);
}
