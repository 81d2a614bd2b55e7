// Where the opening's scenes draw, on a wide and on a narrow stage. Sizes are in units of the layout, which is as wide
// as the stage.

export const box = (x, y, w, h) => ({ x, y, w, h });

// A matrix has one shape, on chip and in HBM: all matrices of a place have the same size of an element.
const WIDE = {
  width: 1200, height: 560, small: 16, label: 19, large: 27, token: 37, leading: 64,
  chip: box(0, 0, 1200, 386), hbm: box(0, 410, 1200, 150),
  title: [24, 436], aside: [24, 460], colours: [[24, 506], [24, 530]], onChip: [24, 26],
  memory: {
    q: box(150, 424, 61, 122), k: box(410, 424, 61, 122), v: box(670, 424, 61, 122), o: box(930, 424, 61, 122),
  },
  beside: (m) => [m.x + m.w + 14, m.y + 16, m.x + m.w + 14, m.y + 42],
  words: box(60, 50, 1080, 300),
  whole: {
    q: box(96, 148, 109, 218), k: box(221, 24, 218, 109), s: box(221, 148, 218, 218), said: [457, 172, 457, 208],
    dot: { q: 96, k: 168, each: 240, sum: 320 },
  },
  scale: { x: 110, y: 530, chip: 430, most: 500, said: [660, 154], step: 46 },
  slider: box(660, 306, 480, 48),
  trips: { up: 131, down: 423, s: 210, p: 370, side: 124, list: [660, 30, 1000], step: 40 },
  tile: {
    q: box(60, 246, 192, 96), k: box(268, 40, 96, 192), s: box(268, 246, 96, 96), v: box(380, 136, 192, 96),
    o: box(380, 246, 192, 96), under: 362, keys: [268, 24],
    map: { x: 830, y: 26, cell: 80, gap: 5, said: [622, 170], step: 36 },
  },
  row: {
    x: 640, value: 676, axis: 784, end: 1160, title: 46, m: 108, l: 174, thick: 34, sum: 250, o: 326, high: 34,
  },
  away: [box(446, 383, 60, 30), box(930, 383, 61, 30)],    // between the chip and HBM
  grid: { x: 220, y: 14, cell: 85, gap: 6, said: [680, 120], step: 40 },
  bills: { x: 60, w: 1080, size: 34, y: [102, 206], thick: 56, big: 34, times: 294, said: 340 },
};
const NARROW = {
  width: 400, height: 620, small: 13, label: 15, large: 18, token: 20, leading: 35,
  chip: box(0, 0, 400, 420), hbm: box(0, 440, 400, 180), title: [12, 458], aside: [48, 458],
  colours: [[160, 458], [270, 458]], onChip: [12, 18],
  memory: { q: box(24, 498, 56, 112), k: box(121, 498, 56, 112), v: box(218, 498, 56, 112), o: box(316, 498, 56, 112) },
  beside: (m) => [m.x, m.y - 14, m.x + 20, m.y - 14],
  words: box(12, 30, 376, 380),
  whole: {
    q: box(40, 150, 102, 204), k: box(154, 36, 204, 102), s: box(154, 150, 204, 204), said: [154, 376, 154, 400],
  },
  scale: { x: 40, y: 340, chip: 240, most: 320, said: [20, 446], step: 30 },
  slider: box(14, 372, 372, 44),
  trips: { up: 100, down: 500, s: 20, p: 110, side: 80, list: [215, 60, 380], step: 34 },
  tile: {
    q: box(14, 150, 112, 56), k: box(138, 30, 56, 112), s: box(138, 150, 56, 56), v: box(206, 86, 112, 56),
    o: box(206, 150, 112, 56), under: 218, keys: [138, 18],
    map: { x: 200, y: 240, cell: 40, gap: 4, said: [14, 310], step: 26 },
  },
  row: { x: 14, value: 38, axis: 98, end: 388, title: 240, m: 272, l: 310, thick: 22, sum: 346, o: 388, high: 20 },
  away: [box(250, 218, 24, 12), box(378, 218, 24, 12), box(378, 424, 24, 12), box(332, 424, 24, 12)],
  grid: { x: 47, y: 30, cell: 72, gap: 6, said: [20, 356], step: 24 },
  bills: { x: 12, w: 376, size: 30, y: [94, 190], thick: 40, big: 22, times: 256, said: 296 },
};

/** The layout for a stage of this size. On a stage that is wider still the panels and their names reach its sides, and
 * all else stays in the middle. */
export function layoutOf(stage) {
  if (stage.width < stage.height) return NARROW;
  const beside = Math.max(0, (WIDE.height * stage.width) / stage.height - WIDE.width) / 2;
  const [chip, hbm] = [WIDE.chip, WIDE.hbm].map(({ y, h }) => box(-beside, y, WIDE.width + 2 * beside, h));
  const outside = ([x, y]) => [x - beside, y];
  const [title, aside, onChip] = [WIDE.title, WIDE.aside, WIDE.onChip].map(outside);
  return { ...WIDE, chip, hbm, title, aside, onChip, colours: WIDE.colours.map(outside) };
}
