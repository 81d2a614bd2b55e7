// The timeline: programs, tile visits, rescales, changes of the watched variable, the current step.

import { NOWHERE, line } from "../surface.js";

export const TIMELINE_INSET = 9;                           // half the width of the range input's thumb

/**
 * score: {length, starts: [of a program or launch], visits: [start], rescales: [{at}], watched: [at],
 * odd: at | null}; `veiled` hides the future. Returns xOf(step).
 */
export function paintTimeline(surface, palette, score, at, stamp, veiled = false) {
  if (!surface.visible) return NOWHERE;
  const ctx = surface.clear();
  const inner = surface.width - 2 * TIMELINE_INSET;
  const xOf = (step) => TIMELINE_INSET + (inner * step) / Math.max(1, score.length - 1);
  const top = 2, bottom = surface.height - 2, middle = Math.round((top + bottom) * 0.5);
  surface.layer("score", stamp, (pen) => {
    pen.fillStyle = palette.raised;
    pen.fillRect(TIMELINE_INSET, middle - 3, inner, 6);
    pen.lineWidth = 1;
    const everyVisit = Math.ceil((score.visits.length * 3) / inner);
    pen.strokeStyle = palette.faint;
    const tick = (step, from, to) => {
      const x = Math.round(xOf(step)) + 0.5;
      line(pen, x, from, x, to);
    };
    score.visits.forEach((step, v) => v % everyVisit === 0 && tick(step, middle - 6, middle + 6));
    pen.strokeStyle = palette.muted;
    pen.lineWidth = 1.5;
    if (score.starts.length > 1) for (const step of score.starts) tick(step, top, bottom);
  });
  const events = (pen) => {
    pen.fillStyle = palette.quantity.alpha.fill;
    for (const { at: step } of score.rescales) pen.fillRect(xOf(step) - 1.25, middle + 5, 2.5, bottom - middle - 5);
    if (score.odd !== null) {
      pen.fillStyle = palette.css(palette.nan);
      pen.fillRect(xOf(score.odd) - 1.5, top, 3, bottom - top);
    }
    pen.fillStyle = palette.text;
    for (const step of score.watched) {
      pen.beginPath();
      pen.moveTo(xOf(step) - 3, top);
      pen.lineTo(xOf(step) + 3, top);
      pen.lineTo(xOf(step), top + 5);
      pen.fill();
    }
  };
  ctx.save();
  if (veiled) {
    ctx.beginPath();
    ctx.rect(0, 0, xOf(at), surface.height);
    ctx.clip();
  }
  surface.layer("events", stamp, events);
  ctx.restore();
  ctx.fillStyle = palette.text;
  ctx.globalAlpha = 0.28;
  ctx.fillRect(TIMELINE_INSET, middle - 3, xOf(at) - TIMELINE_INSET, 6);
  ctx.globalAlpha = 1;
  ctx.beginPath();
  ctx.arc(xOf(at), middle, 7.5, 0, 2 * Math.PI);
  ctx.fillStyle = palette.text;
  ctx.fill();
  ctx.lineWidth = 2;
  ctx.strokeStyle = palette.ground;
  ctx.stroke();
  return xOf;
}
