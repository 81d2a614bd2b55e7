// A kernel's lines beside the instructions that they became: choose a line and see its instructions, or an instruction
// and see its line.
// data: {first_line, chosen: {line, at}, lines: [[token, …], …], kinds: [{name, fill}],
// codes: [{name, about, instructions: [[text, kind, line, …], …]}]}, a token as the player has it.

const element = (name, properties = {}, children = []) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".listing");
  if (root.shown === data) return;
  root.shown = data;
  let code = data.codes[0], line = data.chosen?.line ?? null, kind = null;

  const bar = element("div", { className: "bar", role: "toolbar", ariaLabel: "What is shown" });
  const lines = element("div", { className: "rows lines", role: "listbox", ariaLabel: "The kernel's lines" });
  const rows = element("div", { className: "rows code", role: "list", ariaLabel: "Instructions" });
  const told = element("p"), about = element("p");
  told.setAttribute("aria-live", "polite");
  root.replaceChildren(bar, element("div", { className: "sides" }, [
    element("div", { className: "side" }, [told, lines]), element("div", { className: "side" }, [about, rows])]));

  const real = () => code.instructions.filter(([, kind]) => data.kinds[kind].name !== "label");
  const wanted = (instruction) => kind === null || instruction[1] === kind;
  const of = (number) => real().filter((instruction) => instruction.slice(2).includes(number));
  const tally = (instructions) => {
    const counts = new Map();
    for (const [, kind] of instructions) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return [...counts].sort(([a], [b]) => a - b);
  };

  function choose(number, scroll) {
    line = line === number ? null : number;
    mark(scroll);
  }

  function mark(scroll) {
    for (const row of lines.children) {
      const own = Number(row.dataset.line) === line;
      row.classList.toggle("chosen", own);
      row.setAttribute("aria-selected", String(own));
      if (own && scroll === "line") row.scrollIntoView({ block: "nearest" });
    }
    let first = null;
    for (const row of rows.children) {
      const own = line !== null && (row.dataset.lines ?? "").split(" ").includes(String(line));
      row.classList.toggle("chosen", own);
      row.classList.toggle("faded", kind !== null && row.dataset.kind !== String(kind));
      if (own && !first && !(kind !== null && row.dataset.kind !== String(kind))) first = row;
    }
    if (first && scroll === "code") reveal(first);
    told.textContent = sentence();
  }

  // Scrolls a column, never the page.
  function reveal(row) {
    const column = row?.parentElement;
    if (column) column.scrollTop += row.getBoundingClientRect().top - column.getBoundingClientRect().top - 40;
  }

  function sentence() {
    if (line === null && kind !== null) {
      const own = real().filter(wanted), from = new Set(own.flatMap((instruction) => instruction.slice(2)));
      const places = from.size ? `, from line${from.size > 1 ? "s" : ""} ${[...from].sort((a, b) => a - b).join(", ")}` : "";
      return `${data.kinds[kind].name}: ${own.length.toLocaleString("en")}${places}.`;
    }
    if (line === null) {
      const without = real().filter((instruction) => instruction.length === 2).length;
      const all = `${real().length.toLocaleString("en")} instructions. Choose a line to see its instructions.`;
      return all + (without ? ` ${without} belong to no line.` : "");
    }
    const own = tally(of(line));
    if (!own.length) return `Line ${line} has no instruction of its own.`;
    return `Line ${line}: ${own.map(([kind, count]) => `${count} × ${data.kinds[kind].name}`).join(", ")}.`;
  }

  function draw() {
    const focused = [...bar.querySelectorAll("button")].findIndex((button) => button.matches(":focus"));
    bar.replaceChildren(
      ...data.codes.map((one) => element("button", {
        textContent: one.name, ariaPressed: String(one === code), onclick: () => { code = one; draw(); },
      })),
      element("span", { className: "gap" }), kinds());
    if (focused >= 0) bar.querySelectorAll("button")[focused]?.focus();
    about.textContent = code.about;
    const counts = data.lines.map((_, at) => of(data.first_line + at).filter(wanted));
    const most = Math.max(1, ...counts.map((own) => own.length));
    lines.replaceChildren(...data.lines.map((tokens, at) => sourceRow(tokens, data.first_line + at, counts[at], most)));
    rows.replaceChildren(...code.instructions.map(codeRow));
    mark();
  }

  function kinds() {
    const found = tally(real());
    if (kind !== null && !found.some(([one]) => one === kind)) kind = null;
    return element("span", { className: "bar kinds", style: "padding: 0" }, found.map(([one, count]) => {
      const swatch = element("i");
      swatch.style.setProperty("--fill", data.kinds[one].fill);
      const title = `Show ${data.kinds[one].name} alone`;
      const onclick = () => {
        kind = kind === one ? null : one;
        line = null;
        draw();
        reveal(rows.querySelector(`[data-kind="${kind}"]`));
      };
      return element("button", { ariaPressed: String(one === kind), title, onclick },
        [swatch, data.kinds[one].name, element("b", { textContent: count.toLocaleString("en") })]);
    }));
  }

  function sourceRow(tokens, number, own, most) {
    const text = element("span", { className: "text" }, tokens.map((token) =>
      typeof token === "string" ? token : element("span", { className: token[0], textContent: token[1] })));
    text.style.setProperty("--indent", `${/^ */.exec(text.textContent)[0].length}ch`);
    const bars = element("u");
    for (const [one, count] of tally(own)) {
      const part = element("s");
      part.style.setProperty("--fill", data.kinds[one].fill);
      part.style.width = `${(5 * count) / most}em`;
      bars.append(part);
    }
    const row = element("div", { className: "row", role: "option" }, [
      element("span", { className: "no", textContent: number }), text,
      element("span", { className: "of" }, own.length ? [bars, own.length.toLocaleString("en")] : [])]);
    row.dataset.line = number;
    if (own.length) {
      row.tabIndex = 0;
      row.onclick = () => choose(number, "code");
    }
    return row;
  }

  function codeRow([text, kind, ...own]) {
    const name = data.kinds[kind].name;
    if (name === "label") {
      const label = element("span", { className: "text", textContent: text });
      return element("div", { className: "row label", role: "listitem" }, ["", label]);
    }
    const [, guard, mnemonic, rest] = /^(@\S+\s+)?(\S+)(.*)$/.exec(text);
    const strong = element("b", { textContent: mnemonic });
    strong.style.setProperty("--fill", data.kinds[kind].fill);
    const row = element("div", { className: "row", role: "listitem", title: `${name}: ${text}` }, [
      element("span", { className: "no", textContent: own.join("|") }),
      element("span", { className: "text" }, [guard ?? "", strong, rest])]);
    row.dataset.lines = own.join(" ");
    row.dataset.kind = kind;
    if (own.length) row.onclick = () => choose(own[0], "line");
    return row;
  }

  lines.onkeydown = (event) => {
    const row = event.target.closest("[tabindex]");
    if (!row) return;
    if (event.key === "Enter" || event.key === " ") row.click();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all = [...lines.querySelectorAll("[tabindex]")];
      const next = all[all.indexOf(row) + (event.key === "ArrowDown" ? 1 : -1)];
      if (!next) return;
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest" });
      line = null;
      choose(Number(next.dataset.line), "code");
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  draw();
  reveal(lines.querySelector(".chosen"));
  reveal(rows.children[data.chosen?.at]);
}
