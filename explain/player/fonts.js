// The app's fonts, to take along: a page that opens from disk and a picture have no server to ask for them.

const OURS = ["Source Sans", "Source Code Pro", "Tilescope Formulas", "Tilescope Symbols"];

/** The page's @font-face rules of the app's fonts as CSS, each with its file in it; with `used`, of those that the
 * page has drawn with. */
export async function embeddedFonts(used = false) {
  const loaded = new Set([...document.fonts].filter(({ status }) => status === "loaded").map(({ family }) =>
    family.replaceAll(/["']/g, "")));
  const rules = [...document.styleSheets].flatMap((sheet) =>
    [...sheet.cssRules].map((rule) => [rule, sheet.href ?? document.baseURI]));
  const wanted = OURS.filter((family) => !used || loaded.has(family));
  const ours = rules.filter(([rule]) => rule instanceof CSSFontFaceRule && rule.style.fontStyle !== "italic"
    && wanted.includes(familyOf(rule)));
  return (await Promise.all(ours.map(embedded))).join("\n");
}

async function embedded([rule, base]) {
  const url = rule.style.src.match(/url\("?([^")]+)"?\)/)[1];
  const file = url.startsWith("data:") ? url : await dataUrl(new URL(url, base));
  const weight = rule.style.fontWeight || "normal";
  return `@font-face { font-family: "${familyOf(rule)}"; font-weight: ${weight}; src: url("${file}") }`;
}

const familyOf = (rule) => rule.style.fontFamily.replaceAll(/["']/g, "");

async function dataUrl(url) {
  // It was loaded to be seen: needs no connection.
  const answer = await fetch(url, { cache: "force-cache" });
  if (!answer.ok) throw new Error(`the server has no font at ${url.pathname}`);
  const reader = new FileReader();
  const read = new Promise((resolve) => (reader.onload = resolve));
  reader.readAsDataURL(new Blob([await answer.arrayBuffer()], { type: "font/woff2" }));
  await read;
  return reader.result;
}
