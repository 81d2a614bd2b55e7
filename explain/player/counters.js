// The counters under the panels, and the list of loads or stores behind each.

import { bufferSymbol } from "./beat_words.js";
import { buttonOf, openDialog } from "./dialog.js";
import { bytes, counted, grouped } from "./numbers.js";
import { element } from "./words.js";

const FLOP_KINDS = ["matmul", "exp", "other"];
export const LOAD = 0, STORE = 1;                               // kinds of access, in the trace
const ENTRIES_BEYOND = 6;                                  // drawn above and below the visible ones

export class Counters {
  constructor(player) {
    this.player = player;
  }

  load() {
    this.counted = this.player.stories.map((story) => {
      const box = element("div", "count-of");
      const tables = [element("table"), element("table")];
      const scope = element("p", "scope");
      box.append(...tables, scope);
      return { story, box, tables, scope, launch: -1, cells: null };
    });
    this.player.$(".counters").replaceChildren(...this.counted.map(({ box }) => box));
  }

  /** The tables of a launch: bytes read and written by buffer, and FLOPs; each cell: its programs so far / all
   * its programs, and a cell that a run of several launches has in each: / all launches. */
  tabulate(entry, k) {
    const { story, tables } = entry;
    const { launch } = story.programs[story.programAt[k]];
    if (entry.launch === launch) return;
    entry.launch = launch;
    const { buffers, totals, programs } = story.launchAt(k);
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const { launches } = story.trace.header, several = launches.length > 1;
    const run = (of) => (several ? sum(launches.map(of)) : null);
    const words = [
      ...(programs === 1 && !several ? [] : [`all ${counted(programs, "program")}${several
        ? ` of launch ${launch + 1} of ${launches.length}` : ""}`]),
      ...(several ? ["all launches"] : []),
    ].map((text) => element("span", "", ` / ${text}`));
    entry.beside = element("span");
    const recorded = story.programs.filter((program) => program.launch === launch).length;
    const who = recorded < programs ? `${counted(recorded, "recorded program")} ` : "";
    entry.scope.replaceChildren(`${who}so far`, ...words, " · source: trace", entry.beside);
    const fill = (table, title, heads, rows, explain) => {
      table.replaceChildren();
      const head = table.insertRow();
      head.append(...[title, ...heads].map((text) => Object.assign(element("th", "", text), { scope: "col" })));
      return rows.map(([name, numbers]) => {
        const row = table.insertRow();
        row.append(Object.assign(element("th", "", name), { scope: "row" }));
        return numbers.map(([total, ofRun = null], column) => {
          const now = element("b");
          now.dataset.most = grouped(total);               // it is as wide as that: nothing moves while it counts
          const of = [...(programs === 1 && !several ? [] : [total]), ...(ofRun === null ? [] : [ofRun])];
          const parts = [now, ...(of.length ? [element("span", "of", ` / ${of.map(grouped).join(" / ")}`)] : [])];
          row.insertCell().append(...(explain ? [explain(name, column, parts)] : parts));
          return now;
        });
      });
    };
    const names = buffers.map(({ name }) => name.replace(/_ptr$/, ""));
    const opener = (way, column, parts) => {
      const label = `List the ${way === "read" ? "loads" : "stores"} of ${names[column] ?? "all buffers"}`;
      const button = buttonOf("counter", undefined, label, () => this.list(entry, way, column));
      button.append(...parts);
      return button;
    };
    const bytesOf = (key) => [...totals[key].map((total) => [total]),
      [sum(totals[key]), run((one) => sum(one.totals[key]))]];
    const heads = names.map((name) => this.headOf(story, name));
    const [read, written] = fill(tables[0], "requested bytes", [...heads, "all"],
      [["read", bytesOf("read_bytes")], ["written", bytesOf("written_bytes")]], opener);
    const [flops] = fill(tables[1], "FLOPs", FLOP_KINDS, [["done", FLOP_KINDS.map((kind) =>
      [totals.flops[kind], run((one) => one.totals.flops[kind])])]]);
    entry.names = names;
    entry.cells = { read, written, flops };
  }

  /** A buffer's name in the code, and the symbol that Idea has for it where that is another word: “lse = L”. */
  headOf({ view }, name) {
    const symbol = bufferSymbol(name, view);
    return symbol.toLowerCase() === name.toLowerCase() ? name : `${name} = ${symbol}`;
  }

  render(t) {
    this.counted.forEach((entry, i) => {
      const k = this.player.woven[i][t];
      const { story } = entry;
      this.tabulate(entry, k);
      const accesses = story.accesses(k);
      const at = k * story.bufferCount;
      const show = (cells, counts, still) => {
        let total = 0;
        cells.slice(0, -1).forEach((cell, b) => {
          total += counts[at + b];
          putText(cell, grouped(counts[at + b]));
          const { classList } = cell.closest("td");
          classList.toggle("lit", accesses.some(({ kind, buffer }) => buffer === b && kind !== still));
          const way = still === STORE ? "loads" : "stores";
          classList.toggle("followed", this.player.watch.name === `${way} of ${entry.names[b]}`);
        });
        putText(cells.at(-1), grouped(total));
      };
      show(entry.cells.read, story.read, STORE);
      show(entry.cells.written, story.written, LOAD);
      FLOP_KINDS.forEach((kind, f) => putText(entry.cells.flops[f], grouped(story.flops[kind][k])));
    });
    if (this.counted.length === 2) this.compare(t);
  }

  /** Marks the numbers that differ between two programs of the same work: by buffer where both have it, and the
   * totals. */
  compare(t) {
    const [left, right] = this.counted;
    const [work, other] = this.counted.map(({ story }, i) => workOf(story, this.player.woven[i][t]));
    const comparable = work === other;
    for (const { beside } of this.counted) {
      putText(beside, comparable ? " · ≠: left and right differ" : " · not compared: different work");
    }
    const mark = (a, b) => {
      const differs = comparable && a.textContent !== b.textContent;
      for (const cell of [a, b]) cell.closest("td").classList.toggle("differs", differs);
    };
    for (const way of ["read", "written"]) {
      left.names.forEach((name, column) => {
        const twin = right.names.indexOf(name);
        if (twin >= 0) mark(left.cells[way][column], right.cells[way][twin]);
      });
      mark(left.cells[way].at(-1), right.cells[way].at(-1));
    }
    FLOP_KINDS.forEach((_, f) => mark(left.cells.flops[f], right.cells.flops[f]));
  }

  // --- the accesses behind a number ---

  /** The accesses of a launch's buffer (a column beyond the last: of all buffers); `past`: up to k. */
  accessesOf({ story, launch }, way, column, k) {
    const still = way === "read" ? STORE : LOAD;
    const out = [];
    story.programs.forEach((program, p) => {
      if (program.launch !== launch) return;
      for (let at = program.first; at < program.end; at++) {
        for (const access of story.accesses(at)) {
          const every = column >= story.launchAt(at).buffers.length;
          if (access.kind === still || !(every || access.buffer === column)) continue;
          out.push({ ...access, step: at, program: p, past: at <= k });
        }
      }
    });
    return out;
  }

  list(entry, way, column) {
    const { player } = this;
    player.pause();
    const i = this.counted.indexOf(entry);
    const k = player.woven[i][player.step];
    const every = this.accessesOf(entry, way, column, k);
    const past = every.filter((access) => access.past);
    const word = way === "read" ? "load" : "store";
    const title = `${word === "load" ? "Loads" : "Stores"} of ${entry.names[column] ?? "all buffers"}`;
    const sum = element("p", "sum");
    const entries = new Entries((access) => this.columnsOf(entry, access), (access) => {
      close(player.section);
      player.go(player.positionOf[i].get(access.step));
    });
    const show = (accesses, scope) => {
      const total = accesses.reduce((n, access) => n + access.bytes, 0);
      sum.textContent = `${counted(accesses.length, word)}, ${bytes(total)}: ${scope}`;
      Object.assign(sum.dataset, { count: accesses.length, bytes: total, all: all.checked });
      entries.show(accesses, accesses.findLastIndex((access) => access.past));
    };
    const all = element("input");
    all.type = "checkbox";
    const label = element("label", "all");
    label.append(all, "all steps");
    const refresh = () => (all.checked ? show(every, "all steps") : show(past, "so far"));
    all.addEventListener("change", refresh);
    const heads = element("div", "entry heads");
    heads.append(...["step", "program", "line", "tile", "buffer", "bytes"].map((text) => element("span", "", text)));
    const close = openDialog(player.section, title, [sum, label, heads, entries.root], "access-list");
    refresh();
  }

  columnsOf({ story, launch, names }, { step, program, buffer, bytes: n }) {
    const visit = story.visit(step);
    const i = this.player.stories.indexOf(story);
    const { id } = story.programs[program];
    const axes = id.filter((_, axis) => this.player.stories[i].trace.header.launches[launch].grid[axis] > 1);
    const place = axes.length ? axes.join(", ") : "0";
    const tile = visit ? String(visit.ordinal + 1) : "–";
    const at = grouped(this.player.positionOf[i].get(step));
    return [at, place, String(story.trace.line[step]), tile, names[buffer] ?? "", grouped(n)];
  }
}

/** A long list; only its visible entries are on the page. */
class Entries {
  constructor(columnsOf, choose) {
    this.columnsOf = columnsOf;
    this.choose = choose;
    this.height = matchMedia("(pointer: coarse)").matches ? 40 : 28;
    this.root = element("div", "entries");
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "Accesses in order");
    this.sheet = element("div", "sheet");
    this.root.append(this.sheet);
    this.root.addEventListener("scroll", () => this.draw());
  }

  show(items, current) {
    this.items = items;
    this.sheet.style.height = `${items.length * this.height}px`;
    this.first = -1;
    this.root.scrollTop = Math.max(0, (current + 1) * this.height - this.root.clientHeight);
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.root.scrollTop / this.height) - ENTRIES_BEYOND);
    if (first === this.first) return;
    this.first = first;
    const held = this.sheet.contains(this.root.getRootNode().activeElement);
    const last = first + Math.ceil(this.root.clientHeight / this.height) + 2 * ENTRIES_BEYOND;
    this.sheet.replaceChildren(...this.items.slice(first, last).map((item, i) => {
      const columns = this.columnsOf(item);
      const [step, program, line, tile, buffer, size] = columns;
      const label = `Go to step ${step}: program ${program}, line ${line}, tile ${tile}, ${buffer}, ${size} bytes`;
      const button = buttonOf("entry", undefined, label, () => this.choose(item));
      button.append(...columns.map((text) => element("span", "", text)));
      button.style.top = `${(first + i) * this.height}px`;
      button.style.height = `${this.height}px`;
      return button;
    }));
    if (held) this.root.focus({ preventScroll: true });
  }
}

/** The share of its run that step k's program has: two programs of equal shares cover the same scores. */
function workOf({ trace, view, programs, programAt }, k) {
  const { launches } = trace.header, { launch, id } = programs[programAt[k]], { grid } = launches[launch];
  const axes = [...grid.keys()].filter((axis) => grid[axis] > 1);
  return JSON.stringify([view.score_shape, launches.length, launch, axes.map((axis) => [id[axis], grid[axis]])]);
}

/** Writes a text only if it changes. */
function putText(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}
