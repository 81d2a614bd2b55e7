// The export menu: this step as a picture, steps as a film, the whole run as one HTML file, the trace file. The
// browser makes and downloads them; the server does nothing.

import { embeddedFonts } from "./fonts.js";
import { bytes, grouped } from "./numbers.js";
import { drawingOf, paintPicture, takePicture } from "./picture.js";

const SHARPNESS = 2;                                       // the least pixels per CSS pixel
const FILM_TYPES = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"];
const FILM_BITS_PER_SECOND = 8e6;
const FIRST_FRAME_MS = 100;                               // between the frames that start the recorder
const START_MS = 10_000;                                   // a recorder that works has started by then
const ENCODING_MS = 400;                                   // for the recorder to encode the last frame
const EMPTY_FILM_BYTES = 1000;                             // a WebM file without frames is smaller
const FILM_STEPS = 40;                                    // of the film that the menu proposes
const KEEP_MS = 60_000;                                    // a download has begun by then

export class ExportMenu {
  /** `player` has packet, section, length, step, playing, go(step) and pause(). */
  constructor(player, signal) {
    this.player = player;
    this.box = player.$(".export");
    this.$ = (selector) => this.box.querySelector(selector);
    const on = (target, type, handler) => target.addEventListener(type, handler, { signal });
    on(this.box, "click", (event) => this.clicked(event.target.closest("button")));
    // Not at "toggle": that event comes after the menu has opened, and would write over what is typed at once.
    on(this.$("summary"), "click", () => this.box.open || this.opening());
    on(this.box, "keydown", (event) => this.key(event));
    on(document, "pointerdown", (event) => {
      if (!event.composedPath().includes(this.box)) this.box.open = false;
    });
    signal.addEventListener("abort", () => this.filming?.abort());
  }

  key(event) {
    if (event.key === "Escape" && this.box.open) {
      this.box.open = false;
      this.$("summary").focus();
      event.preventDefault();
    }
    if (event.key !== "Tab") event.stopPropagation();      // keys typed here are not the player's
  }

  opening() {
    const { length, step } = this.player;
    const last = length - 1;
    for (const [name, value] of [["from", step], ["to", Math.min(last, step + FILM_STEPS)]]) {
      Object.assign(this.$(`[name=${name}]`), { max: last, value });
    }
    this.say("");
  }

  say(words) {
    this.$("[role=status]").textContent = words;
  }

  async clicked(button) {
    const what = button?.dataset.save;
    if (!what) return;
    if (what === "cancel") return void this.filming?.abort();
    try {
      this.say("Exporting…");
      const files = await SAVE[what](this);
      for (const { name, blob } of files) offer(name, blob);
      this.say(`Saved ${files.map(({ name, blob }) => `${name}, ${bytes(blob.size)}`).join("; ")}.`);
    } catch (error) {
      this.say(error.name === "AbortError" ? "Cancelled." : `Not exported: ${error.message}.`);
    }
  }

  /** The kernels' names, for the names of files. */
  get kernels() {
    return this.player.stories.map((story) => story.view.kernel ?? story.sources[story.trace.source[0]].function);
  }

  named(suffix) {
    return `${this.kernels.join("-and-")}-step-${this.player.step}.${suffix}`;
  }

  /** The film's first and last step, and its steps per second. Throws an Error for the reader. */
  cut() {
    const { length } = this.player;
    const read = (name) => Number(this.$(`[name=${name}]`).value);
    const from = read("from"), to = read("to");
    const inside = (step) => Number.isInteger(step) && step >= 0 && step < length;
    const last = grouped(length - 1);
    if (![from, to].every(inside)) throw new Error(`steps ${from} to ${to}: must be whole numbers from 0 to ${last}`);
    if (from > to) throw new Error(`steps ${from} to ${to}: the first is after the last`);
    return { from, to, perSecond: read("pace") };
  }

  async film({ from, to, perSecond }) {
    const { player } = this;
    const type = globalThis.MediaRecorder && FILM_TYPES.find((one) => MediaRecorder.isTypeSupported(one));
    if (!type) throw new Error("this browser cannot record WebM");
    const bar = this.$("progress"), cancel = this.$("[data-save=cancel]"), record = this.$("[data-save=webm]");
    this.filming = new AbortController();
    const { signal } = this.filming;
    const back = player.step;
    player.pause();
    Object.assign(bar, { hidden: false, max: to - from + 1, value: 0 });
    cancel.hidden = !(record.hidden = true);
    cancel.focus();
    try {
      player.go(from);
      return await filmed(player, { from, to, perSecond, type, signal, progress: (done) => (bar.value = done) });
    } finally {
      bar.hidden = cancel.hidden = !(record.hidden = false);
      record.focus();
      player.go(back);
      this.filming = null;
    }
  }
}

const SAVE = {
  async png(menu) {
    const picture = takePicture(menu.player.section);
    const canvas = blankFor(picture, Math.max(SHARPNESS, devicePixelRatio));
    paintPicture(picture, canvas.getContext("2d"));
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    if (!blob) throw new Error("the picture is too large for this browser");
    return [{ name: menu.named("png"), blob }];
  },
  async svg(menu) {
    const drawing = drawingOf(takePicture(menu.player.section), await embeddedFonts(true));
    return [{ name: menu.named("svg"), blob: new Blob([drawing], { type: "image/svg+xml" }) }];
  },
  async webm(menu) {
    const cut = menu.cut();
    const blob = await menu.film(cut);
    return [{ name: `${menu.kernels.join("-and-")}-steps-${cut.from}-to-${cut.to}.webm`, blob }];
  },
  async html(menu) {
    const { packet, step, depth } = menu.player;
    const page = standalone(packet, { step, depth: depth.shown }, await embeddedFonts());
    return [{ name: menu.named("html"), blob: new Blob([page], { type: "text/html" }) }];
  },
  async trace(menu) {
    const fileOf = ({ trace }, i) => ({ name: `${menu.kernels[i]}.tilescope`, blob: new Blob([trace]) });
    return menu.player.packet.runs.map(fileOf);
  },
};

/** A film of steps from … to, as a Blob; recording takes as long as the film lasts. */
async function filmed(player, { from, to, perSecond, type, signal, progress }) {
  const first = takePicture(player.section);
  const canvas = blankFor(first, 1, 2);                    // codecs need even sides
  const ctx = canvas.getContext("2d");
  const stream = canvas.captureStream(0);
  const [track] = stream.getVideoTracks();
  const recorder = new MediaRecorder(stream, { mimeType: type, videoBitsPerSecond: FILM_BITS_PER_SECOND });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const ended = new Promise((resolve, reject) => {
    recorder.onstop = resolve;
    recorder.onerror = ({ error }) => reject(error ?? new Error("the browser's recorder failed"));
  });
  const shoot = () => {
    paintPicture(takePicture(player.section), ctx);
    track.requestFrame();
  };
  let begun = false;
  recorder.onstart = () => (begun = true);
  recorder.start();
  try {
    for (let waited = 0; !begun; waited += FIRST_FRAME_MS) { // it starts with a frame, and may miss the first
      signal.throwIfAborted();
      if (waited > START_MS) throw new Error("the browser's recorder did not start");
      shoot();
      await later(FIRST_FRAME_MS);
    }
    for (let step = from; step <= to; step++) {
      signal.throwIfAborted();
      player.go(step);
      shoot();
      progress(step - from + 1);
      await later(1000 / perSecond);
    }
    shoot();                                               // the last step lasts as long as the others
    await later(ENCODING_MS);
  } finally {
    if (recorder.state !== "inactive") recorder.stop();
  }
  await ended;
  const film = new Blob(parts, { type: "video/webm" });
  if (film.size < EMPTY_FILM_BYTES) throw new Error("the browser recorded no frames");
  return film;
}

const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** An empty canvas for a picture, its context in the picture's coordinates. */
function blankFor({ width, height }, scale, multiple = 1) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil((width * scale) / multiple) * multiple;
  canvas.height = Math.ceil((height * scale) / multiple) * multiple;
  canvas.getContext("2d").scale(scale, scale);
  return canvas;
}

/** The run as one HTML file that opens at a place, {step, depth}; explain/player/export.py makes the same. */
function standalone(packet, place, fonts) {
  const title = `${packet.runs.map(({ view }) => view.title).join(" · ")} · Tilescope`;
  const filling = {
    fonts,
    title: title.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
    packet: base64(packetBytes(packet, place)),
    parts: JSON.stringify(PARTS).replaceAll("<", "\\u003c"),
    player: tilescope.toString(),
  };
  return PARTS.page.replace(/\{\{(\w+)\}\}/g, (_, name) => filling[name]);
}

/** The packet's bytes for an exported page. */
function packetBytes({ runs, ...head }, { step, depth }) {
  const described = runs.map(({ trace, glossary, terms, ...run }) => run); // the player added the words to each
  const alone = { ...head, place: null, step, depth, query: null, height: null, runs: described };
  const text = new TextEncoder().encode(JSON.stringify(alone));
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, text.length, true);
  const parts = [new Uint8Array(length.buffer), text, ...runs.map(({ trace }) => trace)];
  const out = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  parts.reduce((at, part) => (out.set(part, at), at + part.length), 0);
  return out;
}

function base64(data) {
  const parts = [];
  for (let at = 0; at < data.length; at += 0x8000) parts.push(String.fromCharCode(...data.subarray(at, at + 0x8000)));
  return btoa(parts.join(""));
}

function offer(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_MS);
}
