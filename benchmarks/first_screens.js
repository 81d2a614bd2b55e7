// What is in sight of a page: install() before it loads, inSight() at any time. docs/newcomers.md has the rules.

const EXPLAINS = "[data-definition], [title], [aria-description], [data-name], a[href], abbr";
const HELPED = "[data-testid=stWidgetLabel], .stCheckbox";
const HELP = "[data-testid=stTooltipIcon], [data-testid=stTooltipHoverTarget]";
const FAINTEST = 0.05;                                     // opacity

/** Remembers the text that is drawn on each canvas, where the page has it: {text, x, y} in the canvas's pixels. */
function install() {
  const { prototype } = CanvasRenderingContext2D;
  const { fillText, clearRect, drawImage } = prototype;
  const at = (ctx, x, y) => {
    const { a, b, c, d, e, f } = ctx.getTransform();
    return { x: a * x + c * y + e, y: b * x + d * y + f };
  };
  const texts = (canvas) => {
    const size = `${canvas.width} ${canvas.height}`;       // a new size empties a canvas
    if (canvas.textSize !== size) Object.assign(canvas, { textSize: size, texts: [] });
    return canvas.texts;
  };
  prototype.fillText = function (text, x, y, ...rest) {
    if (this.globalAlpha > FAINTEST) texts(this.canvas).push({ text: String(text), ...at(this, x, y) });
    return fillText.call(this, text, x, y, ...rest);
  };
  prototype.clearRect = function (x, y, width, height) {
    const from = at(this, x, y), to = at(this, x + width, y + height);
    const inside = ({ x, y }) => x >= from.x && x <= to.x && y >= from.y && y <= to.y;
    this.canvas.texts = texts(this.canvas).filter((text) => !inside(text));
    return clearRect.call(this, x, y, width, height);
  };
  prototype.drawImage = function (image, ...place) {
    if (image.texts?.length && place.length <= 4) {
      const [x, y, width = image.width, height = image.height] = place;
      const moved = (one) => at(this, x + (one.x * width) / image.width, y + (one.y * height) / image.height);
      texts(this.canvas).push(...image.texts.map((one) => ({ ...one, ...moved(one) })));
    }
    return drawImage.call(this, image, ...place);
  };
}

/** Every piece of text in sight: {text, x, y, right, explained}, in pixels of the window. */
function inSight() {
  const found = [], roots = [document];
  for (const root of roots)
    for (const { shadowRoot } of root.querySelectorAll("*")) if (shadowRoot) roots.push(shadowRoot);
  const sheets = roots.map((root) => {
    const sheet = document.createElement("style");
    sheet.textContent = "* { pointer-events: auto !important }";
    (root.head ?? root).append(sheet);
    return sheet;
  });
  const up = (node) => node.parentNode ?? node.host ?? null;
  const holds = (outer, inner) => {
    for (let node = inner; node; node = up(node)) if (node === outer) return true;
    return false;
  };
  const opaque = (element) => {
    const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
    const alpha = backgroundColor.match(/, ([\d.]+)\)$/)?.[1] ?? (backgroundColor === "transparent" ? 0 : 1);
    return backgroundImage === "none" && alpha * opacity > 0.5;
  };
  /** Whether a point of the element is there to see: nothing opaque lies above it, and nothing clips it away. */
  const bare = (element, x, y) => {
    for (const over of element.getRootNode().elementsFromPoint(x, y)) {
      if (holds(element, over)) return true;
      if (!holds(over, element) && opaque(over)) return false;
    }
    return false;
  };
  const explained = (element) => {
    for (let node = element; node; node = node.getRootNode().host) {
      if (node.closest(EXPLAINS) || node.closest(HELPED)?.querySelector(HELP)) return true;
    }
    return false;
  };
  const clear = (element) => {
    for (let node = element; node; node = up(node)) {
      if (node.nodeType === Node.ELEMENT_NODE && getComputedStyle(node).opacity <= FAINTEST) return false;
    }
    return getComputedStyle(element).visibility === "visible";
  };
  const shown = (element, { left, right, top: above, bottom, width, height }) => {
    const x = (left + right) / 2, y = (above + bottom) / 2;
    if (width < 2 || height < 4 || x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return false;
    if (!clear(element)) return false;
    return bare(element, x, y);
  };
  const keep = (text, element, rects) =>
    text && found.push({
      text,
      x: Math.min(...rects.map(({ left }) => left)),
      y: Math.min(...rects.map(({ top: above, height }) => above + height / 2)),
      right: Math.max(...rects.map(({ right }) => right)),
      explained: explained(element),
    });
  for (const root of roots) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
      const element = node.parentElement;
      if (!element || element.closest("style, script, noscript, option, .katex-mathml")) continue;
      const rects = [], words = [];
      for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const rect = range.getClientRects()[0];
        if (rect && shown(element, rect)) {
          rects.push(rect);
          words.push(word);
        }
      }
      keep(words.join(" "), element, rects);
    }
    for (const field of root.querySelectorAll("input, textarea, select")) {
      if (["range", "checkbox", "radio", "file", "hidden"].includes(field.type)) continue;
      const rect = field.getBoundingClientRect();
      if (shown(field, rect)) keep(field.selectedOptions?.[0]?.text ?? field.value, field, [rect]);
    }
    for (const canvas of root.querySelectorAll("canvas")) {
      const { left, top: above, width, height } = canvas.getBoundingClientRect();
      for (const { text, x, y } of width ? canvas.texts ?? [] : []) {
        const place = { x: left + (x * width) / canvas.width, y: above + (y * height) / canvas.height };
        const outside = place.x < 0 || place.y < 0 || place.x >= innerWidth || place.y >= innerHeight;
        if (!outside && clear(canvas) && bare(canvas, place.x, place.y)) found.push({ text, ...place, right: place.x, explained: false });
      }
    }
  }
  for (const sheet of sheets) sheet.remove();
  return found;
}
