// Merging: each tile's (m, ℓ), and the joins of pairs as a tree that grows upwards, each child with its rescale factor.

import { format, number } from "../numbers.js";
import { Panel } from "./panel.js";

const SVG = "http://www.w3.org/2000/svg";
const NAMED = 12;                                          // the most leaves that show numbers; more are dots
const BOX = { width: 80, height: 42, gap: 88, level: 84, radius: 6, size: 16 };
const FEW = 5;                                             // leaves beside the chip at full screen
const LETTER = 16;                                         // the size of all letters, as player.css has it
const DOT = { width: 12, height: 12, gap: 26, level: 40, radius: 6, size: 0 };

function drawn(tag, attributes, text) {
  const out = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  if (text !== undefined) out.textContent = text;
  return out;
}

export class PairsPanel extends Panel {
  constructor(lane) {
    super(lane, "pairs");
    this.tree = new PairsTree(this.story, this.root.querySelector(".tree"));
  }

  get shown() {
    return this.story.joins;
  }

  write(k) {
    const where = this.view.score_shape?.[0] > 1 ? `, row ${this.tree.rowAt(k)}` : "";
    this.head("(m, ℓ) of the tiles, merged", "", `${this.tree.show(k)}${where}`);
  }
}

/** The tree of a run's merges in an element. */
export class PairsTree {
  constructor(story, picture) {
    Object.assign(this, { story, picture });
  }

  rowAt(k) {
    const { programs, programAt } = this.story;
    return programs[programAt[k]].id[0];
  }

  /** Marks what is merged after step k; returns it in words. */
  show(k) {
    const { story } = this;
    const row = this.rowAt(k);
    const nodes = story.pairs(row);
    const leaves = nodes.filter(({ children }) => !children.length).length;
    const made = nodes.filter(({ step }) => step <= k);
    const joined = made.filter(({ children }) => children.length).length;
    const said = `${leaves} tiles, ${joined} of ${leaves - 1} merges done`;
    if (this.drawnRow !== row) this.draw(nodes, leaves, row);
    nodes.forEach(({ begin, step }, i) => {
      const { classList } = this.groups[i];
      classList.toggle("made", step <= k);
      classList.toggle("now", begin <= k && k <= step);
    });
    const last = made.at(-1);
    const latest = last ? `; the latest pair: m ${number(last.m)}, ℓ ${number(last.l)}` : "";
    this.svg.setAttribute("aria-label", `${said}${latest}`);
    return said;
  }

  draw(nodes, leaves, row) {
    this.drawnRow = row;
    const look = leaves <= NAMED ? BOX : DOT;
    const sizes = nodes.flatMap((node) => [node.m, node.l].map(Math.abs)).filter(Number.isFinite);
    const figure = format(Math.max(...sizes), 4);
    const top = Math.max(...nodes.map(({ level }) => level));
    const x = ({ at }) => (at + 0.5) * look.gap;
    const y = ({ level }) => (top - level) * look.level + look.height / 2 + 2;
    const width = leaves * look.gap, height = top * look.level + look.height + 4 + (look.size ? 22 : 0);
    this.svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "xMidYMin meet" });
    this.picture.classList.toggle("few", leaves <= FEW);
    this.svg.style.maxWidth = `${width * 1.4}px`;
    this.picture.style.setProperty("--wide", `${width / LETTER}em`); // where its letters are as large as the text
    this.groups = nodes.map((node) => {
      const group = drawn("g", { class: "pair" });
      node.children.forEach((child, i) => {
        const from = nodes[child];
        group.append(drawn("line", { x1: x(from), y1: y(from) - look.height / 2, x2: x(node),
          y2: y(node) + look.height / 2 }));
        if (!look.size || node.factors[i] === undefined) return;
        const across = x(from) - x(node), down = y(from) - y(node) - look.height;
        const outward = Math.sign(across) * 4 + (across / down) * (LETTER / 2); // beside the line, however flat
        const middle = { x: (x(from) + x(node)) / 2 + outward, y: (y(from) + y(node)) / 2 + 5 };
        const anchor = outward < 0 ? "end" : "start";
        group.append(drawn("text", { ...middle, class: "factor", "text-anchor": anchor },
          `× ${figure(node.factors[i])}`));
      });
      const [cx, cy, { width, height, radius: rx }] = [x(node), y(node), look];
      const text = (y, className, words) => group.append(drawn("text", { x: cx, y, class: className }, words));
      const [m, l] = [`m ${figure(node.m)}`, `ℓ ${figure(node.l)}`];
      group.append(drawn("rect", { x: cx - width / 2, y: cy - height / 2, width, height, rx }));
      if (look.size) {
        text(cy - 4, "m", m);
        text(cy + 15, "l", l);
        if (!node.children.length) text(cy + height / 2 + 18, "name", `tile ${node.at}`);
      }
      group.append(drawn("title", {}, `${m}, ${l}`));
      return group;
    });
    this.svg.append(...this.groups);
    this.picture.replaceChildren(this.svg);
  }
}
