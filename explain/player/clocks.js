// The clocks: how far one press of an arrow goes, from every line to a pass over the tiles.

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
  const tile = story.tileName;
  const begins = story.passes.map(({ begin }) => at(begin));
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
