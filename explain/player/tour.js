// The tour: captions that lead through the run. Each sets the step, the depth, the panels, the row and the watched
// variable. A second window can follow it and turn its pages (the run sheet of the lecturer's notes).

import { drawingOf, takePicture } from "./picture.js";
import { explain } from "./terms.js";

/** What a key, a clicker or a swipe does in a tour: captions forward. Only a clicker goes on after the last. */
const WAYS = { next: 1, nextTile: 1, previous: -1, previousTile: -1 };
/** Said before a caption that changes the depth, by the names of the switch. */
const TURNS = { idea: "Idea: ", code: "Code: " };
const CHANNEL = "tilescope tour";
const PARTLY = 0.3;                                        // of the player; a caption then brings all of it into sight
/** Set on the page's root while a clicker leads through the chapters; explain/look/frame.js reads it. */
const CLICKER = "clicker";

/** This window's name, for the run sheet in another window; explain/look/frame.js gives the same. */
function ownWindow() {
  return document.documentElement.dataset.window ??= String(Math.random());
}

export class Tour {
  constructor(player) {
    this.player = player;
    this.box = player.$(".tour");
    this.captions = [];
    this.at = -1;
    player.on(this.box, "click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.dataset.act) {                             // a step, or out: the caption stays
        player.act(button.dataset.act);
        return;
      }
      const { onward } = this;
      player.press(this.last && button.dataset.do === "next" ? "leaveTour" : button.dataset.do);
      if (onward && !this.on && button.dataset.do === "next") this.goOn(onward);
      player.section.focus({ preventScroll: true });
    });
    this.channel = new BroadcastChannel(CHANNEL);
    player.abort.signal.addEventListener("abort", () => this.channel.close());
    this.channel.onmessage = ({ data }) => {
      if (data.asks && this.captions.length) this.tell();
      if (data.press && data.window === ownWindow() && player.ready && this.on) player.press(data.press);
    };
  }

  load() {
    const { packet, positionOf } = this.player;
    const { captions = [] } = packet.tour ?? {};
    this.captions = captions.map((one) => ({ ...one, t: positionOf[one.run].get(one.step) }));
    this.player.$(".tools [data-do=tour]").hidden = !captions.length;
    this.at = -1;
    this.write();
  }

  get on() {
    return this.at >= 0;
  }

  get caption() {
    return this.captions[this.at] ?? null;
  }

  get last() {
    return this.on && this.at === this.captions.length - 1;
  }

  /** What comes after the last caption: {title, address}. Only a page of the app can go there. */
  get onward() {
    return this.last && document.querySelector("[data-testid=stMain]") ? this.player.packet.tour.onward : null;
  }

  /** Goes to an address of the app without loading it again. */
  goOn({ address }) {
    history.pushState({}, "", new URL(address, document.baseURI));
    dispatchEvent(new PopStateEvent("popstate", { state: {} }));
  }

  /** Sets the player to caption `n`, counted from 0; draws nothing. False where there is no such caption. */
  set(n) {
    const { player } = this;
    const caption = this.captions[n];
    if (!caption) return false;
    this.at = n;
    player.step = caption.t;
    this.aim(caption);
    if (!player.depth.byHand) player.depth.set(caption.depth);
    this.write();
    player.presenter.compose(caption.panels);
    return true;
  }

  /** Selects the row, the column and the variable of a caption. */
  aim(caption) {
    const { lanes, watch } = this.player;
    for (const { selection } of lanes) {
      selection.row = caption.row ?? selection.row;
      selection.col = caption.column ?? selection.col;
    }
    const name = caption.watch || watch.otherwise;
    if (name !== watch.name) watch.follow(name);
  }

  /** Predict: asks for the last value of what caption `n` watches before it is shown, then tells it. False where the
   * reader predicts nothing, or nothing is set on the way. */
  predicts(n) {
    const { player, player: { watch, step } } = this;
    const caption = this.captions[n];
    if (!watch.asks || !caption) return false;
    this.aim(caption);
    const set = watch.lastWithin(step, caption.t);
    if (!set) return false;
    if (watch.isAsked(set)) player.go(set.at, true);
    else {
      player.pause();
      watch.ask(set);
    }
    return true;
  }

  /** Shows caption `n`; a rescale moves. */
  show(n) {
    const { player } = this;
    player.pause();
    if (!this.set(n)) return;
    player.go(player.step, true, true);
    const { top, bottom, height } = player.section.getBoundingClientRect();
    const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
    if (seen > height * PARTLY && seen < height) player.section.scrollIntoView({ block: "nearest" });
  }

  /** Begins the tour, or leaves it: the step stays, the panels are the reader's again. */
  toggle() {
    if (this.on) return this.leave();
    LED.clear();
    return this.show(0);
  }

  /** Other runs of the player begin with their tours only after a finished one. False where the tour is not on. */
  leave() {
    if (!this.on) return false;
    LED.add(this.last ? this.player.id : this.player.player);
    this.at = -1;
    this.write();
    this.player.presenter.compose(null);
    this.player.go(this.player.step, false, true);
    return true;
  }

  /** Takes what a key, a clicker or a swipe stands for. False where it is not the tour's. */
  takes(what) {
    if (what === "leaveTour") return this.leave();
    const by = WAYS[what];
    if (!this.on || !by) return false;
    if (by > 0 && this.predicts(this.at + 1)) return true;
    if (by < 0 || !this.last) this.show(Math.max(0, this.at + by));
    else if (what === "nextTile") this.end();
    return true;
  }

  /** After the last caption a clicker goes on down the page, and to the next chapter. Without a page it stays. */
  end() {
    const page = document.querySelector("[data-testid=stMain]");
    if (!page) return;
    this.leave();
    this.player.presenter.leave();
    document.documentElement.dataset[CLICKER] = "";
    page.focus({ preventScroll: true });
  }

  /** A clicker that came from the chapter before leads through this tour too. */
  greet() {
    const { dataset } = document.documentElement;
    if (!this.on || dataset[CLICKER] === undefined) return;
    delete dataset[CLICKER];                               // until this tour ends
    this.player.section.focus({ preventScroll: true });
    this.player.section.scrollIntoView({ block: "center" });
  }

  write() {
    const { box, caption, captions, at } = this;
    box.hidden = !caption;
    this.player.$(".tools [data-do=tour]").setAttribute("aria-pressed", String(this.on));
    if (caption) this.player.section.dataset.caption = at + 1;
    else delete this.player.section.dataset.caption;
    if (captions.length) this.tell();
    this.player.transport.showClock();                     // whose arrow keys are the captions' now, or no more
    if (!caption) return;
    explain(box.querySelector(".told"), caption.text, caption.terms);
    box.querySelector(".of").textContent = `caption ${at + 1} of ${captions.length}`;
    box.querySelector("[data-do=previous]").disabled = at === 0;
    const button = box.querySelector("[data-do=next]"), after = this.onward ? `Next: ${this.onward.title} →` : "Done";
    button.textContent = this.last ? after : "Next";
    button.ariaLabel = this.onward ? after : "Next caption";
  }

  /** Says where a caption's step is, while another step is shown; and the depth, where the caption has changed it: not
   * where the reader has chosen one. */
  render(t) {
    const { caption, captions, at } = this, { dataset } = this.box.querySelector(".told");
    const by = Math.sign(t - (caption?.t ?? t)), before = captions[at - 1];
    dataset.by = ["Later: ", "", "Earlier: "][by + 1];
    const turns = caption && before && before.depth !== caption.depth && !this.player.depth.byHand;
    dataset.turn = turns ? TURNS[caption.depth] : "";
  }

  /** Tells the run sheet in another window where the tour is. */
  tell() {
    const { chapter, title, captions } = this.player.packet.tour;
    const sheet = captions.map(({ text, say, minutes }) => ({ text, say, minutes }));
    this.channel.postMessage({ window: ownWindow(), chapter, title, at: this.at, captions: sheet });
  }

  /** For screen readers. */
  said() {
    return this.on ? `Caption ${this.at + 1} of ${this.captions.length}: ${this.caption.text} ` : "";
  }

  /** Each caption as a drawing of the whole player, as the presenter's view shows it. */
  slides() {
    const { player, at } = this;
    const { section } = player;
    const back = player.step;
    section.classList.add("slide");
    player.presenter.stand(true);
    const drawings = this.captions.map((_, n) => {
      this.set(n);
      player.go(player.step, false, true);
      this.box.querySelector(".of").textContent = `${player.packet.tour.title} · ${n + 1} / ${this.captions.length}`;
      player.resized();
      for (const lane of player.lanes) lane.panels.get("source").land();
      return drawingOf(takePicture(section), "", `slide${n}`);
    });
    section.classList.remove("slide");
    player.presenter.stand(false);
    if (at < 0) this.leave();
    else this.set(at);
    player.go(back, false, true);
    return drawings;
  }
}

/** Makes an exported page print as slides, a page for each caption. With `#print` in its address it does so at once. */
export function printsAsSlides(player) {
  if (location.protocol !== "file:" && location.protocol !== "blob:") return;
  const sheets = document.createElement("div");
  sheets.className = "slides";
  document.body.append(sheets);
  const lay = () => {
    if (!player.tour.captions.length) return;
    document.documentElement.classList.add("has-slides");
    const pages = player.tour.slides().map((drawing) => {
      const page = new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement;
      page.removeAttribute("width");
      page.removeAttribute("height");
      return document.importNode(page, true);
    });
    sheets.replaceChildren(...pages);
  };
  player.on(window, "beforeprint", lay);
  document.fonts.ready.then(() => {
    if (location.hash === "#slides") lay();
    if (location.hash === "#print") window.print();
  });
}
