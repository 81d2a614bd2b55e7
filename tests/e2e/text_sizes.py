"""The sizes of all text that is seen, in the page and on its canvases."""

TEXT_PX = 36
"""The least at full screen, at 1080 pixels of height."""

LETTERS = """
  globalThis.drawn = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    const { c, d } = this.getTransform();
    const size = parseFloat(this.font.match(/([\\d.]+)px/)[1]) * Math.hypot(c, d) / devicePixelRatio;
    if (/\\S/.test(text) && this.canvas.checkVisibility({ visibilityProperty: true }))
      globalThis.drawn.push([size, String(text)]);
    return fill.call(this, text, ...place);
  };
"""
"""An init script: remembers what canvases draw, in `drawn`."""

SMALLEST = """(player) => {
  const seen = [];
  const walker = document.createTreeWalker(player, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!/\\S/.test(node.data) || parent.closest(".live, select, style, title, math") || !parent.checkVisibility())
      continue;
    const scale = parent.ownerSVGElement?.getScreenCTM().a ?? 1;
    seen.push([parseFloat(getComputedStyle(parent).fontSize) * scale, node.data.trim()]);
  }
  return [...seen, ...globalThis.drawn.splice(0)].sort(([a], [b]) => a - b)[0];
}"""
"""The smallest text of the page, and of what was drawn since the last call: [pixels, text]."""
