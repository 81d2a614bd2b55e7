// Two depths of one timeline. Idea draws the tiles of a beat; Code shows its lines. The switch keeps the step.

const DEPTHS = ["idea", "code"];

/** What this browser's reader chose last, under a name; null for nothing. */
export function lastChoice(name) {
  try {
    return localStorage.getItem(`tilescope: ${name}`);
  } catch {                                                // nothing can be stored
    return null;
  }
}

export function keepChoice(name, value) {
  try {
    localStorage.setItem(`tilescope: ${name}`, value);
  } catch { /* not stored: the next page opens as before */ }
}

export class Depth {
  constructor(player) {
    this.player = player;
    this.chosen = null;
    this.byHand = false;                                   // a caption's depth then gives way to the reader's
    this.box = player.$(".depth");
    player.on(this.box, "click", (event) => {
      const button = event.target.closest("button");
      if (button) this.choose(button.dataset.depth);
    });
  }

  /** Whether the runs have beats to draw. */
  get possible() {
    return this.player.beats.length > 0;
  }

  /** The depth on screen: "idea" or "code". */
  get shown() {
    return this.possible && this.chosen || "code";
  }

  /** Begins at a depth; without one at the depth shown before, at Code for an address that names a step, at the
   * reader's last, or at Idea. */
  start(depth) {
    const { query } = this.player;
    const asked = query && new URLSearchParams(location.search).has(query) && "code";
    const known = [depth, this.chosen, asked, lastChoice("depth"), "idea"];
    this.set(known.find((one) => DEPTHS.includes(one)));
  }

  toggle() {
    if (!this.possible) return false;
    return this.choose(DEPTHS.find((depth) => depth !== this.shown));
  }

  /** Shows a depth at the same step, and keeps it for the next page. */
  choose(depth) {
    const { player } = this;
    keepChoice("depth", depth);
    this.byHand = true;
    this.set(depth);
    player.presenter.show();
    player.fit();
    if (!player.resized()) player.render();
    player.settle();
    player.section.focus({ preventScroll: true });
  }

  /** Sets the depth; draws nothing. */
  set(depth) {
    const { section, transport } = this.player;
    this.chosen = depth;
    this.box.hidden = !this.possible;
    section.dataset.depth = this.shown;
    for (const button of this.box.children) {
      button.setAttribute("aria-pressed", String(button.dataset.depth === this.shown));
    }
    const other = this.player.$(".stage [data-do=depth]");
    other.hidden = !this.possible;
    other.textContent = this.shown === "idea" ? "Code" : "Idea";
    transport.showClock();
  }
}
