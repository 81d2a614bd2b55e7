// The hall answers: the question before a step goes to the phones of a lecture, their answers grow here, and the step
// itself reveals what is right. Only a lecturer's player has somebody to ask (explain/answers.py).

import { counted } from "./numbers.js";
import { element } from "./words.js";

const RETRY_MS = 1000;
const MOST_LINES = 32;
const MOST_SIDE = 128;                                     // of a map on a phone
const CHANGE_OPTIONS = ["larger", "the same", "smaller", "NaN"];
const HALL_WAYS = { number: "its value", choice: "larger or smaller", cell: "a cell of the map" };

/** A number as the server reads it. */
const plainNumber = (x) => (x !== x ? "nan" : Number.isFinite(x) ? String(x) : x > 0 ? "inf" : "-inf");

/** The part of a question's box where the hall is asked. */
export class Hall {
  constructor(player) {
    this.player = player;
    this.box = player.$(".ask .hall");
    this.address = null;                                   // where phones answer; null: this reader may not ask
    this.asked = null;                                     // what phones have: {id, words, right, …}
    player.on(this.box, "click", (event) => {
      const { kind } = event.target.dataset;
      if (kind) this.open(kind);
    });
  }

  /** Finds out whether this reader is a lecturer with a hall. */
  async seek() {
    if (this.player.packet.place === null) return;         // an exported page has no server to ask
    try {
      this.address = (await (await fetch(this.route("asked"))).json()).address;
    } catch {
      this.address = null;
    }
    if (this.player.watch.question) this.player.render();
  }

  route(path) {
    return new URL(path, location.href);
  }

  /** What can be asked before this setting: by kind its words, what belongs to them and what is right. */
  kinds({ set }) {
    const { player } = this;
    const { asked } = player.watch;
    const { words, old, now, before, role, cells, shape, axes } = player.watch.element(set);
    const which = role === "scores" ? `be in the next tile of ${asked}` : `${asked} be${words}`;
    const line = `Next is line ${player.stories[set.i].trace.line[player.woven[set.i][set.at]]}.`;
    const change = now !== now ? 3 : now > before ? 0 : now < before ? 2 : 1;
    return {
      number: { words: `${line} What will ${asked} be${words}?`, right: plainNumber(now) },
      ...(old !== null && { choice: { words: `${line} ${asked} is ${old}${words}. What will the new value be?`,
        options: CHANGE_OPTIONS, right: change } }),
      ...(cells.length && Math.max(...shape) <= MOST_SIDE && { cell: { shape, axes, right: cells,
        words: `${line} Which cell of the map will ${which}?` } }),
    };
  }

  async send(body) {
    const answer = await fetch(this.route("asked"), { method: "POST", body: JSON.stringify(body) });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.said);
    return told;
  }

  /** Opens the watch's question on the phones. */
  async open(kind) {
    const of = this.player.watch.question;
    const { right, words: said, ...more } = this.kinds(of)[kind], words = said.replace(/\s+/g, " ");
    try {
      const told = await this.send({ open: { kind, words, ...more } });
      this.asked = { id: told.question, of, words, right, shape: more.shape, revealed: false, untold: false };
      this.take(told);
      this.listen();
    } catch (error) {
      this.failure = `The hall cannot be asked: ${error.message}`;
    }
    this.player.render();
    this.player.$(".ask button[type=submit]").focus({ preventScroll: true }); // Enter reveals
  }

  /** Hears of answers until the question is left. */
  listen() {
    const { asked } = this;
    const socket = new WebSocket(this.route("asked/live").href.replace(/^http/, "ws"));
    this.socket = socket;
    socket.onmessage = ({ data }) => {
      if (this.asked !== asked) return;
      this.take(JSON.parse(data));
      this.draw();
    };
    socket.onclose = () => this.asked === asked && setTimeout(() => this.asked === asked && this.listen(), RETRY_MS);
  }

  /** What the server says; of another question it is nothing to this one. */
  take({ question, open, tally }) {
    if (question !== this.asked.id) return;
    this.tally = tally;
    this.failure = "";
    if (open && this.asked.untold) this.reveal();          // the server was away
  }

  async reveal() {
    const { asked } = this;
    asked.revealed = true;
    asked.untold = false;
    try {
      const told = await this.send({ reveal: asked.id, right: asked.right });
      if (this.asked !== asked) return;
      this.take(told);
    } catch (error) {
      asked.untold = true;
      this.failure = `The phones are not told yet: ${error.message}`;
    }
    this.draw();
  }

  /** Leaves the question: one that is not revealed is closed on the phones. */
  leave() {
    const { asked } = this;
    this.asked = this.tally = null;
    this.failure = "";
    this.socket?.close();
    if (asked && !asked.revealed) this.send({ close: asked.id }).catch(() => {});
  }

  /** Follows the watch: its question, and whether the step has revealed it. */
  render(question, revealed) {
    if (this.asked && this.asked.of !== question) this.leave();
    if (this.asked && revealed && !this.asked.revealed) this.reveal();
    this.box.hidden = !question || !(this.asked || this.failure || (this.address && !revealed));
    if (!this.box.hidden) this.draw();
  }

  draw() {
    const { box, asked, tally, player } = this;
    const [list, histogram, map] = [".kinds", ".histogram", ".spread"].map((part) => box.querySelector(part));
    list.hidden = Boolean(asked);
    const { question } = player.watch;
    if (!asked && question) {
      const kinds = Object.keys(this.kinds(question));
      list.replaceChildren("Ask the hall: ", ...kinds.map((kind) => {
        const button = Object.assign(element("button", "", HALL_WAYS[kind]), { type: "button" });
        button.setAttribute("aria-label", `Ask the hall: ${HALL_WAYS[kind]}`);
        button.dataset.kind = kind;
        return button;
      }));
    }
    const { count = 0, right } = tally ?? {};
    box.dataset.count = asked ? count : "";
    const told = right !== undefined;
    const said = told && count ? `${right} of ${count} right` : counted(count, "answer");
    box.querySelector(".answered").textContent = asked ? said : "";
    const where = asked && !told ? `Phones: ${this.address.replace("http://", "")}` : "";
    box.querySelector(".at").textContent = this.failure || where;
    histogram.hidden = !tally?.bars?.length;
    map.hidden = !tally?.cells;
    player.$(".ask").classList.toggle("mapped", !map.hidden); // then the map has the formula's place
    if (!histogram.hidden) showBars(histogram, tally.bars);
    if (!map.hidden) showCells(map, asked.shape, tally);
  }
}

function showBars(list, bars) {
  const most = Math.max(1, ...bars.map(({ count }) => count));
  list.replaceChildren(...bars.map(({ label, count, right, holds }) => {
    const item = element("li", holds ? "holds" : ""), bar = element("span", "bar");
    for (const [className, n] of [["", count - right], ["right", right]]) {
      const part = element("i", className);
      part.style.height = `${(100 * n) / most}%`;
      bar.append(part);
    }
    const name = element("span", "label", holds ? `✓ ${label}` : label);
    item.append(element("b", "", count ? String(count) : ""), bar, name);
    return item;
  }));
}

function showCells(map, [rows, columns], { cells, rightCells = [] }) {
  const most = Math.max(1, ...cells.map(([, , count]) => count));
  map.style.aspectRatio = `${columns} / ${rows}`;
  map.style.width = `min(100%, 24em, 46vh * ${columns / rows})`;
  const apart = Math.max(rows, columns) > MOST_LINES ? 8 : 1;
  map.style.backgroundSize = `${(100 * apart) / columns}% ${(100 * apart) / rows}%`;
  const at = ([row, column], className, opacity) => {
    const cell = element("i", className);
    Object.assign(cell.style, { left: `${(100 * column) / columns}%`, top: `${(100 * row) / rows}%`, opacity,
      width: `${100 / columns}%`, height: `${100 / rows}%` });
    return cell;
  };
  const several = rightCells.length > 1;
  map.replaceChildren(...cells.map(([row, column, count]) => at([row, column], "", 0.2 + (0.8 * count) / most)),
    ...rightCells.map((cell) => at(cell, several ? "right several" : "right", several ? 0.5 : 1)));
}

/** The cells of the map of scores from which an asked value comes: [[row, column], …]. */
export function cellsOf(story, k, role, row, now) {
  const map = story.scoreMap, tile = story.tile(k);
  if (!map || !tile) return [];
  const inside = ([r, c]) => r >= 0 && r < map.height && c >= 0 && c < map.width;
  const pairs = ({ rows, cols }) => [...rows].flatMap((r) => [...cols].map((c) => [Number(r), Number(c)]));
  if (role === "scores") return pairs(tile).filter(inside);
  if (!["running_max", "new_max"].includes(role)) return [];
  const own = Number(tile.rows[row] ?? tile.rows[0]);
  return story.mapGroup(map, k).filter(({ step }) => step <= k).flatMap(({ rows, cols, data }) => {
    const r = [...rows].findIndex((one) => Number(one) === own);
    return r < 0 ? [] : [...cols].flatMap((c, i) => (data[r * cols.length + i] === now ? [[own, Number(c)]] : []));
  }).filter(inside);
}
