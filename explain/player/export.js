// Taking it home: this step as a picture, a run of steps as a film, the whole lecture as one HTML file, the trace. All made in the
// browser and handed over as downloads; nothing is asked of a server.

import { embeddedFonts } from "./fonts.js";
import { drawingOf, paintPicture, takePicture } from "./picture.js";
import { grouped } from "./words.js";

const SHARPNESS = 2;                                       // pixels a CSS pixel, at least
const FILM_TYPES = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"];
const FILM_BITS_PER_SECOND = 8e6;
const ENCODING_MS = 400;                                   // for the recorder to take in the last frame
const EMPTY_FILM_BYTES = 1000;                             // a WebM header without a frame is shorter
const KEEP_MS = 60_000;                                    // a download has begun by then

export class ExportMenu {
  /** `player` has packet, section, length, step, playing, go(step) and pause(). */
  constructor(player, signal) {
    this.player = player;
    this.box = player.$(".export");
    this.$ = (selector) => this.box.querySelector(selector);
    const on = (target, type, handler) => target.addEventListener(type, handler, { signal });
    on(this.box, "click", (event) => this.clicked(event.target.closest("button")));
    on(this.box, "toggle", () => this.box.open && this.opened());
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

  opened() {
    const { length, step } = this.player;
    for (const [name, value] of [["from", step + 1], ["to", Math.min(length, step + 40)]]) Object.assign(this.$(`[name=${name}]`), { max: length, value });
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
      this.say("Making it…");
      const files = await SAVE[what](this);
      for (const { name, blob } of files) offer(name, blob);
      this.say(`Saved ${files.map(({ name, blob }) => `${name}, ${grouped(blob.size)} bytes`).join("; ")}.`);
    } catch (error) {
      this.say(error.name === "AbortError" ? "Cancelled." : `It could not be made: ${error.message}`);
    }
  }

  /** The kernels' names, for the names of files. */
  get kernels() {
    return this.player.stories.map((story) => story.view.kernel ?? story.sources[story.trace.source[0]].function);
  }

  named(suffix) {
    return `${this.kernels.join("-and-")}-step-${this.player.step + 1}.${suffix}`;
  }

  /** The film's first and last step, from 0, and how many go by in a second. Throws in words. */
  cut() {
    const { length } = this.player;
    const read = (name) => Number(this.$(`[name=${name}]`).value);
    const from = read("from"), to = read("to");
    if (![from, to].every((step) => Number.isInteger(step) && step >= 1 && step <= length)) throw new Error(`steps go from 1 to ${grouped(length)}`);
    if (from > to) throw new Error("the first step comes after the last");
    return { from: from - 1, to: to - 1, perSecond: read("pace") };
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
    if (!blob) throw new Error("the browser has no room for a picture of this size");
    return [{ name: menu.named("png"), blob }];
  },
  async svg(menu) {
    return [{ name: menu.named("svg"), blob: new Blob([drawingOf(takePicture(menu.player.section), await embeddedFonts(true))], { type: "image/svg+xml" }) }];
  },
  async webm(menu) {
    const cut = menu.cut();
    const blob = await menu.film(cut);
    return [{ name: `${menu.kernels.join("-and-")}-steps-${cut.from + 1}-to-${cut.to + 1}.webm`, blob }];
  },
  async html(menu) {
    return [{ name: menu.named("html"), blob: new Blob([standalone(menu.player.packet, menu.player.step, await embeddedFonts())], { type: "text/html" }) }];
  },
  async trace(menu) {
    return menu.player.packet.runs.map(({ trace }, i) => ({ name: `${menu.kernels[i]}.tilescope`, blob: new Blob([trace]) }));
  },
};

/** A film of steps from … to, as a Blob; recorded as it plays, so it takes as long as it lasts. */
async function filmed(player, { from, to, perSecond, type, signal, progress }) {
  const first = takePicture(player.section);
  const canvas = blankFor(first, 1, 2);                    // codecs want even sides
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
  const begun = new Promise((resolve) => (recorder.onstart = resolve));
  recorder.start();
  shoot();
  await begun;
  try {
    for (let step = from; step <= to; step++) {
      signal.throwIfAborted();
      player.go(step);
      shoot();
      progress(step - from + 1);
      await later(1000 / perSecond);
    }
    shoot();                                               // so that the last step is seen as long as the others
    await later(ENCODING_MS);
  } finally {
    if (recorder.state !== "inactive") recorder.stop();
  }
  await ended;
  const film = new Blob(parts, { type: "video/webm" });
  if (film.size < EMPTY_FILM_BYTES) throw new Error("the browser's recorder gave no frames");
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

/** The lecture as one HTML file that opens on `step`; explain/player/export.py makes the same. */
function standalone(packet, step, fonts) {
  const title = `${packet.runs.map(({ view }) => view.title).join(" · ")} · Tilescope`;
  const filling = {
    fonts,
    title: title.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
    packet: base64(packetBytes(packet, step)),
    parts: JSON.stringify(PARTS).replaceAll("<", "\\u003c"),
    player: tilescope.toString(),
  };
  return PARTS.page.replace(/\{\{(\w+)\}\}/g, (_, name) => filling[name]);
}

/** A packet's bytes again, for a page of its own. */
function packetBytes({ runs, ...head }, step) {
  const described = runs.map(({ trace, glossary, ...run }) => run); // which the player has added to each
  const text = new TextEncoder().encode(JSON.stringify({ ...head, place: null, step, query: null, height: null, runs: described }));
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, text.length, true);
  const parts = [new Uint8Array(length.buffer), text, ...runs.map(({ trace }) => trace)];
  const out = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  parts.reduce((at, part) => (out.set(part, at), at + part.length), 0);
  return out;
}

function base64(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  return btoa(parts.join(""));
}

function offer(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_MS);
}
