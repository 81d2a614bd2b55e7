// What the opening's scenes draw with.

import { write } from "../../player/surface.js";
import { box } from "./layouts.js";

/** What draws one moment: words, boxes, matrices. `said` collects the words that can be read, `terms` those of them
 * that `definitions` has, each definition once. `computed`: the moment's numbers are the formulas', not the run's.
 */
export class Pen {
  constructor(ctx, palette, pictures, layout, definitions) {
    Object.assign(this, { ctx, palette, pictures, layout, definitions, said: [], terms: [], computed: false });
  }

  ink(quantity) {
    return this.palette.quantity[quantity]?.ink ?? this.palette[quantity] ?? quantity;
  }

  fill(quantity) {
    return this.palette.quantity[quantity]?.fill ?? this.palette[quantity];
  }

  /** The colour of letters on a quantity's fill. */
  onFill(quantity) {
    return this.palette.inkOn(this.palette.packed(this.fill(quantity)));
  }

  /** Draws with this opacity. */
  faded(alpha, draw) {
    if (alpha <= 0) return;
    const before = this.ctx.globalAlpha;
    this.ctx.globalAlpha = before * alpha;
    draw();
    this.ctx.globalAlpha = before;
  }

  text(text, x, y, { size = this.layout.label, ink = "text", weight = 400, align = "left" } = {}) {
    if (this.ctx.globalAlpha > 0.5) {
      this.said.push(text);
      this.explain(text, x, y, size, weight, align);
    }
    write(this.ctx, text, x, y, { colour: this.ink(ink), size, weight, align, font: this.palette.font });
  }

  /** Remembers where a term stands that has a definition. */
  explain(text, x, y, size, weight, align) {
    const meaning = this.definitions[text];
    if (!meaning || this.terms.some((term) => this.definitions[term.text] === meaning)) return;
    const left = align === "left" ? x : x - this.width(text, size, weight) / (align === "right" ? 1 : 2);
    this.terms.push({ text, x: left, y, size, weight });
  }

  width(text, size, weight = 400) {
    this.ctx.font = this.ctx.fontInForce = `${weight} ${size}px ${this.palette.font}`;
    return this.ctx.measureText(text).width;
  }

  box({ x, y, w, h }, fill, { stroke, radius = 0, dash = [], thick = 1.5 } = {}) {
    const { ctx } = this;
    ctx.beginPath();
    ctx.roundRect(x, y, Math.max(0, w), Math.max(0, h), radius);
    if (fill) {
      ctx.fillStyle = fill;
      ctx.fill();
    }
    if (!stroke) return;
    ctx.strokeStyle = stroke;
    ctx.lineWidth = thick;
    ctx.setLineDash(dash);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** An empty place for a matrix. */
  empty(at) {
    this.box(at, this.palette.ground, { stroke: this.palette.muted, dash: [4, 4], thick: 1 });
  }

  /** An empty place for a matrix, with its name. */
  slot(name, at) {
    this.empty(at);
    this.text(name, at.x + at.w / 2, at.y + at.h / 2, { ink: "muted", align: "center" });
  }

  /** A thin line from one x to another. */
  rule(from, to, y) {
    this.box(box(from, y - 0.6, to - from, 1.2), this.palette.faint);
  }

  /** Rows and columns of a matrix, all by default, as coloured cells. */
  cells(name, to, { rows, cols } = {}) {
    const picture = this.pictures[name];
    const [r0, r1] = rows ?? [0, picture.height], [c0, c1] = cols ?? [0, picture.width];
    if (r1 <= r0 || to.w <= 0 || to.h <= 0) return;
    this.ctx.imageSmoothingEnabled = false;
    this.ctx.drawImage(picture, c0, r0, c1 - c0, r1 - r0, to.x, to.y, to.w, to.h);
  }
}
