// The grid of a launch as a map of its programs: a click goes to a program's same line, or puts its values beside.

import { openDialog } from "./dialog.js";
import { counted, grouped } from "./numbers.js";
import { element } from "./words.js";

const MOST_CELLS = 4096;                                   // of a launch; beyond, the list beside the button has them
const MOST_NAMED = 20;                                     // columns with room for a program's place

/** A program's place in its grid, without the axes that have one program: "2, 0". */
export const programPlace = ({ grid }, id) => id.filter((_, axis) => grid[axis] > 1).join(", ") || "0";

/** Opens the map of the programs of the player's first run. */
export function openGrid(player) {
  player.pause();
  const [story] = player.stories, [lane] = player.lanes;
  const { launches, sources, report } = story.trace.header;
  const here = story.programs[story.programAt[lane.step]];
  const wrong = new Set((report?.findings ?? []).filter(({ error }) => error).map(({ step }) => story.programAt[step]));
  if (report?.failure) wrong.add(story.programAt[report.failure.step]);
  const beside = lane.panels.has("variables") && player.lanes.length === 1 ? besideBox(lane) : null;
  const content = beside ? [beside.root] : [];
  launches.forEach((launch, at) => {
    const named = launches.length > 1 ? `launch ${at + 1}, ${sources[launch.source].function}: ` : "";
    const recorded = new Map(story.programs.flatMap((one, p) => (one.launch === at ? [[one.id.join(), p]] : [])));
    const count = launch.programs > recorded.size ? `, ${grouped(recorded.size)} recorded` : "";
    const title = `${named}grid ${launch.grid.join(" × ")}, ${counted(launch.programs, "program")}${count}`;
    content.push(element("p", "sum", title));
    if (launch.programs > MOST_CELLS) return;
    for (let z = 0; z < launch.grid[2]; z++) content.push(map(launch, recorded, z));
  });
  const unrecorded = launches.some((launch) => launch.programs > launch.recorded.length);
  const close = openDialog(player.section, "Programs", [...content, gridLegend(wrong.size, unrecorded)], "wide");

  function map(launch, recorded, z) {
    const [across, down] = launch.grid;
    const table = element("div", "grid");
    table.style.setProperty("--across", across);
    for (let y = 0; y < down; y++) for (let x = 0; x < across; x++) table.append(cell(launch, recorded, [x, y, z]));
    return table;
  }

  function cell(launch, recorded, id) {
    const place = programPlace(launch, id), p = recorded.get(id.join());
    const button = element("button", "", launch.grid[0] <= MOST_NAMED ? place : "");
    button.type = "button";
    button.disabled = p === undefined;
    const bad = wrong.has(p);
    const said = [`program ${place}`, p === undefined && "not recorded", bad && "an error was found here",
      story.programs[p] === here && "shown now"].filter(Boolean).join(", ");
    button.title = said;
    button.setAttribute("aria-label", said);
    button.classList.toggle("wrong", bad);
    if (story.programs[p] === here) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => {
      close(player.section);
      const own = story.programs[p];
      if (beside?.box.checked) lane.otherProgram = own === here ? null : own;
      else player.go(player.positionOf[0].get(sameLine(story, lane.step, own)) ?? player.step);
      player.renderAgain();
    });
    return button;
  }
}

/** The step of another program at the same run of step k's line; its first step, if it never runs that line. */
export function sameLine(story, k, { launch, id, first }) {
  const spot = story.spot(k);
  return spot.launch === launch ? story.stepAt({ ...spot, id, corner: null, nth: nthIn(story, k) }) : first;
}

/** How often step k's line has run in its program up to k. */
function nthIn(story, k) {
  const { line, source } = story.trace;
  return story.runs(line[k], source[k], story.programs[story.programAt[k]].first, k);
}

/** The choice between going to a program and showing its values beside those of the one shown. */
function besideBox(lane) {
  const root = element("label", "all");
  const box = element("input");
  Object.assign(box, { type: "checkbox", checked: Boolean(lane.otherProgram) });
  root.append(box, "Compare: click a program to see its values beside these, at the same line. Click the one shown now "
    + "to remove them.");
  return { root, box };
}

function gridLegend(anyWrong, anyUnrecorded) {
  const list = element("ul", "legend");
  const marks = [["now", "shown now"], ["recorded", "recorded: click"],
    anyWrong && ["wrong", "! an error, where it was found first"], anyUnrecorded && ["off", "not recorded"]];
  for (const [name, words] of marks.filter(Boolean)) {
    const item = element("li", "");
    item.append(element("i", name), words);
    list.append(item);
  }
  return list;
}
