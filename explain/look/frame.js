// What is around every page: the bar with all pages, the keys that scroll, the camera of the plots, and code to copy.

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const bar = parentElement.querySelector("nav");
  if (bar.dataset.shown !== data.html) {
    bar.innerHTML = data.html;
    bar.dataset.shown = data.html;
  }
  const button = bar.querySelector("button");
  const open = (now) => button.setAttribute("aria-expanded", String(bar.classList.toggle("open", now)));
  bar.onclick = (event) => {
    const link = event.target.closest("a");
    if (!link) return event.target.closest("button") && open();
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;           // a tab or a window of its own
    event.preventDefault();
    open(false);
    setTriggerValue("page", link.dataset.page);
  };
  bar.onkeydown = (event) => {
    if (event.key !== "Escape" || !bar.classList.contains("open")) return;
    open(false);
    button.focus();
  };
  const leave = new AbortController();
  const outside = (event) => event.composedPath().includes(bar) || open(false);
  for (const type of ["pointerdown", "focusin"]) document.addEventListener(type, outside, { signal: leave.signal });
  letTheKeysScroll();
  const phone = matchMedia("(max-width: 640px)");                          // its plots are drawn anew
  const tell = () => {
    if (phone.matches === (bar.dataset.narrow === "true")) return;
    bar.dataset.narrow = String(phone.matches);
    setStateValue("narrow", phone.matches);
  };
  tell();
  phone.addEventListener("change", tell, { signal: leave.signal });
  stayAtTheSection(leave.signal);
  const turn = () => setTriggerValue("page", bar.querySelector("[rel=next]")?.dataset.page);
  const onward = (event) => atTheEnd(event) && turn();
  const sheet = new BroadcastChannel("tilescope tour");    // a clicker in the window of the run sheet
  sheet.onmessage = ({ data }) => {
    if (data.press !== "nextTile" || data.window !== document.documentElement.dataset.window) return;
    if (atTheEnd({ key: "PageDown" })) turn();
    else scrollOn();
  };
  leave.signal.addEventListener("abort", () => sheet.close());
  document.addEventListener("keydown", onward, { signal: leave.signal });
  document.addEventListener("click", photograph, { capture: true, signal: leave.signal });
  document.addEventListener("click", copyCode, { signal: leave.signal });
  showPicturesLarge(leave.signal);
  return () => leave.abort();
}

/** Streamlit scrolls a box inside the page. PageDown, End and Space are that box's only while it has the focus. */
function letTheKeysScroll() {
  const main = document.querySelector("[data-testid=stMain]");
  if (!main) return;
  main.tabIndex = -1;
  if (document.activeElement === document.body) main.focus({ preventScroll: true });
}

let takenOver = "";                                        // the section at which the reader moved

/** A link may lead to a section: it stays in sight while what is above it grows, until the reader moves. */
function stayAtTheSection(signal) {
  const content = document.querySelector("[data-testid=stMainBlockContainer]");
  if (!content) return;
  // Read anew each time: Back and Forward change it, a control may change the query, Streamlit may take it away a while.
  const section = () => location.hash && location.pathname + location.hash;
  const stay = () => {
    if (section() && section() !== takenOver) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };
  const watch = new ResizeObserver(stay);
  watch.observe(content);
  signal.addEventListener("abort", () => watch.disconnect());
  addEventListener("popstate", stay, { signal });
  for (const type of ["wheel", "pointerdown", "touchstart", "keydown"]) {
    document.addEventListener(type, () => (takenOver = section()), { passive: true, signal });
  }
}

/** A clicker that went through the chapter's tour, and down to the chapter's end, goes on to the next chapter. */
function atTheEnd({ key, defaultPrevented }) {
  const main = document.querySelector("[data-testid=stMain]");
  if (key !== "PageDown" || defaultPrevented || !main || !("clicker" in document.documentElement.dataset)) return false;
  return main.scrollTop + main.clientHeight >= main.scrollHeight - 4;
}

/** A screen further down, for a clicker that has no window to scroll. */
function scrollOn() {
  const main = document.querySelector("[data-testid=stMain]");
  if (main && "clicker" in document.documentElement.dataset) main.scrollBy({ top: main.clientHeight * 0.9 });
}

/** The camera of a plot: the plot as it stands, with its fonts; Plotly's own picture would be set in the machine's. */
async function photograph(event) {
  const plot = event.target.closest?.("[data-title^='Download plot']")?.closest(".js-plotly-plot");
  if (!plot) return;
  event.stopPropagation();
  const { format, filename, scale } = plot._context.toImageButtonOptions;
  const drawing = await drawingOfPlot(plot);
  save(format === "svg" ? drawing : await photographOf(drawing, plot, scale), `${filename}.${format}`);
}

async function drawingOfPlot(plot) {
  const svg = copyOfPlot(plot);
  svg.style.background = getComputedStyle(plot.closest(".stApp")).backgroundColor;
  const style = document.createElementNS(svg.namespaceURI, "style");
  style.textContent = await embeddedFonts(true);
  svg.prepend(style);
  return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
}

/** A plot as it stands, as one SVG. */
function copyOfPlot(plot) {
  const { width, height } = plot.getBoundingClientRect();
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  for (const [name, value] of Object.entries(size)) svg.setAttribute(name, value);
  const layers = [...plot.querySelectorAll(".svg-container > .main-svg, .svg-container > div > .main-svg")];
  svg.append(...layers.map((layer) => layer.cloneNode(true)));
  const words = layers.flatMap((layer) => [...layer.querySelectorAll("text, tspan")]);
  svg.querySelectorAll("text, tspan").forEach((copy, i) => {
    copy.style.setProperty("fill", getComputedStyle(words[i]).fill);
  });
  return svg;
}

async function photographOf(drawing, plot, scale) {
  const reader = new FileReader();
  const read = new Promise((resolve) => (reader.onload = resolve));
  reader.readAsDataURL(drawing);
  await read;
  const image = new Image();
  image.src = reader.result;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * scale, image.height * scale];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Copies the code beside the pressed button, without line numbers. A page over plain HTTP has no clipboard of its own,
    but may copy what is selected. */
function copyCode({ target }) {
  const button = target.closest?.(".source .copy"), selection = getSelection();
  if (!button) return;
  selection.selectAllChildren(button.previousElementSibling);
  const copied = document.execCommand("copy");
  selection.removeAllRanges();
  button.title = copied ? "Copied" : "Not copied: select the code and press Ctrl+C";
  button.classList.toggle("copied", copied);
}
