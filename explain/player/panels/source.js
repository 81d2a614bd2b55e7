// The kernel's source: the current line, and what it did beside it.

import { element } from "../words.js";
import { Panel } from "./panel.js";

const CHIPS = 3;                                           // changed values shown beside a line

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

export class SourcePanel extends Panel {
  constructor(lane) {
    super(lane, "source");
    this.code = this.root.querySelector(".code");
    this.listings = lane.annotations.sources.map((source, at) => this.listing(source, at));
    this.chip = element("span", "chip");
    this.code.replaceChildren(...this.listings);
    this.lit = [];
  }

  listing({ lines, first_line }, source) {
    const listing = element("div", "listing");
    lines.forEach((tokens, i) => {
      const row = element("div", "line");
      const text = element("span", "text");
      const plain = tokens.map((token) => (typeof token === "string" ? token : token[1])).join("");
      text.style.setProperty("--indent", `${plain.length - plain.trimStart().length}ch`);
      for (const token of tokens) text.append(this.tokenElement(token, source));
      row.append(element("span", "no", String(first_line + i)), text);
      listing.append(row);
    });
    listing.hidden = true;
    return listing;
  }

  tokenElement(token, source) {
    if (typeof token === "string") return document.createTextNode(token);
    const [kind, text] = token;
    if (kind === "c") return this.commentElement(text);
    const span = element("span", kind, text);
    if (kind === "v") {
      span.dataset.name = text;
      span.dataset.source = source;
      const quantity = this.lane.quantityOf.get(text);
      if (quantity) span.dataset.q = quantity;
    }
    return span;
  }

  /** A comment; what stands far right in it (a tile's shape) stays at the right of the panel. */
  commentElement(text) {
    const span = element("span", "c");
    const [left, right] = text.split(/\s{3,}(?=\S+(?: \S+)*$)/);
    if (right) span.append(element("span", "shape", right));
    span.append(left);
    return span;
  }

  render(k) {
    const { trace, sources } = this.story;
    const source = trace.source[k], line = trace.line[k];
    const { file, function: name, first_line, spans } = sources[source];
    this.head(name, "", trace.depth[k] ? `helper, called at depth ${trace.depth[k]} · ${file}` : file);
    this.listings.forEach((listing, i) => (listing.hidden = i !== source));
    for (const row of this.lit) row.classList.remove("now");
    this.lit.forEach((row) => row.removeAttribute("aria-current"));
    const rows = this.listings[source].children;
    const last = spans?.[line] ?? line;
    this.lit = Array.from({ length: last - line + 1 }, (_, i) => rows[line - first_line + i]).filter(Boolean);
    this.lit.forEach((row) => row.classList.add("now"));
    const [here] = this.lit;
    if (!here) return;
    here.setAttribute("aria-current", "step");
    this.placeChip(k, this.lit.at(-1));
    if (this.lane.moved) this.scrollTo(here, this.lit.at(-1));
  }

  placeChip(k, row) {
    const changes = this.story.changes(k);
    this.chip.hidden = !changes.length;
    if (!changes.length) return;
    const called = k === this.story.frameStart[k];
    const shown = called ? [] : changes.slice(0, CHIPS);
    this.chip.replaceChildren(...shown.map(({ label, value }) => {
      const span = element("span");
      const name = element("b", "", label);
      const quantity = this.lane.quantityOf.get(label);
      if (quantity) name.dataset.q = quantity;
      span.append(name, ` ${this.lane.glance(label, value)}`);
      return span;
    }));
    const rest = changes.length - shown.length;
    if (rest) this.chip.append(element("span", "", called ? plural(rest, "argument") : `and ${rest} more`));
    row.append(this.chip);
    const text = row.querySelector(".text");
    const ends = text.lastChild ? lastLineEnd(text) : { right: 0 };
    this.chip.classList.toggle("below", ends.right + 8 > this.chip.getBoundingClientRect().left);
  }

  scrollTo(first, last) {
    const { code } = this;
    const top = first.offsetTop, bottom = last.offsetTop + last.offsetHeight;
    const margin = code.clientHeight * 0.28;
    if (top < code.scrollTop + margin * 0.6 || bottom > code.scrollTop + code.clientHeight - margin) code.scrollTop = top - margin;
  }
}

/** The right end of an element's last line of text, in the window. */
function lastLineEnd(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  const boxes = range.getClientRects();
  const last = boxes[boxes.length - 1];
  let right = last?.right ?? 0;
  for (const box of boxes) if (last && Math.abs(box.bottom - last.bottom) < 4) right = Math.max(right, box.right);
  return { right };
}
