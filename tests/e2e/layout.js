// Finds faults of layout in the page as it stands: window.layoutFaults() gives [{kind, text, where, detail}].
// An init script, because what is drawn on a canvas can only be known while it is drawn.
// kinds: clipped (by a box or an ellipsis) · overlap (of two texts) · outside (of its picture or the window) ·
//        contrast · heading (a level skipped, or no single h1) · canvas (without a name)
(() => {
  const SLACK = 1.5;                                       // pixels that rounding may take
  const DENSE = 0.45;                                      // of a space: numbers in cells may stand closer than words
  const CONTRAST = 4.5;                                    // WCAG 2, AA
  const drawn = new WeakMap();                             // canvas → [{text, left, top, right, bottom}], its pixels
  const pens = new Map();                                  // a pen's font → the characters drawn with it

  // --- what canvases show ---

  const PEN = CanvasRenderingContext2D.prototype;
  const patched = (object, name, also) => {
    const plain = object[name];
    object[name] = function (...given) {
      also.call(this, ...given);
      return plain.apply(this, given);
    };
  };
  const onCanvas = (pen, left, top, right, bottom) => {
    const t = pen.getTransform();
    const xs = [], ys = [];
    for (const [x, y] of [[left, top], [right, top], [left, bottom], [right, bottom]]) {
      xs.push(t.a * x + t.c * y + t.e);
      ys.push(t.b * x + t.d * y + t.f);
    }
    return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) };
  };
  const wipe = (pen, x, y, width, height) => {
    const area = onCanvas(pen, x, y, x + width, y + height);
    const covered = (box) => box.left >= area.left - 2 && box.right <= area.right + 2
      && box.top >= area.top - 2 && box.bottom <= area.bottom + 2;
    const whole = area.right - area.left >= pen.canvas.width - 1 && area.bottom - area.top >= pen.canvas.height - 1;
    drawn.set(pen.canvas, whole ? [] : (drawn.get(pen.canvas) ?? []).filter((box) => !covered(box)));
  };
  patched(PEN, "clearRect", function (x, y, width, height) {
    wipe(this, x, y, width, height);
  });
  patched(PEN, "fillRect", function (x, y, width, height) {
    if (this.globalAlpha === 1 && /^#......$/.test(this.fillStyle)) wipe(this, x, y, width, height);
  });
  patched(PEN, "fillText", function (text, x, y) {
    if (!String(text).trim() || this.globalAlpha === 0) return;
    if (!pens.has(this.font)) pens.set(this.font, new Set());
    for (const character of String(text)) pens.get(this.font).add(character);
    const m = this.measureText(text);
    const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right } = m;
    const box = onCanvas(this, x - left, y - m.actualBoundingBoxAscent, x + right, y + m.actualBoundingBoxDescent);
    if (!drawn.has(this.canvas)) drawn.set(this.canvas, []);
    const space = (this.measureText(" ").width * (box.right - box.left)) / Math.max(1, left + right);
    drawn.get(this.canvas).push({ text: String(text), ...box, space });
  });
  patched(PEN, "drawImage", function (source, ...to) {
    const boxes = source instanceof HTMLCanvasElement && to.length <= 4 && drawn.get(source);
    if (!boxes?.length) return;
    const [x, y, width = source.width, height = source.height] = to;
    const across = width / source.width, down = height / source.height;
    const moved = boxes.map(({ text, space, left, top, right, bottom }) => ({
      text, space: space * across,
      ...onCanvas(this, x + left * across, y + top * down, x + right * across, y + bottom * down),
    }));
    drawn.set(this.canvas, [...(drawn.get(this.canvas) ?? []), ...moved]);
  });
  for (const side of ["width", "height"]) {
    const plain = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
    Object.defineProperty(HTMLCanvasElement.prototype, side, {
      ...plain,
      set(value) {
        drawn.delete(this);
        plain.set.call(this, value);
      },
    });
  }

  // --- what the page shows ---

  const parentOf = (element) => element.assignedSlot ?? element.parentElement ?? element.getRootNode().host ?? null;
  const SEEN = { opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true };
  const shown = (element) => element.checkVisibility(SEEN);

  const shadows = new Set();
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (how) {
    const root = attach.call(this, how);
    shadows.add(new WeakRef(root));
    return root;
  };
  /** What a selector finds in the document and in each shadow tree: much sooner than `everything`, in no one order. */
  const all = (selector) => [document, ...[...shadows].map((root) => root.deref())].filter((root) => root?.isConnected)
    .flatMap((root) => [...root.querySelectorAll(selector)]);

  function* everything(root) {
    for (const element of root.querySelectorAll("*")) {
      yield element;
      if (element.shadowRoot) yield* everything(element.shadowRoot);
    }
  }

  const place = (element) => {
    for (let at = element; at; at = parentOf(at)) {
      const own = typeof at.className === "string" && !at.className.startsWith("st-emotion") ? at.className : "";
      const name = at.dataset?.testid ?? own.split(" ")[0];
      if (name) return at === element ? name : `${element.localName} in ${name}`;
    }
    return element.localName;
  };
  const short = (text) => text.replaceAll(/\s+/g, " ").trim().slice(0, 70);

  /** The function, which answers the second question about an element from what it found at the first. */
  const remembered = (find) => {
    const found = new Map();
    return (element) => {
      if (!found.has(element)) found.set(element, find(element));
      return found.get(element);
    };
  };

  function check() {
    const faults = [], said = new Set();
    const fault = (kind, text, element, detail = "") => {
      const one = { kind, text: short(text), where: place(element), detail };
      const key = JSON.stringify([kind, one.text, one.where]);
      if (!said.has(key)) said.add(key), faults.push(one);
    };
    const styleOf = remembered((element) => getComputedStyle(element));
    const boxOf = remembered((element) => element.getBoundingClientRect());
    /** What an element adds to the ground of a text in it. */
    const groundOf = remembered((element) => {
      const { opacity, backgroundColor, backgroundImage } = styleOf(element);
      return { opacity: Number(opacity), ground: rgba(backgroundColor), image: backgroundImage !== "none" };
    });
    /** The shapes of a picture, the uppermost first. */
    const shapesOf = remembered((svg) => [...svg.querySelectorAll("rect, circle, path, polygon, image")].reverse());
    const elements = [...everything(document)].filter(shown);
    const page = document.querySelector("[data-testid=stMain]") ?? document.scrollingElement;

    /** Where a clip path lets an element of a picture be seen; null where nothing clips it. */
    const clipOf = remembered((element) => {
      if (!element?.ownerSVGElement) return null;
      const within = clipOf(element.parentElement), [, id] = styleOf(element).clipPath.match(/^url\("#(.+)"\)$/) ?? [];
      const shape = id && element.getRootNode().getElementById(id)?.querySelector("rect");
      let clip = within;
      if (shape) {
        const { x, y, width, height } = shape.getBBox(), space = element.getScreenCTM();
        const ends = [new DOMPoint(x, y), new DOMPoint(x + width, y + height)];
        const [from, to] = ends.map((point) => point.matrixTransform(space));
        clip = { left: Math.max(from.x, within?.left ?? -Infinity), top: Math.max(from.y, within?.top ?? -Infinity),
          right: Math.min(to.x, within?.right ?? Infinity), bottom: Math.min(to.y, within?.bottom ?? Infinity) };
      }
      return clip;
    });

    /** The elements around an element, itself included, that cut what leaves them; of each, its box and its ways. */
    const cutsOf = remembered((element) => {
      if (!element || element === page) return [];
      const around = cutsOf(parentOf(element)), { display, overflowX, overflowY } = styleOf(element);
      if (["contents", "inline"].includes(display) || (overflowX === "visible" && overflowY === "visible")) return around;
      return [{ element, edge: boxOf(element), overflowX, overflowY }, ...around];
    });

    const inside = (box, { edge, overflowX, overflowY }) => ({
      ...box,
      ...(overflowX !== "visible" && { left: Math.max(box.left, edge.left), right: Math.min(box.right, edge.right) }),
      ...(overflowY !== "visible" && { top: Math.max(box.top, edge.top), bottom: Math.min(box.bottom, edge.bottom) }),
    });

    /** The part of a text's box that is seen; tells of what hides the rest, unless that can be scrolled. */
    const seen = (box, element, text) => {
      let { left, top, right, bottom } = box;
      const most = (bottom - top) * (element.closest(".katex") ? 0.4 : 0.2); // a font's box is higher than its letters
      const clip = clipOf(element);
      if (clip) {
        const outside = left > clip.right || right < clip.left || top > clip.bottom || bottom < clip.top;
        if (outside) return null;
        const past = Math.max(clip.left - left, right - clip.right, clip.top - top - most, bottom - most - clip.bottom);
        if (past > SLACK) fault("clipped", text, element, `by ${Math.round(past)} px`);
        [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
        [top, bottom] = [Math.max(top, clip.top), Math.min(bottom, clip.bottom)];
      }
      for (const { element: at, edge, overflowX, overflowY } of cutsOf(element)) {
        if (edge.width <= 1 || edge.height <= 1) return null;   // for screen readers alone
        // The code editor has a scroll bar of its own making
        const scrolls = (way) => way === "auto" || way === "scroll" || at.matches(".ace_scroller");
        const across = overflowX !== "visible" && (left < edge.left - SLACK || right > edge.right + SLACK);
        const below = top + most < edge.top - SLACK || bottom - most > edge.bottom + SLACK;
        const down = overflowY !== "visible" && below;
        if ((across && !scrolls(overflowX)) || (down && !scrolls(overflowY))) {
          const high = Math.max(edge.top - top, bottom - edge.bottom) - most;
          const past = Math.max(edge.left - left, right - edge.right, high);
          fault(at.localName === "svg" ? "outside" : "clipped", text, at, `by ${Math.round(past)} px`);
        }
        ({ left, top, right, bottom } = inside({ left, top, right, bottom }, { edge, overflowX, overflowY }));
        if (right - left < 1 || bottom - top < 1) return null;
      }
      return { left, top, right, bottom };
    };

    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    const spaceIn = remembered((font) => {
      pen.font = font;
      return pen.measureText(" ").width;
    });
    /** The width of a space in the font of an element, as it is shown. */
    const spaceOf = remembered((element) => {
      const { fontWeight, fontSize, fontFamily } = styleOf(element), turned = element.getScreenCTM?.();
      return spaceIn(`${fontWeight} ${fontSize} ${fontFamily}`) * (turned ? Math.hypot(turned.a, turned.b) : 1);
    });

    // Texts: where each line of them is.
    const lines = [];
    for (const element of elements) {
      for (const node of element.childNodes) {
        if (node.nodeType !== Node.TEXT_NODE || !node.data.trim()) continue;
        const style = styleOf(element);
        if (style.fontFamily.includes("Material Symbols")) continue;
        if (element.closest("title, style, script, option, .katex-mathml")) continue;
        const turned = element.getScreenCTM?.();
        const slanted = turned && Math.abs(turned.a * turned.b) > 1e-6;
        const range = document.createRange();
        range.selectNodeContents(node);
        let visible = null;
        for (const box of range.getClientRects()) {
          if (box.width < 1 || box.height < 1) continue;
          const part = seen(box, element, node.data);
          if (!part) continue;
          visible ||= part;
          const svg = element.ownerSVGElement && outermost(element);
          if (svg) {
            const edge = boxOf(svg);
            const past = Math.max(edge.left - part.left, part.right - edge.right, edge.top - part.top,
              part.bottom - edge.bottom - box.height * 0.2);
            if (past > SLACK) fault("outside", node.data, svg, `by ${Math.round(past)} px`);
          }
          const shrink = (box.bottom - box.top) * 0.22;
          // The boxes of slanted lines say little. And a term whose words the picture has is not seen.
          if (slanted || (!svg && !rgba(style.color)?.[3])) continue;
          const [top, bottom] = [part.top + shrink, part.bottom - shrink];
          lines.push({ left: part.left, right: part.right, top, bottom, text: node.data, element });
        }
        if (visible) contrast(node, element, visible);
      }
    }

    /** Whether two texts share a place, or stand so close in a row that they read as one: “measured100.7 MB”. */
    const meet = (one, other) => {
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      if (high <= 2) return false;
      if (wide > 2 * SLACK) return true;
      const row = high > 0.6 * Math.min(one.bottom - one.top, other.bottom - other.top);
      if (!row || wide <= -0.9 * Math.min(spaceBeside(one), spaceBeside(other))) return false;
      const [before, after] = one.left < other.left ? [one, other] : [other, one];
      // Or the space is in the text's own box.
      return !areOneSentence(one, other) && !/\s$/.test(before.text) && !/^\s/.test(after.text);
    };
    const spaceBeside = ({ space, element }) => space ?? spaceOf(element);
    const blockOf = remembered((element) => {
      let at = element.closest("text") ?? element;
      while (at && ["inline", "contents"].includes(styleOf(at).display) && at.localName !== "text") at = parentOf(at);
      return at;
    });
    const areOneSentence = (one, other) => !one.drawn && blockOf(one.element) === blockOf(other.element);

    // Canvases: texts drawn past their edge, and what is seen of the others.
    for (const canvas of elements.filter(({ localName }) => localName === "canvas")) {
      if (canvas.closest("[data-testid=stDataFrame]")) continue;   // Streamlit's table: it scrolls what it draws
      const edge = boxOf(canvas);
      if (edge.width < 2 || edge.height < 2) continue;
      const label = canvas.ariaLabel || canvas.getAttribute("aria-labelledby");
      const named = label || canvas.title || canvas.textContent.trim();
      if (!named && !canvas.closest("[aria-hidden=true]")) fault("canvas", "", canvas, "has no name");
      const across = edge.width / canvas.width, down = edge.height / canvas.height;
      const texts = (drawn.get(canvas) ?? []).map(({ text, space, left, top, right, bottom }) => ({
        text, space: space * across * DENSE, element: canvas, drawn: true,
        left: edge.left + left * across, right: edge.left + right * across,
        top: edge.top + top * down, bottom: edge.top + bottom * down,
      }));
      for (const one of texts) {
        const past = Math.max(edge.left - one.left, edge.top - one.top, one.right - edge.right,
          one.bottom - edge.bottom);
        if (past > SLACK) fault("outside", one.text, canvas, `drawn ${Math.round(past)} px past the canvas`);
        if (one.text.length > 1 && one.text.endsWith("…")) fault("clipped", one.text, canvas, "drawn with an ellipsis");
        const part = cutsOf(canvas).reduce(inside, one);
        if (part.right - part.left >= 1 && part.bottom - part.top >= 1) lines.push(part);
      }
    }

    // Panels that leave their player.
    for (const panel of all(".player .panel").filter(shown)) {
      const past = boxOf(panel).bottom - boxOf(panel.closest(".player")).bottom;
      if (past > SLACK) fault("outside", "", panel, `${Math.round(past)} px below its player`);
    }

    // Two texts in one place; what stays in sight while the page is scrolled may pass over it.
    const layerOf = remembered((element) => {
      if (!element) return null;
      return ["fixed", "sticky"].includes(styleOf(element).position) ? element : layerOf(parentOf(element));
    });
    lines.sort((a, b) => a.top - b.top);
    const formula = (element) => element.closest("math, .katex");
    for (let i = 0; i < lines.length; i++) {
      const one = lines[i];
      for (let j = i + 1; j < lines.length && lines[j].top < one.bottom; j++) {
        const other = lines[j];
        if (!meet(one, other)) continue;
        if (one.element === other.element && !one.drawn || layerOf(one.element) !== layerOf(other.element)) continue;
        if (formula(one.element) && formula(one.element) === formula(other.element)) continue;
        fault("overlap", one.text, one.element, `with “${short(other.text)}”`);
      }
    }

    // Headings.
    const headings = elements.filter(({ localName }) => /^h[1-6]$/.test(localName));
    const levels = headings.map((element) => [Number(element.localName[1]), element]);
    const first = levels.filter(([level]) => level === 1).length;
    if (first !== 1) fault("heading", "", page, `${first} headings of level 1`);
    levels.forEach(([level, element], i) => {
      const before = i ? levels[i - 1][0] : 0;
      if (level <= before + 1) return;
      fault("heading", element.textContent, element, `h${level} after ${before ? `h${before}` : "nothing"}`);
    });

    const wider = page.scrollWidth - page.clientWidth;
    if (wider > SLACK) fault("outside", "", page, `the page is ${wider} px wider than the window`);
    return faults;

    function contrast(node, element, part) {
      const x = (part.left + part.right) / 2, y = (part.top + part.bottom) / 2;
      if (!/[\p{L}\p{N}]/u.test(node.data)) return;      // a ● before a name has its line's colour
      if (element.closest(":disabled, [aria-disabled=true]")) return;
      const style = styleOf(element);
      const inSvg = element.ownerSVGElement;
      let ink = rgba(inSvg ? style.fill : style.color);
      if (!ink?.[3]) return;                               // not drawn: a term's words over a picture that has them
      let faded = inSvg ? Number(style.fillOpacity) : 1;
      const grounds = inSvg ? [...shapesUnder(element)] : [];
      if (grounds.includes(null)) return;                  // on a picture of many colours
      let scrolled = true;                                 // the page's own ground fills the window, wherever the text is
      for (let at = element; at; at = parentOf(at)) {
        const { opacity, ground, image } = groundOf(at);
        if (at === page) scrolled = false;
        faded *= opacity;
        if (at.ownerSVGElement || !(image || ground?.[3])) continue;
        const edge = boxOf(at);
        const beside = x < edge.left || x > edge.right || y < edge.top || y > edge.bottom;
        if (scrolled && beside) continue;
        if (image) return;                                 // what is under it has no one colour
        grounds.push(ground);
        if (ground[3] === 1) break;
      }
      let under = [255, 255, 255];
      for (const ground of grounds.reverse()) under = blend(ground, under);
      ink = blend([ink[0], ink[1], ink[2], ink[3] * faded], under);
      const [high, low] = [light(ink), light(under)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio >= CONTRAST - 0.005) return;
      fault("contrast", node.data, element, `${ratio.toFixed(2)}: ${hex(ink)} on ${hex(under)}`);
    }

    /** The fills of the shapes that lie under a text of a picture, the uppermost first. */
    function* shapesUnder(element) {
      const svg = outermost(element), box = boxOf(element);
      const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
      const { DOCUMENT_POSITION_FOLLOWING: FOLLOWS } = Node;
      for (const shape of shapesOf(svg)) {
        const edge = boxOf(shape);
        if (x < edge.left || x > edge.right || y < edge.top || y > edge.bottom || !shown(shape)) continue;
        if (!(shape.compareDocumentPosition(element) & FOLLOWS)) continue;
        const clip = clipOf(shape);
        if (clip && (x < clip.left || x > clip.right || y < clip.top || y > clip.bottom)) continue;
        if (shape.localName === "image") return void (yield null);
        const style = styleOf(shape), fill = rgba(style.fill);
        if (!fill?.[3] || !holds(shape, x, y)) continue;
        const ground = [fill[0], fill[1], fill[2], fill[3] * Number(style.fillOpacity) * Number(style.opacity)];
        yield ground;
        if (ground[3] === 1) return;
      }
    }
  }

  const holds = (shape, x, y) =>
    shape.isPointInFill(new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse()));

  function outermost(element) {
    let svg = element.ownerSVGElement;
    while (svg?.ownerSVGElement) svg = svg.ownerSVGElement;
    return svg;
  }

  const blend = ([r, g, b, a = 1], under) => [r, g, b].map((value, i) => value * a + under[i] * (1 - a));
  const light = (rgb) => {
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const hex = (rgb) => `#${rgb.map((value) => Math.round(value).toString(16).padStart(2, "0")).join("")}`;
  const colours = new Map();
  /** Any CSS colour as [red, green, blue, alpha 0 to 1]; null of what is none. */
  function rgba(text) {
    if (!colours.has(text)) colours.set(text, read(text));
    return colours.get(text);
  }
  function read(text) {
    if (text === "none" || text.startsWith("url")) return null;
    const plain = text.match(/^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/);
    if (plain) return [plain[1], plain[2], plain[3], plain[4] ?? 1].map(Number);
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }

  /** The faults; null while the app runs the page again, when what it may replace is pale. */
  const isRunning = () => document.querySelector("[data-test-script-state]:not([data-test-script-state=notRunning])");
  window.layoutFaults = () => (isRunning() || document.querySelector("[data-stale=true]") ? null : check());

  const characters = new Map();                            // a font's style → the characters seen in it
  /**
   * The elements with characters that no text of the same font had before; each has these as newCharacters. Of what
   * canvases show, elements of its own that nobody sees.
   */
  window.withNewCharacters = () => {
    document.querySelector("[data-pens]")?.remove();
    const ofPens = document.body.appendChild(document.createElement("div"));
    ofPens.dataset.pens = "";
    ofPens.style.cssText = "position: fixed; top: 0; opacity: 0; pointer-events: none";
    for (const [font, written] of pens) {
      ofPens.append(Object.assign(document.createElement("span"), { textContent: [...written].join("") }));
      ofPens.lastChild.style.font = font;
    }
    pens.clear();
    document.documentElement.getBoundingClientRect();      // a text that is not laid out yet has no font
    return all("*").filter(hasNewCharacters);
  };

  function hasNewCharacters(element) {
    let text = "";
    for (let node = element.firstChild; node; node = node.nextSibling) {
      if (node.nodeType === Node.TEXT_NODE) text += node.data;
    }
    if (!text.trim()) return false;
    // What KaTeX adds for screen readers has no font of its own, and nobody sees it.
    if (element.closest("script, style, title, head, .katex-mathml")) return false;
    if (!element.checkVisibility({ visibilityProperty: true })) return false;   // not drawn, so it has no font yet
    const { fontFamily, fontWeight, fontStyle } = getComputedStyle(element);
    const key = `${fontFamily} ${fontWeight} ${fontStyle}`;
    const seen = characters.get(key) ?? characters.set(key, new Set()).get(key);
    const fresh = [...new Set(text)].filter((character) => character.trim() && !seen.has(character));
    for (const character of fresh) seen.add(character);
    element.newCharacters = fresh.join("");
    return fresh.length > 0;
  }

  /** Whether an element of the page has the theme that the browser asks for. */
  const isThemed = (element) => {
    if (!element) return true;
    const ground = rgba(getComputedStyle(element).backgroundColor).slice(0, 3);
    const theme = element.dataset.theme ?? (light(ground) < 0.2 ? "dark" : "light");
    return theme === (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  };

  /** The colours of a plot's ticks and of its ground: Streamlit draws it in a new theme some time after the page. */
  const plotColours = (plot) => [
    getComputedStyle(plot.querySelector(".xtick text, .ytick text") ?? plot).fill,
    plot.querySelector(".main-svg")?.style.background || "none",
  ];
  const isHalfDrawn = ([ink, ground]) => {
    const [on, under] = [rgba(ink), rgba(ground)];
    return Boolean(on && under?.[3]) && Math.abs(light(on) - light(under)) < 0.2;
  };

  /**
   * Resolves when nothing has changed for `quiet` ms: neither the page's tree nor the size of its pictures. To true;
   * to false where that takes more than `limit` ms, or no frame is drawn in a fifth of them.
   */
  window.layoutSettled = (quiet = 150, limit = 300_000) =>
    new Promise((resolve) => {
      const begun = performance.now();
      let last = begun, state = "";
      const look = () => {
        const now = performance.now();
        const pictures = all("canvas, svg");
        const running = document.querySelector("[data-test-script-state]")?.dataset.testScriptState ?? "notRunning";
        const app = document.querySelector(".stApp");
        // app.css is in force.
        const styled = app === null || getComputedStyle(app).getPropertyValue("--f-max") !== "";
        const themed = styled && isThemed(app) && all(".player").every(isThemed);
        const drawnPlots = [...document.querySelectorAll(".js-plotly-plot")].filter((plot) => plot.checkVisibility());
        const plots = drawnPlots.map(plotColours);
        const sizes = pictures.map((p) => `${p.clientWidth} ${p.clientHeight}`);
        const fresh = [themed, plots, running, document.fonts.status, document.body.textContent.length, sizes].join(" ");
        if (fresh !== state || running !== "notRunning" || !themed || plots.some(isHalfDrawn)) [state, last] = [fresh, now];
        if (now - last >= quiet || now - begun > limit) resolve(now - begun <= limit);
        else setTimeout(look, 50);
      };
      const noFrame = setTimeout(resolve, limit / 5, false);
      requestAnimationFrame(() => (clearTimeout(noFrame), look()));
    });
})();
