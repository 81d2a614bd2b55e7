// Where a NaN or an infinity comes from: the values that the line which made it has read, and the steps that set them.

import { number } from "./numbers.js";
import { isFloat } from "./trace.js";

const VARIABLE_WORDS = /[A-Za-z_]\w*/g;
const isNaNNumber = (x) => x !== x;
const isInfinite = (x) => x === Infinity || x === -Infinity;

/** The place of element `at` of a tile, as [i, j]. */
function placeOf(shape, at) {
  return shape.map((_, axis) => {
    const below = shape.slice(axis + 1).reduce((n, side) => n * side, 1);
    return Math.floor(at / below) % shape[axis];
  });
}

/** The element of `value` that goes with a place of a result: along the axis of its length, as m_i[:, None] does. */
function along(value, shape, place) {
  if (!value.shape.length || value.data.length === 1) return 0;
  const axes = value.shape.length === shape.length ? shape.map((_, axis) => axis) : [shape.indexOf(value.shape[0])];
  const fits = value.shape.every((side, axis) => side === 1 || side === shape[axes[axis]]);
  if (!fits || (value.shape.length !== shape.length && value.shape.length !== 1)) return -1;
  return value.shape.reduce((at, side, axis) => at * side + (side === 1 ? 0 : place[axes[axis]]), 0);
}

const indexOf = ({ data }, test) => {
  for (let i = 0; i < data.length; i++) if (test(data[i])) return i;
  return -1;
};

/** `s[0, 3] = −∞`. */
function told(label, value, at) {
  const place = value.shape.length ? `[${placeOf(value.shape, at).join(", ")}]` : "";
  return `${label}${place} = ${number(value.data[at])}`;
}

/**
 * What the line of step k made a NaN or an infinity of: {made, of: [{words, odd, step}]}, in words, or null where the
 * step sets none. `of` has what it read, those that are NaN or infinite (`odd`) first; `step` set it.
 */
export function sourceOfOdd(story, k) {
  const change = [isNaNNumber, isInfinite].flatMap((test) => story.changes(k)
    .filter(({ value }) => value.data && isFloat(value.dtype)).map((one) => ({ ...one, at: indexOf(one.value, test) }))
    .filter(({ at }) => at >= 0))[0];
  if (!change) return null;
  const place = placeOf(change.value.shape, change.at);
  const source = story.trace.source[k];
  const names = new Set(story.text(k).replace(/^[^=(]*=(?!=)/, "").match(VARIABLE_WORDS) ?? []);
  const of = [...names].flatMap((label) => {
    const name = story.byName.get(`${source} ${label}`);
    const value = story.at(name, k - 1);
    if (!value?.data?.length || !isFloat(value.dtype)) return [];
    let at = along(value, change.value.shape, place);
    const odd = (i) => isNaNNumber(value.data[i]) || isInfinite(value.data[i]);
    if (at < 0 || !odd(at)) at = Math.max(at, indexOf(value, isNaNNumber), indexOf(value, isInfinite));
    if (at < 0) return [];
    const set = story.lastChange(name, k - 1, story.frameStart[k]);
    return [{ words: told(label, value, at), odd: odd(at), step: set < 0 ? -1 : story.historyStep[set] }];
  });
  of.sort((a, b) => b.odd - a.odd);
  return { made: told(change.label, change.value, change.at), of };
}
