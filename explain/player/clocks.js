// The clocks: how far one press of an arrow goes, from every line to a pass over the tiles.

/** The first visit of each pass over the tiles: of another program, another loop, or the same loop from its
 * beginning. */
function passes(story) {
  let before = null;
  return story.visits.filter((visit) => {
    const { rows, cols } = story.tile(visit.begin) ?? { rows: [0], cols: [0] };
    const now = { program: visit.program, line: story.trace.line[visit.begin], row: rows[0], col: cols[0] };
    const again = before && now.program === before.program && now.line === before.line;
    const goesOn = again && now.row >= before.row && now.col >= before.col;
    before = now;
    return !goesOn;
  });
}

/**
 * The clocks of a timeline by key, fine to coarse: {name, says, stops, beats}. `line` passes over the lines that only
 * compute addresses and masks; `beat` is missing where a run has none.
 */
export function clocksOf({ stories, positionOf, woven, beats, length }) {
  const [story] = stories;
  const at = (step) => positionOf[0].get(step);
  const tells = (t) => woven.some((steps, i) => stories[i].told[steps[t]] && steps[t] !== steps[t - 1]);
  const visits = story.programs.flatMap((program, p) => {
    const own = story.visits.filter((visit) => visit.program === p);
    return own.length ? own.map(({ begin }) => at(begin)) : [at(program.first)];
  });
  const single = story.visits.length > 0 && story.visits.every(({ begin }) => {
    const tile = story.tile(begin);
    return tile?.cols.length === 1 && tile.rows.length === 1;
  });
  const tile = single ? "element" : "tile";
  const begins = passes(story).map(({ begin }) => at(begin));
  const all = Array.from({ length }, (_, t) => t);
  return {
    every: { name: "every line", says: "step", stops: all },
    line: { name: "line", says: "line that moves or computes numbers", stops: all.filter(tells) },
    ...(beats.length && { beat: { name: "beat", says: "beat", beats } }),
    tile: { name: tile, says: tile, stops: visits },
    pass: { name: "pass", says: "pass over the tiles", stops: begins.length ? begins
      : story.programs.map(({ first }) => at(first)) },
  };
}

/** The step that a clock goes to from step t, forward or back, on a timeline of `length` steps. */
export function tick({ stops, beats }, t, direction, length) {
  const end = direction > 0 ? length - 1 : 0;
  if (beats) return beats[beats.findLastIndex(({ begin }) => begin <= t) + direction]?.at ?? end;
  return (direction > 0 ? stops.find((at) => at > t) : stops.findLast((at) => at < t)) ?? end;
}
