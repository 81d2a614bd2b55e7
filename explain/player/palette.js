// The colours of the current theme, and the colour ramps of numbers.

const DIVERGING = {
  light: ["#4a2383", "#8073ac", "#c3bde0", "#f7f7f5", "#fbcf95", "#e08214", "#8f4306"],
  dark: ["#d3c6ff", "#9a86e0", "#55468e", "#22262e", "#77480f", "#d07f1e", "#ffd08a"],
};
const OUTPUT = {
  light: ["#2f6b1a", "#7fb84a", "#cfe6b4", "#f7f7f5", "#f3cfe2", "#d67fae", "#93316a"],
  dark: ["#c9efa6", "#86bf57", "#41602b", "#22262e", "#64354f", "#c273a0", "#ffc4e3"],
};
const READS = { light: ["#f1f3f6", "#c6ccd7", "#8f98a9", "#525b6b"],
  dark: ["#232831", "#474f5d", "#7b8494", "#c0c7d3"] };
const SHARE = { light: ["#f7f7f5", "#a9d8f4", "#56b4e9", "#2484bd"],
  dark: ["#22262e", "#2b566e", "#3f93c2", "#8fd2f7"] };
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

/** The colours of the current theme, read from the player's CSS. */
export class Palette {
  constructor(section, dark) {
    const css = getComputedStyle(section);
    const get = (name) => css.getPropertyValue(`--${name}`).trim();
    for (const name of ["text", "muted", "faint", "line", "ground", "raised"]) this[name] = get(name);
    const quantities = ["max", "sum", "alpha", "p", "acc", "hbm", "scores"];
    this.quantity = Object.fromEntries(quantities.map((q) => [q, { ink: get(`q-${q}`), fill: get(`f-${q}`) }]));
    this.font = css.fontFamily;
    this.size = parseFloat(css.fontSize);
    const theme = dark ? "dark" : "light";
    this.scores = ramp(DIVERGING[theme]);
    this.output = ramp(OUTPUT[theme]);
    this.share = ramp(SHARE[theme]);
    this.reads = ramp(READS[theme]);
    this.lit = packed(channels(this.quantity.hbm.fill));
    this.written = packed(channels(dark ? "#5d4718" : "#fbe3b0"));
    this.masked = packed(channels(dark ? "#3d434e" : "#d3d6dc"));
    this.nan = packed(channels(dark ? "#ff4fb8" : "#d6007f"));
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
    return isLight(unpacked(pixel)) ? "#16181d" : "#ffffff";
  }

  css(pixel) {
    return `rgb(${unpacked(pixel)})`;
  }
}
