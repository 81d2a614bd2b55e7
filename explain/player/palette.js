// The colours of the current theme, and the colour ramps of numbers.

const LEVELS = 255;

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const packed = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;      // ImageData on little-endian machines
const unpacked = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
const isLight = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140;

function ramp(anchors) {
  const stops = anchors.map(channels);
  return Int32Array.from({ length: 2 * LEVELS + 1 }, (_, i) => {
    const at = (i / (2 * LEVELS)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return packed(stops[low].map((c, j) => Math.round(c + (stops[low + 1][j] - c) * (at - low))));
  });
}

/** "light" or "dark": the theme that an element stands in. */
export function themeOf(section) {
  const probe = document.createElement("i");
  probe.style.color = "var(--st-background-color, white)";
  section.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
}

/** The colours of the current theme, read from the player's CSS (explain/figures/palette.py). */
export class Palette {
  constructor(section) {
    const css = getComputedStyle(section);
    const get = (name) => css.getPropertyValue(`--${name}`).trim();
    const pixel = (name) => packed(channels(get(name)));
    const plain = ["text", "muted", "faint", "line", "ground", "raised", "code-ground", "alarm"];
    for (const name of plain) this[name] = get(name);
    const quantities = ["max", "sum", "alpha", "p", "acc", "hbm", "scores", "slate"];
    this.quantity = Object.fromEntries(quantities.map((q) => [q, { ink: get(`q-${q}`), fill: get(`f-${q}`) }]));
    this.font = css.fontFamily;
    // At full screen the smallest text of a picture is as large as other text.
    const size = parseFloat(css.fontSize);
    this.size = size * (parseFloat(get("picture-text")) || 1);
    this.smallest = size * (parseFloat(get("picture-least")) || 0);
    const ramps = ["scores", "output", "inputs", "weights", "share", "reads"];
    for (const name of ramps) this[name] = ramp(get(`ramp-${name}`).split(" "));
    for (const name of ["written", "masked", "nan"]) this[name] = pixel(name);
    this.lit = packed(channels(this.quantity.hbm.fill));
    this.letters = { dark: get("dark-letters"), light: get("light-letters") };
  }

  /** The colour of x on a ramp from −largest to largest (diverging) or from 0 to largest. */
  pixel(x, ramp, largest, diverging = true) {
    if (x !== x) return this.nan;
    if (x === -Infinity) return this.masked;
    const t = diverging ? x / largest : (2 * x) / largest - 1;
    return ramp[LEVELS + Math.round(LEVELS * Math.max(-1, Math.min(1, t)))];
  }

  /** A colour of the theme as a pixel. */
  packed(hex) {
    return packed(channels(hex));
  }

  inkOn(pixel) {
    return isLight(unpacked(pixel)) ? this.letters.dark : this.letters.light;
  }

  css(pixel) {
    return `rgb(${unpacked(pixel)})`;
  }
}
