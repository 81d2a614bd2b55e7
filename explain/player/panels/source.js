// The kernel's source, with the current line's values beside it.

import { counted, number } from "../numbers.js";
import { setFont } from "../surface.js";
import { isFloat } from "../trace.js";
import { element } from "../words.js";
import { Panel } from "./panel.js";

const CHIP_PAD_EM = 2;                                     // around the values beside a line
const GAP_EM = 1.1;                                        // between them

export class SourcePanel extends Panel {
  constructor(lane) {
    super(lane, "source");
    this.code = this.root.querySelector(".code");
    this.listings = lane.annotations.sources.map((source, at) => this.listing(source, at));
    this.chip = element("span", "chip");
    this.code.replaceChildren(...this.listings);
    this.code.style.setProperty("--lines", Math.max(...this.listings.map((listing) => listing.children.length)));
    this.lit = [];
    // Of each line: its top, its height, the room right of its text.
    this.places = new Map();
    this.scrolled = 0;
    this.code.addEventListener("scroll", () => (this.scrolled = this.code.scrollTop), { passive: true });
    this.pen = document.createElement("canvas").getContext("2d");
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
      this.flag(row, source, first_line + i);
      listing.append(row);
    });
    listing.hidden = true;
    return listing;
  }

  /** Marks a line with a finding of a check. */
  flag(row, source, line) {
    const { trace } = this.lane.story;
    const findings = trace.header.report?.findings ?? [];
    const here = findings.filter((one) => one.line === line && trace.source[one.step] === source);
    if (!here.length) return;
    row.classList.add("found");
    row.dataset.found = here.map(({ sort }) => sort).join(" ");
    row.title = here.map(({ words, remedy }) => `${words}.${remedy ? ` → ${remedy}` : ""}`).join("\n");
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

  /** A comment; its part after a wide gap (a tile's shape) goes to the right edge of the panel. */
  commentElement(text) {
    const span = element("span", "c");
    const [left, right] = text.split(/\s{3,}(?=\S+(?: \S+)*$)/);
    if (right) span.append(element("span", "shape", right));
    span.append(left);
    return span;
  }

  write(k) {
    const { trace, sources } = this.story;
    const source = trace.source[k], line = trace.line[k];
    const { file, function: name, first_line, spans } = sources[source];
    const [module, edit] = file.split("/").at(-1).split("~"); // kernels/edits.py: a kernel with a changed line
    const where = edit ? `${module}, a line changed` : module;
    this.head(name, "", trace.depth[k] ? `helper, call depth ${trace.depth[k]} · ${where}` : where);
    this.listings.forEach((listing, i) => (listing.hidden = i !== source));
    for (const row of this.lit) row.classList.remove("now");
    this.lit.forEach((row) => row.removeAttribute("aria-current"));
    const rows = this.listings[source].children;
    const last = spans?.[line] ?? line;
    this.lit = Array.from({ length: last - line + 1 }, (_, i) => rows[line - first_line + i]).filter(Boolean);
    this.lit.forEach((row) => row.classList.add("now"));
    this.lit[0]?.setAttribute("aria-current", "step");
  }

  settle(k) {
    const { children: rows } = this.listings[this.story.trace.source[k]];
    const isNew = this.place(rows);
    const [here] = this.lit;
    if (!here) return;
    this.placeChip(k, this.lit.at(-1));
    if (this.lane.moved || isNew) this.scrollTo(here, this.lit.at(-1));
  }

  /** Puts what the line set and read beside it, never over it, as far as there is room. */
  placeChip(k, row) {
    const items = this.chipItems(k);
    this.chip.hidden = !items.length;
    if (!items.length) return;
    const { room, width } = this.places.get(row);
    const first = items[0].width + CHIP_PAD_EM * this.chipPx;
    const below = room < first;                            // then it has a line of its own
    let left = (below ? width * 0.86 : room) - first;
    const shown = items.filter((item, i) => i === 0 || (left -= item.width) >= 0);
    this.chip.replaceChildren(...shown.flatMap(({ made }) => [made, " "]));
    this.chip.classList.toggle("below", below);
    row.append(this.chip);
  }

  /** Measures the lines of a listing once for each layout, and says whether it did: to measure at each step would force
   * a layout. */
  place(rows) {
    if (this.placedFor !== this.lane.stamp) this.places.clear();
    this.placedFor = this.lane.stamp;
    if (this.places.has(rows[0])) return false;
    rows[0].append(this.chip);
    this.chipPx = parseFloat(getComputedStyle(this.chip).fontSize);
    this.chip.remove();                                    // the lines without it
    this.high = this.code.clientHeight;
    this.scrolled = this.code.scrollTop;
    for (const row of rows) {
      const text = row.querySelector(".text");
      const { right, width } = row.getBoundingClientRect();
      this.places.set(row, { top: row.offsetTop, height: row.offsetHeight, width,
        room: right - (text.lastChild ? lastLineEnd(text).right : 0) });
    }
    return true;
  }

  /** What the chip may hold, the most important first: [{made, width}]. */
  chipItems(k) {
    const { story, lane, palette, chipPx } = this;
    const changes = story.changes(k);
    const pen = this.pen;
    const item = (parts) => {
      const made = element("span");
      let words = "";
      for (const part of parts) made.append(part), (words += typeof part === "string" ? part : part.textContent);
      setFont(pen, `${parts.length > 1 ? 650 : 400} ${chipPx}px ${palette.font}`);
      return { made, width: pen.measureText(words).width + GAP_EM * chipPx };
    };
    if (k === story.frameStart[k]) return changes.length ? [item([counted(changes.length, "argument")])] : [];
    const where = new Set();
    const valued = ({ label, value, was = "" }) =>
      [this.nameElement(label), `${was} ${this.element(label, value, where)}`];
    const written = changes.map((change) => item(valued(change)));
    const rowOfWritten = where.size > 0;
    const set = new Set(changes.map(({ label }) => label));
    const read = this.names().filter((name) => !set.has(name)).flatMap((name) => {
      const value = lane.lookup(name, k);
      return value?.data || value?.kind === "s" ? [{ label: name, value }] : [];
    });
    for (const { label } of changes) {                     // acc = tl.dot(a, b, acc)
      const value = this.readsItself(label, k) ? lane.lookup(label, k - 1, k) : null;
      if (value?.data) read.push({ label, value, was: " was" });
    }
    const rank = ({ label, value }) => (lane.quantityOf.has(label) ? 0 : value.shape?.length ? 1 : 2);
    read.sort((a, b) => rank(a) - rank(b));
    const arrow = written.length ? "← " : "reads ";
    const from = read.map((one, i) => item([...(i === 0 ? [arrow] : []), ...valued(one)]));
    const per = [...where].map((row) => item([row]));
    return rowOfWritten ? [...written, ...per, ...from] : [...written, ...from, ...per];
  }

  /** A name in the chip: a button, which the keyboard can reach. */
  nameElement(label) {
    const name = element("button", "", label);
    name.type = "button";
    name.setAttribute("aria-label", `Highlight ${label} everywhere`);
    name.dataset.name = label;
    const quantity = this.lane.quantityOf.get(label);
    if (quantity) name.dataset.q = quantity;
    return name;
  }

  /** The variables named by the current statement. */
  names() {
    const spans = this.lit.flatMap((row) => [...row.querySelectorAll(".text [data-name]")]);
    return [...new Set(spans.map((span) => span.dataset.name))];
  }

  /** Whether the statement that sets a variable also reads it. */
  readsItself(label, k) {
    const named = this.lit.flatMap((row) => [...row.querySelectorAll(`.text [data-name="${CSS.escape(label)}"]`)]);
    return named.length > 1 || /^\s*\w+\s*[-+*/%&|^@<>]+=/.test(this.story.text(k));
  }

  /** A value as text, of the selected row where it has one for each row; then the row is added to `where`. */
  element(label, value, where) {
    const { lane } = this;
    const shape = value.shape ?? [];
    const byRow = shape.length === 1 && shape[0] === lane.rowCount && lane.rowCount > 1 && isFloat(value.dtype);
    if (!byRow) return lane.glance(label, value);
    where.add(`row ${lane.tile?.rows[lane.at.row] ?? lane.at.row}`);
    return number(value.data[lane.at.row]);
  }

  scrollTo(first, last) {
    const { top } = this.places.get(first), end = this.places.get(last);
    const bottom = end.top + end.height, free = this.high - (bottom - top);
    const above = Math.max(0, Math.min(this.high * 0.28, free / 2)); // in the middle, where only the statement fits
    if (top >= this.scrolled + above * 0.6 && bottom <= this.scrolled + this.high - above) return;
    const to = (this.scrolled = Math.max(0, top - above));
    // In the frame that shows the step, not before: scrolling forces a layout.
    cancelAnimationFrame(this.scrolling);
    this.scrolling = requestAnimationFrame(() => (this.code.scrollTop = this.scrolled = to));
  }

  /** Scrolls at once, for a picture of the step. */
  land() {
    this.code.scrollTop = this.scrolled;
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
