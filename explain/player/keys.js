// Keys, clickers and touch: one list has what each key does; the key ? shows the same list.

import { openDialog } from "./dialog.js";
import { element } from "./words.js";

/** Elements of the page that use the keys themselves. */
const TYPING = [
  "input:not([type=checkbox])", "textarea", "select", "[contenteditable]",
  ...["radiogroup", "dialog", "menu", "listbox", "slider"].map((role) => `[role=${role}]`),
].join();
const SWIPE_PX = 48;
const SWIPE_MS = 700;

/** [key, with Shift, what the player does, how it is written, in words]. C and R are Streamlit's own. */
const KEYS = [
  ["t", null, "tour", "T", "Begin or leave the tour; in it → and ← turn the captions; with Predict → asks first"],
  ["ArrowRight", false, "next", "→", "Next beat, line or tile, as the switch says"],
  ["ArrowLeft", false, "previous", "←", "Previous beat, line or tile"],
  ["ArrowRight", true, "nextCoarse", "Shift →", "Next by the next larger step: tile or pass"],
  ["ArrowLeft", true, "previousCoarse", "Shift ←", "Previous by the next larger step"],
  ["PageDown", null, "nextTile", "Page ↓", "Next tile (a clicker sends this) *"],
  ["PageUp", null, "previousTile", "Page ↑", "Previous tile (a clicker sends this) *"],
  ["ArrowDown", null, "down", "↓", "Next row of the tile"],
  ["ArrowUp", null, "up", "↑", "Previous row of the tile"],
  ["Home", null, "first", "Home", "First step *"],
  ["End", null, "last", "End", "Last step *"],
  [" ", null, "play", "Space", "Play or pause *"],
  ["i", null, "depth", "I", "Idea or code: the tiles of a beat, or its lines"],
  ["n", false, "nextMove", "N",
    "Next change of the watched variable, or next step where the watched condition is true"],
  ["n", true, "previousMove", "Shift N", "Previous change of the watched variable"],
  ["g", null, "goTo", "G", "Go to a step by its number"],
  ["a", null, "ask", "A",
    "Predict: type the watched variable's next value before you see it; a lecturer asks the hall"],
  ["d", null, "difference", "D", "Two runs: go to the first difference"],
  ["p", null, "present", "P or F", "Full screen, and back"],
  ["f", null, "present"],
  ["b", null, "blank", "B or .", "Full screen: black screen, and back"],
  [".", null, "blank"],
  ["+", null, "larger", "+ −", "Larger or smaller text"],
  ["=", null, "larger"],
  ["-", null, "smaller"],
  ["?", null, "help", "?", "These keys"],
  ["Escape", null, "escape", "Esc", "Close; leave the tour; leave full screen"],
];
const KEYS_AT_FULL_SCREEN = ["1 … 9, 0", "Full screen: one panel, all panels; with Shift: add or remove one"];
const NO_KEYS = [
  ["Alt click", "On a name in the source: watch it and go to its next change"],
  ["Swipe", "Touch: left for next, right for previous"],
];

const FULL_SCREEN_KEYS = new Set(KEYS.filter(([, , action]) => action === "present").map(([key]) => key));

/** These scroll the page until the player has the focus or fills the screen. */
const SCROLL_KEYS = new Set(["PageDown", "PageUp", "Home", "End", " "]);
const SCROLL_NOTE = "* After a click into the player, or at full screen. Elsewhere these keys scroll the page.";

// The choice pressed last, for the player that it brings too.
const CHOICE = (globalThis.tilescopeChoice ??= { pressed: null });

/** Listens for the player's keys. */
export function listenToKeys(player) {
  player.on(player.section, "keydown", (event) => keyPressed(player, event));
  player.on(document, "keydown", (event) => keyElsewhere(player, event));
  player.on(player.section, "click", (event) => keysBack(player, event));
  listenAfterChoices(player);
  listenToSwipes(player);
}

/** After a click with the mouse the keys are the player's again: Space plays, it does not press the button once more. */
function keysBack({ section }, { detail, target }) {
  const button = target.closest("button");
  const focused = button && button === section.getRootNode().activeElement;
  if (detail && focused && !button.closest("dialog, details")) section.focus({ preventScroll: true });
}

function keyPressed(player, event) {
  if (!player.ready || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const { tagName, type } = event.target;
  const { key } = event;
  const typing = tagName === "SELECT" || (tagName === "INPUT" && !["range", "checkbox"].includes(type));
  const idle = event.target.closest(".ask") && !event.target.value && /^(Arrow|Page)/.test(key); // nothing typed yet
  if (typing && key !== "Escape" && !idle) return;
  if (player.presenter.blanked) {                           // any key ends the black screen
    event.preventDefault();
    player.presenter.blank(false);
    return;
  }
  if ((tagName === "BUTTON" || tagName === "SUMMARY") && (key === " " || key === "Enter")) return;
  const known = key.length === 1 ? key.toLowerCase() : key;
  const [, , action] = KEYS.find(([name, shift]) => name === known && (shift === null || shift === event.shiftKey))
    ?? [];
  const digit = player.presenter.presenting && /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1];
  if (!action && !digit) return;
  if (!digit && player.press(action) === false) return;      // no use for it here: the page may have it
  if (digit) player.presenter.press(Number(digit), event.shiftKey);
  event.preventDefault();
}

/** Keys pressed elsewhere on the page, where no control uses them, and the player is meant. */
function keyElsewhere(player, event) {
  const { target } = event;
  if (event.defaultPrevented || event.composedPath().includes(player.section)) return;
  if (SCROLL_KEYS.has(event.key) && !player.presenter.presenting) return;
  if (target.closest?.(TYPING)) return;
  if (isMeant(player, event)) keyPressed(player, event);
}

/** After a choice was pressed with the pointer, the arrows are the player's; reached with the keyboard, it keeps them. */
function listenAfterChoices(player) {
  player.on(document, "click", ({ target, detail }) => {
    CHOICE.pressed = detail ? target.closest?.("[role=radiogroup] > button") : null;
  }, { capture: true });
  player.on(document, "keydown", (event) => {
    if (event.target !== CHOICE.pressed || SCROLL_KEYS.has(event.key) || !isMeant(player, event)) return;
    keyPressed(player, event);
    if (!event.defaultPrevented) return;
    CHOICE.pressed = null;
    event.stopPropagation();
    player.section.focus({ preventScroll: true });
  }, { capture: true });
}

/** Whether a key of the page is the player's: it is in sight, or the key fills the screen with it. */
function isMeant(player, { key }) {
  return FULL_SCREEN_KEYS.has(key.toLowerCase()) || isInSight(player);
}

/** Whether the middle of the player, or of the bar that stays below it, is in the window. */
function isInSight(player) {
  return [player.section, player.$("footer")].some((part) => {
    const { top, bottom, height } = part.getBoundingClientRect(), middle = (top + bottom) / 2;
    return height > 0 && middle > 0 && middle < innerHeight;
  });
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
    const swiped = Math.abs(dx) > SWIPE_PX && Math.abs(dx) > 2 * Math.abs(dy) && timeStamp - began.at < SWIPE_MS;
    if (swiped) player.press(dx < 0 ? "next" : "previous");
    began = null;
  }, { passive: true });
}

/** The dialog that lists the keys. */
export function showKeys(player) {
  player.pause();
  const shown = KEYS.filter(([, , , written]) => written).map(([, , , written, words]) => [written, words]);
  shown.splice(-2, 0, KEYS_AT_FULL_SCREEN);
  const list = element("dl", "keys");
  for (const [written, words] of [...shown, ...NO_KEYS]) {
    list.append(element("dt", "", written), element("dd", "", words));
  }
  openDialog(player.section, "Keys", [list, element("p", "sum", SCROLL_NOTE)], "wide");
}
