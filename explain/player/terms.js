// Words with a definition, for who hovers, focuses or taps them; explain/look/terms.css shows it.

/** A word with its definition. */
export function termOf(word, definition) {
  const span = Object.assign(document.createElement("span"), { className: "term", textContent: word, tabIndex: 0 });
  for (const [name, value] of Object.entries({ role: "term", "data-definition": definition }))
    span.setAttribute(name, value);
  span.ariaDescription = definition;
  return span;
}

/** Fills `place` with a text in which the first use of each of `terms`, {word: definition}, has its definition. */
export function explain(place, text, terms) {
  const escaped = Object.keys(terms).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const words = escaped.sort((a, b) => b.length - a.length).join("|"), said = new Set();
  const parts = words ? text.split(new RegExp(`(?<![\\p{L}-])(${words})(?![\\p{L}\u0303-])`, "u")) : [text];
  place.replaceChildren(...parts.map((part) => {
    if (!terms[part] || said.has(terms[part])) return part;
    said.add(terms[part]);
    return termOf(part, terms[part]);
  }));
}

/** Lays a term over each word that is drawn on a canvas, from its left at (left, middle), in pixels of `place`: {text,
 * definition, left, middle, size, weight}. A word that stays keeps its element; Tab stops once at each definition. */
export function explainDrawn(place, words) {
  const stay = words.length === place.children.length
    && words.every(({ text }, i) => place.children[i].textContent === text);
  const there = stay ? null : new Map([...place.children].map((span) => [span.textContent, span]));
  const spans = words.map(({ text, definition, left, middle, size, weight }, i) => {
    const span = stay ? place.children[i] : there.get(text) ?? termOf(text, definition);
    there?.delete(text);
    span.tabIndex = words.findIndex((word) => word.definition === definition) === i ? 0 : -1;
    Object.assign(span.style, { left: `${left}px`, top: `${middle - size / 2}px`, fontSize: `${size}px`,
      fontWeight: weight });
    return span;
  });
  if (!stay) place.replaceChildren(...spans);
}
