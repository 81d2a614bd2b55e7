// Keys, clickers and touch: one list says what each press does; the same list is what `?` shows.

import { openDialog } from "./dialog.js";
import { element } from "./words.js";

const SWIPE_PX = 48;
const SWIPE_MS = 700;

/** [key, with Shift, what the player does, how it is written, in words]. C and R are Streamlit's own. */
const KEYS = [
  ["ArrowRight", false, "next", "→", "Next line, tile or element: the clock decides"],
  ["ArrowLeft", false, "previous", "←", "The previous one"],
  ["ArrowRight", true, "nextCoarse", "Shift →", "Next by the coarser clock: tile, or pass over the tiles"],
  ["ArrowLeft", true, "previousCoarse", "Shift ←", "The previous one by the coarser clock"],
  ["PageDown", null, "nextTile", "Page ↓", "Next tile; a clicker's forward"],
  ["PageUp", null, "previousTile", "Page ↑", "Previous tile; a clicker's back"],
  ["ArrowDown", null, "down", "↓", "Next row of the tile"],
  ["ArrowUp", null, "up", "↑", "Previous row of the tile"],
  ["Home", null, "first", "Home", "First step"],
  ["End", null, "last", "End", "Last step"],
  [" ", null, "play", "Space", "Play or pause"],
  ["n", false, "nextMove", "N", "Next step at which the watched variable moves"],
  ["n", true, "previousMove", "Shift N", "The previous one"],
  ["g", null, "goTo", "G", "Go to a step by its number"],
  ["a", null, "ask", "A", "Ask before the watched variable is set, or stop asking"],
  ["d", null, "difference", "D", "Two runs: where they first part"],
  ["p", null, "present", "P or F", "One panel at full screen, and back"],
  ["f", null, "present"],
  ["b", null, "blank", "B or .", "At full screen: black, and back"],
  [".", null, "blank"],
  ["?", null, "help", "?", "These keys"],
  ["Escape", null, "escape", "Esc", "Close, leave full screen"],
];
const KEYS_AT_FULL_SCREEN = ["1 … 9, 0", "At full screen: that panel alone, all panels"];
const NO_KEYS = [
  ["Alt click", "A name in the source: watch it, and go to its next move"],
  ["swipe", "On touch: next to the left, previous to the right"],
];

/** Listens for the player; everything else on the page keeps its keys. */
export function listenToKeys(player) {
  player.on(player.section, "keydown", (event) => keyPressed(player, event));
  player.on(document, "keydown", (event) => keyElsewhere(player, event));
  listenToSwipes(player);
}

function keyPressed(player, event) {
  if (!player.ready || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const { tagName, type } = event.target;
  const { key } = event;
  if (((tagName === "INPUT" && type !== "range") || tagName === "SELECT") && key !== "Escape") return;
  if ((tagName === "BUTTON" || tagName === "SUMMARY") && (key === " " || key === "Enter")) return;
  if (player.presenter.blanked) {                           // whatever is pressed, the picture comes back
    event.preventDefault();
    player.presenter.blank(false);
    return;
  }
  const known = key.length === 1 ? key.toLowerCase() : key;
  const [, , action] = KEYS.find(([name, shift]) => name === known && (shift === null || shift === event.shiftKey)) ?? [];
  const digit = /^\d$/.test(key) && player.presenter.presenting;
  if (!action && !digit) return;
  if (!digit && player.act(action) === false) return;       // it meant nothing here: the page may have it
  if (digit) player.presenter.press(Number(key));
  event.preventDefault();
}

/** Keys pressed elsewhere on the page, where they mean nothing else, while the player is in sight. */
function keyElsewhere(player, event) {
  const { target } = event;
  if (event.defaultPrevented || event.composedPath().includes(player.section)) return;
  if (target.closest?.("input, textarea, select, [contenteditable], [role=radiogroup], [role=dialog], [role=menu], [role=listbox]")) return;
  if (target.closest?.("button, a, summary") && !event.key.startsWith("Arrow")) return;
  const { top, bottom } = player.section.getBoundingClientRect();
  const middle = (top + bottom) / 2;
  if (middle > 0 && middle < innerHeight) keyPressed(player, event);
}

function listenToSwipes(player) {
  const lanes = player.$(".lanes");
  let began = null;
  player.on(lanes, "touchstart", ({ touches, timeStamp }) => {
    began = touches.length === 1 ? { x: touches[0].clientX, y: touches[0].clientY, at: timeStamp } : null;
  }, { passive: true });
  player.on(lanes, "touchend", ({ changedTouches: [touch], timeStamp }) => {
    if (!began || !player.ready) return;
    const dx = touch.clientX - began.x, dy = touch.clientY - began.y;
    if (Math.abs(dx) > SWIPE_PX && Math.abs(dx) > 2 * Math.abs(dy) && timeStamp - began.at < SWIPE_MS) player.act(dx < 0 ? "next" : "previous");
    began = null;
  }, { passive: true });
}

/** The dialog that lists the keys. */
export function showKeys(player) {
  player.pause();
  const shown = KEYS.filter(([, , , written]) => written).map(([, , , written, words]) => [written, words]);
  shown.splice(-2, 0, KEYS_AT_FULL_SCREEN);
  const list = element("dl", "keys");
  for (const [written, words] of [...shown, ...NO_KEYS]) list.append(element("dt", "", written), element("dd", "", words));
  openDialog(player.section, "Keys", list, "wide");
}
