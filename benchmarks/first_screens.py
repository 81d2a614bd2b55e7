"""What a page's first screen asks of a newcomer: unexplained words, numbers, and presses until the first insight.

    python -m benchmarks.first_screens --out benchmarks/results/first_screens.json
    python -m benchmarks.first_screens --address http://127.0.0.1:5173/ [--explained "Embedding, MLP"] [--click TEXT]

docs/newcomers.md has the rules. The first form counts this app, in headless Chrome or Chromium at 1440 × 900. The
second counts any page; `--explained` names the terms that its screen explains, `--click` is pressed first.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, ViewportSize

from benchmarks.report import chrome, finish, parser_of
from explain import ROOT, tours
from explain.beats import beats
from explain.engine import engine
from explain.experiment import Experiment
from explain.glossary import TERMS
from explain.trace.model import numbers
from tests.e2e.server import running_app

VIEWPORT: ViewportSize = {"width": 1440, "height": 900}
SETTLED_S = 2.0
"""After the page is ready, and after a press."""
MOST_PRESSES = 30
ALIGNED_PX = 3.0
SCRIPT = (ROOT / "benchmarks" / "first_screens.js").read_text(encoding="utf-8")

MORE_TERMS = (
    "transformer", "transformer block", "embedding", "tok embed", "pos embed", "positional encoding", "MLP",
    "multi-layer perceptron", "feed forward", "projection", "layer norm", "layer normalization", "self-attention",
    "self attention", "multi-head", "causal", "residual", "dropout", "sampling", "top-p", "probabilities", "LLM",
    "large language model", "vocabulary", "dot product", "architecture", "chip", "Triton", "FlashAttention",
    "FlashAttention-2", "standard attention", "token index", "n_params", "keys", "values", "loop order",
)  # fmt: skip
"""Terms of the counted screens that are not in the glossary."""
KNOWN = ("fp32", "float32", "float64", "NaN", "−∞", "rounding", "step", "formula", "hardware", "recorded", "trace")
"""Terms of the glossary that whoever uses PyTorch knows, or that are plain words."""
SYMBOLS = (*"QKVSPOTNLdmqkvsox", "QK", "QKT", "ℓ", "α", "P̃", "Õ", "BLOCK_M", "BLOCK_N", "d_k", "Out")
"""They count where they stand alone, in this case."""
CALL = re.compile(r"(?<![\w.])(?:tl|triton)(?:\.[a-z_]\w*)+")
"""A function of Triton in code is a word."""
NUMERAL = re.compile(
    r"\d{4}-\d\d-\d\d|\d+:\d\d|"  # a date, a time
    r"(?<![\w.,])(?<![A-Za-z][-‑])[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[−-]?\d+)?(?!\w)"  # 5.072, −0.3, 33,024
    r"|(?<!\w)\d+(?=[A-Za-z]B?\b)"  # 600MB
)


@dataclass(frozen=True)
class Text:
    """A piece of text in sight: where it stands, in pixels, and whether a definition, hover or link explains it."""

    text: str
    x: float
    y: float
    right: float
    explained: bool


def numerals(texts: Sequence[Text]) -> list[str]:
    """The numerals in sight; the ticks of one axis count once ("0 … 5"), and so do the line numbers of one listing."""
    ticks = [text for text in texts if NUMERAL.fullmatch(text.text)]
    others = [text for text in texts if not NUMERAL.fullmatch(text.text)]
    found = [numeral for text in others for numeral in NUMERAL.findall(text.text)]
    edges: Sequence[Callable[[Text], float]] = (
        lambda tick: tick.x,
        lambda tick: tick.right,
        lambda tick: (tick.x + tick.right) / 2,
        lambda tick: tick.y,
    )
    for edge in edges:
        groups: dict[int, list[Text]] = defaultdict(list)
        for tick in ticks:
            groups[round(edge(tick) / ALIGNED_PX)].append(tick)
        for group in groups.values():
            if _is_axis(group):
                found.append(f"{group[0].text} … {group[-1].text}")
                ticks = [tick for tick in ticks if tick not in group]
    return found + [tick.text for tick in ticks]


def _is_axis(ticks: Sequence[Text]) -> bool:
    """Whether three or more numerals rise or fall by one difference or ratio, or five or more count upwards."""
    if len(ticks) < 3:
        return False
    if any(re.search("[-:]", tick.text[1:]) for tick in ticks):
        return False
    placed = sorted(ticks, key=lambda tick: (round(tick.y / ALIGNED_PX), tick.x))
    values = np.array([float(tick.text.replace("−", "-").replace(",", "")) for tick in placed])
    differences = np.diff(values)
    if len(values) >= 5 and (differences > 0).all() and (values == values.round()).all():
        return True
    if np.allclose(differences, differences[0]):
        return bool(differences[0])
    return bool((values > 0).all() and np.allclose(ratios := values[1:] / values[:-1], ratios[0]))


def terms(texts: Iterable[Text], explained: Iterable[str] = ()) -> tuple[set[str], set[str]]:
    """The technical terms in sight, and those of them that nothing in sight explains; plurals count with singulars."""
    seen: set[str] = set()
    told = {_plain(word) for word in explained}
    for text in texts:
        here = {_plain(found[0]) for found in _terms().finditer(text.text)} | set(CALL.findall(text.text))
        here |= {found[0] for found in _symbols().finditer(text.text)}
        seen |= here
        if text.explained:
            told |= here
    return seen, seen - told


def _plain(term: str) -> str:
    """A term without its plural and its capitals; a symbol as it is."""
    if term in SYMBOLS:
        return term
    lower = term.casefold()
    irregular = {"queries": "query", "probabilities": "probabilities"}
    return irregular.get(lower, lower[:-1] if lower.endswith("s") and not lower.endswith("ss") else lower)


def _terms() -> re.Pattern[str]:
    spelled = {word.strip("*") for term in TERMS for word in term.spellings} - {*SYMBOLS, *KNOWN}
    words = sorted(map(re.escape, {*spelled, *MORE_TERMS}), key=len, reverse=True)
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(words)})s?(?![\w-])", re.IGNORECASE)


def _symbols() -> re.Pattern[str]:
    words = sorted(map(re.escape, SYMBOLS), key=len, reverse=True)
    return re.compile(rf"(?<![\w.'’-])(?:{'|'.join(words)})(?![\w'’̃])")


def looked_at(page: Page) -> list[Text]:
    """What is in sight of the page now."""
    return [Text(**one) for one in page.evaluate(f"() => {{ {SCRIPT}; return inSight(); }}")]


def counted(page: Page, explained: Iterable[str] = ()) -> dict[str, Any]:
    """The counts of the page as it stands."""
    texts = looked_at(page)
    seen, unexplained = terms(texts, explained)
    return {
        "terms": len(seen),
        "unexplained": len(unexplained),
        "which": sorted(unexplained),
        "numbers": len(found := numerals(texts)),
        "numerals": found,
    }


@dataclass(frozen=True)
class Screen:
    """A page of ours: its address, the terms that its text explains, each by words in sight, and how to its insight."""

    name: str
    address: str
    explained: Sequence[str] = ()
    insight: Callable[[Page], int] | None = None


def in_the_opening(page: Page) -> int:
    """Waits until the opening says that the old sum shrinks; it plays by itself."""
    page.locator("[data-testid=opening][data-scene=larger]").wait_for(timeout=90_000)
    return 0


def at_once(_: Page) -> int:
    """The page opens on it: what attention does, with a computed example."""
    return 0


def by_the_tour(chapter: str) -> Callable[[Page], int]:
    """Presses → until the tour stands where an α below 1 shrinks the old sum."""

    def press(page: Page) -> int:
        shrinking = _shrinking(tours.of(chapter)[0].runs[0])
        player = page.get_by_test_id("player")
        forward = player.locator(".tour [data-do=next]")
        for presses in range(MOST_PRESSES):
            if int(player.get_attribute("data-step") or -1) in shrinking:
                return presses
            forward.click()
            page.wait_for_timeout(300)
        raise RuntimeError(f"{page.url} shows no shrinking sum after {MOST_PRESSES} presses")

    return press


def _shrinking(lesson: Experiment) -> set[int]:
    trace, roles = engine().trace(lesson).trace, lesson.entry.roles
    steps: set[int] = set()
    for beat in beats(trace, roles):
        if beat.kind == "rescale" and beat.tile > 0:
            alpha = numbers(trace.state(beat.end - 1)[roles["rescale"]])
            if ((alpha > 0) & (alpha < 1)).any():
                steps |= set(range(beat.begin, beat.end + 1))
    return steps


def count(browser: Browser, url: str, screen: Screen) -> dict[str, Any]:
    """A page of ours, as it opens and at its first insight."""
    page = browser.new_page(viewport=VIEWPORT)
    page.add_init_script(f"{SCRIPT}; install();")
    page.goto(f"{url}/{screen.address}")
    page.locator("[data-testid=player][data-step], [data-testid=opening][data-time]").first.wait_for(timeout=90_000)
    if screen.insight is not in_the_opening:
        page.wait_for_timeout(SETTLED_S * 1000)
    result: dict[str, Any] = {"screen": screen.name, "opens": counted(page, screen.explained)}
    if screen.insight:
        presses = screen.insight(page)
        result["presses"] = presses
        if screen.insight is in_the_opening:  # by its own clock: it takes the same time on every machine
            result["seconds"] = float(page.get_by_test_id("opening").get_attribute("data-time") or "nan")
        page.wait_for_timeout(SETTLED_S * 1000)
        result["at the insight"] = counted(page, screen.explained)
    page.close()
    return result


def count_other(browser: Browser, options: argparse.Namespace) -> dict[str, Any]:
    """The page at an address, after the presses that the arguments name."""
    page = browser.new_page(viewport=VIEWPORT)
    page.add_init_script(f"{SCRIPT}; install();")
    page.goto(options.address)
    page.wait_for_timeout(options.wait * 1000)
    for text in options.click:
        page.get_by_text(text, exact=True).first.click()
        page.wait_for_timeout(SETTLED_S * 1000)
    for key in options.press:
        page.keyboard.press(key)
        page.wait_for_timeout(SETTLED_S * 1000)
    return counted(page, [word.strip() for word in options.explained.split(",")])


SCREENS = (
    Screen("Home", "", insight=in_the_opening),
    Screen("Attention in ten minutes", "attention", ("q", "k", "v", "o", "d", "N"), at_once),
    Screen("Your first Triton kernel", "first_kernel"),
    Screen("Online softmax", "online_softmax", insight=by_the_tour("online_softmax")),
    Screen("FlashAttention", "flash_attention", insight=by_the_tour("flash_attention")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts the screens and prints them as JSON."""
    parser = parser_of(__doc__)
    parser.add_argument("--address", help="count this page instead")
    parser.add_argument("--explained", default="", help="terms that its screen explains, separated by commas")
    parser.add_argument("--click", action="append", default=[], help="text to click first; may be repeated")
    parser.add_argument("--press", action="append", default=[], help="key to press then; may be repeated")
    parser.add_argument("--wait", type=float, default=10.0, help="seconds until the page has opened")
    options = parser.parse_args(arguments)
    with chrome("--enable-unsafe-swiftshader") as browser:
        if options.address:
            print(json.dumps(count_other(browser, options), indent=2, ensure_ascii=False))
            return 0
        with running_app() as server:
            screens = [count(browser, server.url, screen) for screen in SCREENS]
    result = {
        "what": "technical terms and numerals in sight at 1440 × 900, and presses until the first insight",
        "screens": screens,
    }
    return finish(result, "app", options.out)


if __name__ == "__main__":
    sys.exit(main())
