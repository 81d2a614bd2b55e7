// Modal dialogs: closed by Esc, by × or by a click outside; the focus returns to where it was.

import { element } from "./words.js";

/** A button with an accessible name. */
export function buttonOf(className, text, label, press) {
  const button = element("button", className, text);
  button.type = "button";
  button.setAttribute("aria-label", label);
  button.addEventListener("click", press);
  return button;
}

/** Keeps Tab within the dialog. */
function turnAround(event, dialog) {
  const stops = [...dialog.querySelectorAll("button, input, [tabindex='0']")];
  const [first, last] = [stops[0], stops.at(-1)];
  const active = dialog.getRootNode().activeElement;
  if (active !== (event.shiftKey ? first : last)) return;
  event.preventDefault();
  (event.shiftKey ? last : first).focus();
}

/** Opens a dialog in the player. Returns the function that closes it; its argument gets the focus. */
export function openDialog(section, title, content, className = "") {
  let back = section.getRootNode().activeElement ?? section;
  const dialog = element("dialog", className);
  dialog.setAttribute("aria-label", title);
  const close = (next = back) => {
    back = next;
    dialog.close();
  };
  const bar = element("div", "bar");
  bar.append(element("h2", "", title), buttonOf("close", "×", "Close", () => close()));
  dialog.append(bar, ...[content].flat());
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();                               // its keys are not the player's
    if (event.key === "Tab") turnAround(event, dialog);
  });
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    back.focus({ preventScroll: true });
  });
  section.append(dialog);
  dialog.showModal();
  return close;
}
