// Two depths of one timeline. Idea draws the tiles of a beat; Code shows its lines. The switch keeps the step.

const KEPT = "tilescope: depth";
const DEPTHS = ["idea", "code"];

/** The depth that this browser's reader chose last; null for none. */
function lastDepth() {
  try {
    return localStorage.getItem(KEPT);
  } catch {                                                // nothing can be stored
    return null;
  }
}

export class Depth {
  constructor(player) {
    this.player = player;
    this.chosen = null;
    this.box = player.$(".depth");
    player.on(this.box, "click", (event) => {
      const button = event.target.closest("button");
      if (button) this.choose(button.dataset.depth);
    });
  }

  load() {
    this.box.hidden = !this.possible;
    this.chosen ??= this.first();
    this.show();
  }

  /** Whether the runs have beats to draw. */
  get possible() {
    return this.player.beats.length > 0;
  }

  /** The depth on screen: "idea" or "code". */
  get shown() {
    return this.possible ? this.chosen : "code";
  }

  /** The packet's or the address's; Code for an address that names a step only; the reader's last; Idea. */
  first() {
    const { packet, query } = this.player;
    const address = new URLSearchParams(query ? location.search : "");
    const named = [packet.depth, address.get("depth"), address.has(query) && "code", lastDepth(), "code"];
    return named.find((depth) => DEPTHS.includes(depth));
  }

  /** Follows the address, if it names a depth: after Back and Forward. */
  follow() {
    const named = this.player.query && new URLSearchParams(location.search).get("depth");
    if (DEPTHS.includes(named)) this.chosen = named;
    this.show();
    this.player.transport.showClock();
  }

  toggle() {
    if (!this.possible) return false;
    return this.choose(DEPTHS.find((depth) => depth !== this.shown));
  }

  /** Shows a depth at the same step, and keeps it for the next page. */
  choose(depth) {
    const { player } = this;
    this.chosen = depth;
    try {
      localStorage.setItem(KEPT, depth);
    } catch { /* not stored: the next page opens as before */ }
    this.show();
    player.transport.showClock();
    player.presenter.show();
    player.fit();
    if (!player.resized()) player.render();
    player.settle();
    player.section.focus({ preventScroll: true });
  }

  show() {
    const { section } = this.player;
    section.dataset.depth = this.shown;
    for (const button of this.box.children) {
      button.setAttribute("aria-pressed", String(button.dataset.depth === this.shown));
    }
  }
}
