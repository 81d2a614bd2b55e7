// The clocks: how far one press of an arrow goes, from line by line to pass by pass.

const LINE_CLOCK = { name: "line", says: "step", stops: null };

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

/** The clocks of a timeline, fine to coarse: [{name, says, stops}], stops null where every step is one. */
export function clocksOf([story], positionOf) {
  const at = (step) => positionOf[0].get(step);
  const visits = story.programs.flatMap((program, p) => {
    const own = story.visits.filter((visit) => visit.program === p);
    return own.length ? own.map(({ begin }) => at(begin)) : [at(program.first)];
  });
  const single = story.visits.length > 0 && story.visits.every(({ begin }) => {
    const tile = story.tile(begin);
    return tile?.cols.length === 1 && tile.rows.length === 1;
  });
  const tile = { name: single ? "element" : "tile", says: single ? "element" : "tile", stops: visits };
  const begins = passes(story).map(({ begin }) => at(begin));
  const stops = begins.length ? begins : story.programs.map(({ first }) => at(first));
  return [LINE_CLOCK, tile, { name: "pass", says: "pass over the tiles", stops }];
}

/** The step that a clock goes to from step t, forward or back, on a timeline of `length` steps. */
export function tick({ stops }, t, direction, length) {
  if (!stops) return t + direction;
  return direction > 0 ? stops.find((at) => at > t) ?? length - 1 : stops.findLast((at) => at < t) ?? 0;
}
