// Dialogs: modal, closed by Esc, by × or by a press outside; the focus goes back to where it was.

import { element } from "./words.js";

/** A button with a name for those who cannot see it. */
export function buttonOf(className, text, label, press) {
  const button = element("button", className, text);
  button.type = "button";
  button.setAttribute("aria-label", label);
  button.addEventListener("click", press);
  return button;
}

/** Past the last control comes the first: Tab does not leave. */
function turnAround(event, dialog) {
  const stops = [...dialog.querySelectorAll("button, input, [tabindex='0']")];
  const [first, last] = [stops[0], stops.at(-1)];
  const active = dialog.getRootNode().activeElement;
  if (active !== (event.shiftKey ? first : last)) return;
  event.preventDefault();
  (event.shiftKey ? last : first).focus();
}

/** Opens a dialog in the player; answers the function that closes it, and gives the focus to the element it is called with. */
export function openDialog(section, title, content, className = "") {
  let back = section.getRootNode().activeElement ?? section;
  const dialog = element("dialog", className);
  dialog.setAttribute("aria-label", title);
  const close = (next = back) => {
    back = next;
    dialog.close();
  };
  const bar = element("div", "bar");
  bar.append(element("h3", "", title), buttonOf("close", "×", "Close", () => close()));
  dialog.append(bar, ...[content].flat());
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();                               // what is typed here is no command
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
