// A picture of an element: boxes, text, paths and canvases in its own coordinates, written as an SVG with text as text,
// or painted on a canvas. Without foreign objects the canvas stays readable and every program can open the drawing.

const DRAWING = "http://www.w3.org/2000/svg";
const CLEAR = /^(transparent|rgba\(0, 0, 0, 0\))$/;
const MARGIN = 14;                                         // round the picture, in CSS pixels
const HATCH = 4;                                           // from line to line
const WITH_PSEUDO = ".now, [data-hint]";                   // their ::before and ::after are in the picture too

/** {width, height, marks} of an element as it stands on the page. What has data-unpictured, and what is hidden, is
 * left out. */
export function takePicture(root) {
  const { left, top, width, height } = root.getBoundingClientRect();
  const frame = new DOMRect(left - MARGIN, top - MARGIN, width + 2 * MARGIN, height + 2 * MARGIN);
  const taking = new Taking(frame);
  const ground = getComputedStyle(root).getPropertyValue("--ground").trim();
  taking.add({ kind: "box", x: 0, y: 0, width: frame.width, height: frame.height, radius: 0, fill: ground },
    taking.whole, 1);
  taking.inside(root, taking.whole, 1);
  return { width: frame.width, height: frame.height, marks: taking.marks };
}

const meet = (a, b) => {
  const x = Math.max(a.x, b.x), y = Math.max(a.y, b.y);
  return { x, y, width: Math.max(0, Math.min(a.x + a.width, b.x + b.width) - x),
    height: Math.max(0, Math.min(a.y + a.height, b.y + b.height) - y) };
};
const isWithin = ({ width, height }) => width > 0 && height > 0;

class Taking {
  constructor(frame) {
    this.frame = frame;
    this.whole = { x: 0, y: 0, width: frame.width, height: frame.height };
    this.marks = [];
    this.pen = document.createElement("canvas").getContext("2d");
    this.metrics = new Map();
  }

  add(mark, clip, opacity) {
    this.marks.push({ ...mark, clip, opacity });
  }

  place({ left, top, width, height }) {
    return { x: left - this.frame.left, y: top - this.frame.top, width, height };
  }

  inside(parent, clip, opacity) {
    for (const node of parent.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) this.text(node, parent, clip, opacity);
      else if (node.nodeType === Node.ELEMENT_NODE) this.element(node, clip, opacity);
    }
  }

  element(node, clip, opacity) {
    if (node.localName === "template" || node.dataset?.unpictured !== undefined) return;
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0"
      || style.clipPath !== "none") return;
    const box = this.place(node.getBoundingClientRect());
    const clips = style.overflowX !== "visible" || style.overflowY !== "visible";
    const visible = clips ? meet(clip, box) : clip;
    if (clips && !isWithin(visible)) return;
    // A line of the source that is scrolled away; half a line cannot be read.
    if (style.position === "relative" && !isWithin(meet(clip, box))) return;
    if (node.matches(".line:not(.now)") && meet(clip, box).height < box.height - 1) return;
    const seen = opacity * Number(style.opacity);
    this.surface(box, style, clip, seen);
    if (node.matches(WITH_PSEUDO)) for (const which of ["::before", "::after"]) this.pseudo(node, which, box, clip,
      seen);
    if (node.localName === "canvas")
      return void (node.width && node.height && this.add({ kind: "canvas", ...box, canvas: node }, clip, seen));
    if (node.localName === "svg") return this.icon(node, box, clip, seen);
    if (node.localName === "select") return this.chosen(node, box, style, clip, seen);
    if (node.localName === "mfrac") this.fraction(node, style, clip, seen);
    if (node.localName !== "input") this.inside(node, visible, seen);
  }

  /** Background, border and the ring that a shadow without blur draws. */
  surface(box, style, clip, opacity) {
    if (!isWithin(box)) return;
    const shape = { kind: "box", ...box, radius: Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2) };
    if (style.borderTopLeftRadius.endsWith("%")) shape.radius = box.height / 2;
    if (!CLEAR.test(style.backgroundColor)) this.add({ ...shape, fill: style.backgroundColor }, clip, opacity);
    if (style.backgroundImage.startsWith("repeating-linear-gradient")) this.hatch(box, style, clip, opacity);
    const colours = style.backgroundImage.startsWith("linear-gradient") ? style.backgroundImage.match(/rgba?\([^)]*\)/g)
      : null;
    if (colours?.length > 1) this.add({ ...shape, fill: "none", colours }, clip, opacity);
    const line = parseFloat(style.borderTopWidth);
    if (line && style.borderBottomWidth === style.borderTopWidth && style.borderTopStyle === "solid"
      && !CLEAR.test(style.borderTopColor)) {
      this.add({ ...shape, fill: "none", stroke: style.borderTopColor, line }, clip, opacity);
    }
    const [, colour, spread] = /^(rgba?\([^)]*\)) 0px 0px 0px ([\d.]+)px(?: inset)?$/.exec(style.boxShadow) ?? [];
    if (colour) this.add({ ...shape, fill: "none", stroke: colour, line: parseFloat(spread) }, clip, opacity);
  }

  /** Slanted lines, as a legend's swatch has them. */
  hatch(box, { backgroundImage }, clip, opacity) {
    const stroke = backgroundImage.match(/rgba?\([^)]*\)/g)?.findLast((colour) => !CLEAR.test(colour));
    const from = Array.from({ length: Math.ceil((box.width + box.height) / HATCH) }, (_, i) => i * HATCH - box.height);
    const d = from.map((x) => `M${x} 0l${box.height} ${box.height}`).join("");
    if (stroke) this.add({ kind: "path", d, x: box.x, y: box.y, scale: 1, fill: "none", stroke }, meet(clip, box),
      opacity);
  }

  pseudo(node, which, box, clip, opacity) {
    const style = getComputedStyle(node, which);
    if (style.content === "none" || style.content === "normal" || style.display === "none") return;
    const x = box.x + (parseFloat(style.left) || 0), y = box.y + (parseFloat(style.top) || 0);
    this.surface({ x, y, width: parseFloat(style.width) || 0, height: parseFloat(style.height) || 0 }, style, clip,
      opacity);
    const words = style.content.replace(/^"|"$/g, "");
    if (words) this.write(words, { x, y, width: 0, height: parseFloat(style.lineHeight)
      || parseFloat(style.fontSize) * 1.4 }, style, false, clip, opacity);
  }

  icon(node, box, clip, opacity) {
    const { width } = node.viewBox.baseVal;
    for (const path of node.querySelectorAll("path")) {
      const style = getComputedStyle(path);
      if (style.display !== "none") this.add({ kind: "path", d: path.getAttribute("d"), x: box.x, y: box.y,
        scale: box.width / (width || 20), fill: style.fill }, clip, opacity);
    }
  }

  chosen(node, box, style, clip, opacity) {
    const text = node.selectedOptions[0]?.textContent ?? "";
    const inset = parseFloat(style.paddingLeft) + parseFloat(style.borderLeftWidth);
    this.write(text, { x: box.x + inset, y: box.y, width: 0, height: box.height }, style, false, clip, opacity);
  }

  fraction(node, style, clip, opacity) {
    const [above, below] = [...node.children].map((child) => this.place(child.getBoundingClientRect()));
    const box = this.place(node.getBoundingClientRect());
    if (above && below) this.add({ kind: "box", x: box.x, y: (above.y + above.height + below.y) / 2, width: box.width,
      height: 1, radius: 0, fill: style.color }, clip, opacity);
  }

  text(node, parent, clip, opacity) {
    if (!/\S/.test(node.data)) return;
    const style = getComputedStyle(parent);
    const italic = parent.localName === "mi" && /^\p{L}$/u.test(node.data.trim()); // as MathML draws a single letter
    const own = parent.localName === "mo" ? this.place(parent.getBoundingClientRect()) : null;
    for (const { text, box } of this.lines(node)) {
      if (!isWithin(meet(clip, box))) continue;
      if (own) this.operator(text, box, own, style, clip, opacity);
      else this.write(text, box, style, italic, clip, opacity);
    }
  }

  /** An operator, which MathML raises and stretches: its ink fills its `own` box. */
  operator(text, { x, width }, own, style, clip, opacity) {
    const fontOf = (size) => `${style.fontStyle} ${style.fontWeight} ${size}px ${style.fontFamily}`;
    const size = parseFloat(style.fontSize);
    this.pen.font = fontOf(size);
    const { actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = this.pen.measureText(text);
    const stretch = Math.max(1, own.height / (up + down));
    this.add({ kind: "text", text, x, y: own.y + (own.height + stretch * (up - down)) / 2, width,
      font: fontOf(size * stretch), fill: style.color, style }, clip, opacity);
  }

  /** A text's lines as the page breaks them, without the space around them: [{text, box}]. */
  lines(node) {
    const { data } = node;
    const range = document.createRange();
    const boxOf = (from, to) => {
      range.setStart(node, from);
      range.setEnd(node, to);
      return range.getClientRects();
    };
    const out = [];
    const line = (from, to) => {
      const part = data.slice(from, to);
      const text = part.trim();
      const start = from + part.length - part.trimStart().length;
      const [box] = text ? boxOf(start, start + text.length) : [];
      if (box) out.push({ text: text.replace(/\s+/g, (gap) => (gap.includes("\n") ? " " : gap)),
        box: this.place(box) });
    };
    if (boxOf(0, data.length).length < 2) {
      line(0, data.length);
      return out;
    }
    let begin = 0, top = null;
    for (let i = 0; i < data.length; i++) {
      const box = boxOf(i, i + 1)[0];
      if (!box?.width) continue;
      if (top !== null && Math.abs(box.top - top) > box.height / 2) {
        line(begin, i);
        begin = i;
      }
      top = box.top;
    }
    line(begin, data.length);
    return out;
  }

  write(text, box, style, italic, clip, opacity) {
    const font = `${italic ? "italic" : style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    if (!this.metrics.has(font)) {
      this.pen.font = font;
      const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = this.pen.measureText("x");
      this.metrics.set(font, { up, down });
    }
    const { up, down } = this.metrics.get(font);
    this.add({ kind: "text", text, x: box.x, y: box.y + (box.height - up - down) / 2 + up, width: box.width, font,
      fill: style.color, style }, clip, opacity);
  }
}

/** Paints a picture on a canvas' context. */
export function paintPicture({ marks }, ctx) {
  for (const mark of marks) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(mark.clip.x, mark.clip.y, mark.clip.width, mark.clip.height);
    ctx.clip();
    ctx.globalAlpha = mark.opacity;
    PAINT[mark.kind](ctx, mark);
    ctx.restore();
  }
}

const PAINT = {
  box(ctx, { x, y, width, height, radius, fill, stroke, line, colours }) {
    ctx.beginPath();
    ctx.roundRect(x, y, width, height, radius);
    if (colours) {
      const ramp = ctx.createLinearGradient(x, 0, x + width, 0);
      colours.forEach((colour, i) => ramp.addColorStop(i / (colours.length - 1), colour));
      fill = ramp;
    }
    if (fill !== "none") {
      ctx.fillStyle = fill;
      ctx.fill();
    }
    if (!stroke) return;
    ctx.strokeStyle = stroke;
    ctx.lineWidth = line;
    ctx.stroke();
  },
  text(ctx, { text, x, y, font, fill, style }) {
    ctx.font = font;
    ctx.letterSpacing = style.letterSpacing === "normal" ? "0px" : style.letterSpacing;
    ctx.fillStyle = fill;
    ctx.fillText(text, x, y);
  },
  path(ctx, { d, x, y, scale, fill, stroke }) {
    ctx.translate(x, y);
    ctx.scale(scale, scale);
    const path = new Path2D(d);
    if (stroke) {
      ctx.strokeStyle = stroke;
      return ctx.stroke(path);
    }
    ctx.fillStyle = fill;
    return ctx.fill(path);
  },
  canvas(ctx, { canvas, x, y, width, height }) {
    ctx.drawImage(canvas, x, y, width, height);
  },
};

/** A picture as the text of an SVG file; what is drawn on canvases is in it as PNG, all else as shapes and text.
 * `own` begins its ids, where several stand in one page. */
export function drawingOf({ width, height, marks }, fonts, own = "") {
  const make = (tag, attributes, ...children) => {
    const out = document.createElementNS(DRAWING, tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) out.setAttribute(name,
      typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
    out.append(...children);
    return out;
  };
  const defs = make("defs", {});
  const named = new Map();
  const clipOf = ({ x, y, width: w, height: h }) => {
    if (x <= 0 && y <= 0 && w >= width && h >= height) return undefined;
    const key = [x, y, w, h].join();
    if (!named.has(key)) {
      named.set(key, `${own}clip${named.size}`);
      defs.append(make("clipPath", { id: named.get(key) }, make("rect", { x, y, width: w, height: h })));
    }
    return `url(#${named.get(key)})`;
  };
  const ramp = (colours) => {
    const id = `${own}ramp${defs.childElementCount}`;
    defs.append(make("linearGradient", { id },
      ...colours.map((colour, i) => make("stop", { offset: i / (colours.length - 1), "stop-color": colour }))));
    return `url(#${id})`;
  };
  const write = {
    box: ({ x, y, width: w, height: h, radius, fill, stroke, line, colours }) =>
      make("rect", { x, y, width: w, height: h, rx: radius || undefined, fill: colours ? ramp(colours)
      : fill, stroke, "stroke-width": line }),
    text: ({ text, x, y, width: w, fill, font, style }) => make("text", {
      x, y, fill, textLength: w && text.length > 1 ? w
        : undefined, style: `font:${font};font-variant-numeric:${style.fontVariantNumeric};white-space:pre`,
    }, text),
    path: ({ d, x, y, scale, fill, stroke }) =>
      make("path", { d, fill, stroke, transform: `translate(${x} ${y}) scale(${scale})` }),
    canvas: ({ canvas, x, y, width: w, height: h }) =>
      make("image", { href: canvas.toDataURL("image/png"), x, y, width: w, height: h, preserveAspectRatio: "none" }),
  };
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, make("style", {}, fonts), defs);
  for (const mark of marks) {
    const made = write[mark.kind](mark);
    const clip = clipOf(mark.clip);
    if (clip) made.setAttribute("clip-path", clip);
    if (mark.opacity < 1) made.setAttribute("opacity", String(mark.opacity));
    // A clip counts in the mark's own coordinates, which a transform would move.
    svg.append(mark.kind === "path" && clip ? wrapped(make, made) : made);
  }
  return new XMLSerializer().serializeToString(svg);
}

function wrapped(make, path) {
  const group = make("g", { "clip-path": path.getAttribute("clip-path") }, path);
  path.removeAttribute("clip-path");
  return group;
}
