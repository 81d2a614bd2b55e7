// The map of the scores: the computed tiles, the current one, those the mask skips.

import { exact, number, ordinal, range } from "../numbers.js";
import { MapState, mapHeight, mapLayout, paintMap } from "../pictures/map.js";
import { scoresWord } from "../story.js";
import { element } from "../words.js";
import { Panel } from "./panel.js";

/** The tooltip of a map's cell. */
export function toldOfCell({ view, story, palette }, state, group, { row, col }, title, dtype) {
  const word = (labels, i) => (labels?.[i] === undefined ? String(i) : `${i} “${labels[i]}”`);
  const cell = row * state.map.width + col;
  const skipped = state.skipped(group)?.holds(row, col);
  const said = state.done[cell] ? `${title} = ${exact(state.values[cell], dtype)}` : skipped
    ? "skipped: the mask hides the whole tile" : "not computed yet";
  return `row ${word(view.row_labels, row)}, column ${word(view.col_labels, col)}\n${said}`;
}

export class MapPanel extends Panel {
  constructor(lane) {
    super(lane, "map");
    if (this.shown) this.scores = new MapState(this.story.scoreMap, "scores", true);
  }

  get shown() {
    return Boolean(this.story.scoreMap);
  }

  measure() {
    const changed = super.measure();
    if (this.lane.flat || !this.palette) return changed;
    // No higher than the map can be at this width: its legend is near, and the tile has the rest of the column.
    const most = mapHeight(this.surface, this.palette, this.story.scoreMap, this.view.row_labels, this.view.col_labels);
    this.canvas.style.maxHeight = `${most}px`;
    this.root.style.maxHeight = `calc(${most}px + 5em)`;
    return super.measure() || changed;
  }

  render(k) {
    const { story, palette, view, lane } = this;
    const { tile } = lane;
    const map = story.scoreMap;
    this.group = story.mapGroup(map, k);
    this.scores.advance(this.group, k, palette);
    const [down, across] = (view.axes ?? ["", ""]).map((word) => word && ` ${word}`);
    const whole = `${map.height}${down} × ${map.width}${across}`;
    const shape = tile ? `${whole}, tile ${tile.rows.length} × ${tile.cols.length}` : whole;
    const { nans } = this.scores;
    const { scores } = view.roles, missing = nans ? `${nans} NaN` : "";
    this.head(`${scoresWord(view)} ${scores}`, "scores", shape, missing, scores);
    this.at = paintMap(this.surface, palette, this.scores, {
      group: this.group, tile, selected: lane.at.row, rowLabels: view.row_labels, colLabels: view.col_labels,
      stamp: lane.stamp, differs: lane.marks?.cells.size ? lane.marks.cells : null,
    });
    const [rows, cols] = [tile?.rows, tile?.cols].map((list) => list && range(list[0], list[list.length - 1]));
    this.canvas.setAttribute("aria-label", tile ? `Scores, current tile: rows ${rows}, columns ${cols}` : "Scores");
  }

  write() {
    this.renderLegend(this.story.scoreMap, this.palette);
  }

  renderLegend(map, palette) {
    if (this.legendOf === this.lane.stamp) return;
    this.legendOf = this.lane.stamp;
    const key = (className, label, fill) => {
      const item = element("li", className);
      const swatch = element("i");
      if (fill) swatch.style.background = fill;
      item.append(swatch, label);
      return item;
    };
    const stops = [0, 85, 170, 255, 340, 425, 510].map((i) => palette.css(palette.scores[i]));
    const scale = element("li", "scale");
    const bar = element("i");
    bar.style.background = `linear-gradient(90deg, ${stops})`;
    scale.append(number(-map.largest), bar, number(map.largest));
    const onMap = ({ rows, cols }, i) => rows[Math.floor(i / cols.length)] < map.height
      && cols[i % cols.length] < map.width;
    const masked = map.groups.some((group) =>
      group.some((write) => write.data.some((x, i) => x === -Infinity && onMap(write, i))));
    const skips = map.groups.some((group) => this.scores.skipped(group));
    const { row_labels: rowWords, col_labels: colWords } = this.view;
    const { rowEvery, colEvery } = mapLayout(this.surface, palette, map, rowWords, colWords);
    const [down, across] = [rowWords ? rowEvery : 1, colWords ? colEvery : 1];
    const labelled = down === across ? `Every ${ordinal(down)} token labelled`
      : `Every ${ordinal(down)} row, every ${ordinal(across)} column labelled`;
    const items = [
      masked && key("masked", "−∞ (masked)", palette.css(palette.masked)),
      skips && key("skipped", "skipped by the mask"),
      Math.max(down, across) > 1 && element("li", "labelled", labelled.replace(/very 1st/g, "very")),
    ];
    this.root.querySelector(".legend").replaceChildren(scale, ...items.filter(Boolean));
  }

  clicked(at) {
    const { story, group, lane } = this;
    const { tile } = lane;
    const row = tile ? Array.from(tile.rows).indexOf(at.row) : -1;
    const col = tile ? Array.from(tile.cols).indexOf(at.col) : -1;
    if (row >= 0 && col >= 0) return lane.select({ row, col });
    const visit = story.visits.find(({ begin, program }) => {
      const there = group.some((write) => write.program === program) && story.tile(begin);
      return there && Array.from(there.rows).includes(at.row) && Array.from(there.cols).includes(at.col);
    });
    return visit && lane.select({ step: visit.begin });
  }

  told(at) {
    return toldOfCell(this, this.scores, this.group, at, this.view.roles.scores, this.group[0].dtype);
  }
}
