// A plot or a picture across the whole window, its text enlarged with it: a hall reads it from the last row.

const PICTURES = ".stPlotlyChart, svg[role=img]", LEAST_WIDTH = 280;
const CORNERS = '<svg viewBox="0 0 20 20"><path d="M3 8V3h5M12 3h5v5M17 12v5h-5M8 17H3v-5"/></svg>';

/** A plot's own full-screen button, a button over each picture, and the key L show it large; so does the key F on a page
 * without a player. */
function showPicturesLarge(signal) {
  const button = document.createElement("button");
  Object.assign(button, { className: "enlarge", innerHTML: CORNERS, title: "Large · L", hidden: true, tabIndex: -1 });
  let over = null;                                           // the picture under the pointer
  const point = (event) => {
    if (!button.isConnected || button.contains(event.target)) return;
    over = event.composedPath().find(isPicture) ?? null;
    button.hidden = !over || over.matches(".stPlotlyChart");
    if (button.hidden) return;
    const { right, top } = over.getBoundingClientRect();
    Object.assign(button.style, { left: `${right - 36}px`, top: `${Math.max(top, 8)}px` });
  };
  const press = (event) => {
    const own = button.contains(event.target) && over;
    const plot = event.target.closest?.("[data-title='Fullscreen']")?.closest(".stPlotlyChart");
    if (!button.isConnected || (!own && !plot)) return;
    event.stopPropagation();                                 // Streamlit enlarges a plot without its text
    showLarge(own || plot);
  };
  const key = (event) => {
    const { ctrlKey, metaKey, altKey, defaultPrevented } = event, key = event.key.toLowerCase();
    const typing = event.composedPath()[0].matches?.("input, textarea, select, [contenteditable]");
    if (!button.isConnected || ctrlKey || metaKey || altKey || defaultPrevented || typing) return;
    if (key !== "l" && (key !== "f" || shadows().some((root) => root.querySelector(".player")))) return;
    const picture = over?.isConnected ? over : inSight();
    if (picture) showLarge(picture);
  };
  document.querySelector(".enlarge")?.remove();              // that of a bar before, which may live on; it is deaf then
  document.querySelector(".stApp").append(button);           // it has the page's colours
  document.addEventListener("pointerover", point, { passive: true, signal });
  document.addEventListener("scroll", () => (button.hidden = true), { capture: true, passive: true, signal });
  document.addEventListener("click", press, { capture: true, signal });
  document.addEventListener("keydown", key, { signal });
  signal.addEventListener("abort", () => button.remove());
}

function isPicture(element) {
  return element instanceof Element && element.matches(PICTURES) && !element.closest("dialog")
    && element.getBoundingClientRect().width >= LEAST_WIDTH;
}

/** What the page's components are made of. */
const shadows = () => [...document.querySelectorAll(".stMain *")].map(({ shadowRoot }) => shadowRoot).filter(Boolean);

/** The picture that takes most of the window, if nothing lies over it. */
function inSight() {
  const seen = (picture) => {
    const { left, right, top, bottom } = picture.getBoundingClientRect();
    const [from, to] = [Math.max(top, 0), Math.min(bottom, innerHeight)];
    const shown = from < to && document.elementFromPoint((left + right) / 2, (from + to) / 2);
    const host = picture.getRootNode().host ?? picture;
    return shown && (host.contains(shown) || shown.contains(host)) ? (to - from) * (right - left) : 0;
  };
  const pictures = [document, ...shadows()].flatMap((root) => [...root.querySelectorAll(PICTURES)]).filter(isPicture);
  return pictures.map((picture) => [seen(picture), picture]).filter(([area]) => area).sort(([a], [b]) => b - a)[0]?.[1];
}

function showLarge(picture) {
  const dialog = document.createElement("dialog"), close = document.createElement("button");
  Object.assign(close, { textContent: "×", ariaLabel: "Close", onclick: () => dialog.close() });
  dialog.className = "large";
  const plot = picture.querySelector(".js-plotly-plot");
  const own = picture.closest(".wide")?.parentNode.querySelector(":scope > .in-large > svg");  // made for this
  dialog.append(close, plot ? copyOfPlot(plot) : (own ?? picture).cloneNode(true));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();                                 // no page turns behind it
    if (["l", "f"].includes(event.key.toLowerCase())) dialog.close();
  });
  document.querySelector(".stApp").append(dialog);
  dialog.showModal();
}
