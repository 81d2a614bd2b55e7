// Two runs on one timeline: which steps of both belong together. One that has nothing there waits.

/** The stretches that align two runs: each program's steps before, in and after each visit or join. */
export function stretches(story) {
  const out = new Map();
  story.programs.forEach((program, p) => {
    let key = `${p}:-1`;
    for (let k = program.first; k < program.end; k++) {
      const part = story.part(k);
      if (part >= 0) key = `${p}:${part}`;
      else if (!key.endsWith("+") && k > program.first && story.part(k - 1) >= 0) key += "+";
      if (!out.has(key)) out.set(key, []);
      out.get(key).push(k);
    }
  });
  return out;
}

/** The stretches of two runs under common keys. Runs of other launches have other programs, so there the first visits
 * of the same tile of S meet. A run with more passes over the same tiles waits in those that the other makes too, and
 * one with larger tiles until the other has read as far. All as far as both runs make them in the same order.
 */
export function stretchesOfBoth(stories) {
  const parts = stories.map(stretches);
  const [launches, passes] = [({ trace }) => trace.header.launches.length, (story) => story.passes.length]
    .map((count) => stories.map(count));
  const order = ([one, other]) => (one < other ? [0, 1] : [1, 0]); // the run with fewer does not wait to end
  const corner = (i, steps) => {
    const { rows, cols } = stories[i].tile(steps.at(-1)) ?? {};
    return rows ? `${rows[0]} ${cols[0]}` : null;
  };
  const marked = (mark) => parts.map((part, i) => [...part].map(([key, steps]) =>
    ({ key, steps, mark: mark(i, key, steps) })));
  if (launches[0] !== launches[1]) {
    const seen = stories.map(() => new Set());
    const first = (i, key, steps) => {
      const tile = isVisit(key) ? corner(i, steps) : null, again = seen[i].has(tile);
      seen[i].add(tile);
      return again ? null : tile;
    };
    return underCommonKeys(marked(first), order(launches));
  }
  const tiles = parts.map((part, i) => [...part].flatMap(([key, steps]) => (isVisit(key) ? [corner(i, steps)] : [])));
  const [one, other] = tiles.map((corners) => [...new Set(corners)].sort().join("; "));
  if (passes[0] === passes[1] && one === other) return parts;
  const deed = (i, key, steps) => [isVisit(key) && corner(i, steps), ...beatsOf(stories[i], steps)
    .map(({ kind }) => kind)].join();
  const most = passes[0] === passes[1] ? tiles.map(({ length }) => length) : passes;
  return underCommonKeys(marked(deed), order(most), true) ?? parts;
}

/** Two lists of stretches {key, steps, mark}: those of the same mark get the same key. With `all`, null if a visit of
 * the run that is first in `order` meets none. */
function underCommonKeys(lists, order, all = false) {
  const pairs = paired(...order.map((i) => lists[i]), (a, b) => a.mark !== null && a.mark === b.mark);
  if (all && pairs.some(([one, other]) => one && !other && isVisit(one.key))) return null;
  const out = lists.map(() => new Map());
  pairs.forEach((pair, at) => {
    const [, visit] = pair.find(Boolean).key.split(":");
    pair.forEach((one, n) => one && out[order[n]].set(`${at}:${visit}`, one.steps));
  });
  return out;
}

export const isVisit = (key) => !/:-1|\+/.test(key);

export const stretchOrder = (key) => {
  const [program, visit] = key.split(":");
  return Number(program) * 1e6 + parseInt(visit, 10) + (visit.endsWith("+") ? 0.5 : 0);
};

const MOST_LINED = 1e5;                                    // pairs of lines to compare in two beats
const SUMS = new Set(["rescale", "add", "merge"]);         // beats that update ℓ or the accumulator: the same place

const alike = (a, b) => a.kind === b.kind || (SUMS.has(a.kind) && SUMS.has(b.kind));

/** Two lists in order, as pairs: what is the `same` together, what only one list has with null. */
function paired(left, right, same) {
  const most = left.map(() => []).concat([[]]);            // pairs of the same kind from (i, j) on
  const at = (i, j) => most[i]?.[j] ?? 0;
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      most[i][j] = same(left[i], right[j]) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const out = [];
  let i = 0, j = 0;
  while (i < left.length || j < right.length) {
    const both = i < left.length && j < right.length;
    if (both && same(left[i], right[j])) out.push([left[i++], right[j++]]);
    else if (j >= right.length || (both && at(i + 1, j) >= at(i, j + 1))) out.push([left[i++], null]);
    else out.push([null, right[j++]]);
  }
  return out;
}

/** A stretch's beats; all its steps as one, if the run has none. */
function beatsOf(story, steps) {
  if (!steps?.length) return [];
  const [begin] = steps, end = steps.at(-1) + 1;
  const own = story.beats.filter((beat) => beat.begin >= begin && beat.end <= end);
  return own.length ? own : [{ begin, end, at: begin }];
}

/** Whether two runs are of one source, or of one with lines that are changed in place: then a line has one number. */
function areLinedUp([one, other]) {
  const shape = ({ sources }) => sources.map(({ function: name, first_line, lines }) =>
    [name, first_line, lines.length].join()).join(";");
  return shape(one) === shape(other);
}

/** The steps of two beats that belong together, as pairs; null where a run waits. They meet at their lines, where these
 * are `linedUp`, else one after the other. */
function together(stories, pair, linedUp) {
  const steps = pair.map((beat) =>
    (beat ? Array.from({ length: beat.end - beat.begin }, (_, i) => beat.begin + i) : []));
  const [one, other] = steps.map(({ length }) => length), lines = stories.map(({ trace: { line } }) => line);
  if (linedUp && one * other <= MOST_LINED) return paired(...steps, (a, b) => lines[0][a] === lines[1][b]);
  return Array.from({ length: Math.max(one, other) }, (_, i) => steps.map((own) => own[i] ?? null));
}

/**
 * One timeline for one or two runs: `woven`, for each its own step at every step of the timeline, and `beats`, each
 * {begin, end, at, of: each run's beat}. Two runs meet at each beat; the one without it, or with fewer lines, waits.
 */
export function weave(stories) {
  if (stories.length === 1) {
    const [{ beats, steps }] = stories;
    const of = (beat) => ({ begin: beat.begin, end: beat.end, at: beat.at, of: [beat] });
    return { woven: [Uint32Array.from({ length: steps }, (_, k) => k)], beats: beats.map(of) };
  }
  const parts = stretchesOfBoth(stories);
  const all = new Set(parts.flatMap((part) => [...part.keys()]));
  const keys = [...all].sort((a, b) => stretchOrder(a) - stretchOrder(b));
  const out = stories.map(() => []), beats = [];
  const linedUp = areLinedUp(stories);
  const last = stories.map(({ beats: [first] }) => first); // each run's latest beat, on which it waits
  for (const key of keys) {
    for (const pair of paired(...stories.map((story, i) => beatsOf(story, parts[i].get(key))), alike)) {
      const steps = together(stories, pair, linedUp), begin = out[0].length;
      const at = begin + Math.max(...pair.map((beat, i) => steps.findIndex((step) => beat && step[i] === beat.at)));
      pair.forEach((beat, i) => {
        for (const step of steps) out[i].push(step[i] ?? out[i].at(-1) ?? 0);
        if (beat) last[i] = beat;
      });
      beats.push({ begin, end: begin + steps.length, at, of: [...last] });
    }
  }
  const told = stories.every((story) => story.beats.length);
  return { woven: out.map((steps) => Uint32Array.from(steps)), beats: told ? beats : [] };
}
