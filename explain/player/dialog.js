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

/** Opens a dialog in the player; answers the function that closes it. */
export function openDialog(section, title, content, className = "") {
  const before = section.getRootNode().activeElement;
  const dialog = element("dialog", className);
  dialog.setAttribute("aria-label", title);
  const close = () => dialog.close();
  const bar = element("div", "bar");
  bar.append(element("h3", "", title), buttonOf("close", "×", "Close", close));
  dialog.append(bar, ...[content].flat());
  dialog.addEventListener("keydown", (event) => event.stopPropagation());       // what is typed here is no command
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    (before ?? section).focus({ preventScroll: true });
  });
  section.append(dialog);
  dialog.showModal();
  return close;
}
