"""Every page and view at the widths of a phone, two laptops and a projector, in both themes and under two sets of
system fonts.

What is checked stands in layout.js: no text is cut, two texts never share a place, nothing leaves its picture, contrast
is enough, headings are in order, canvases have names. And no text is drawn with a font of the machine's, no page shows
or logs an error. A page is opened in one theme under DejaVu and in the other under Liberation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, ViewportSize, expect

from explain import contents
from explain.chapters.side_by_side.pairs import PAIRS, Pair
from tests.e2e.conftest import PATIENCE_MS, WITHOUT_FADES, move, watched
from tests.e2e.fonts import NoFontsError, only
from tests.e2e.server import Server
from tests.e2e.waiting import until

CHECKER = Path(__file__).with_name("layout.js")
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, Theme] = ("light", "dark")
Look = tuple[int, Theme]
CHOOSES = ("view", "panel", "read", "rung", "exhibit")
"""The keys of what chooses among a page's views."""
SAME_LAYOUT = ("what_breaks", "triton_ladder")
"""Pages whose exhibits or rungs share one layout: only the first is looked at in every width and theme."""
ONE_FONT_SET = pytest.mark.parametrize("dressed", ["DejaVu"], indirect=True)
"""For what is drawn in the app's own fonts alone, as `test_layout` finds of every page: no other set changes it."""
STEMS = [page.stem for page in contents.pages()]
FAR_DOWN = (
    "attention", "softmax", "online_softmax", "memory_hierarchy", "first_kernel", "triton_ladder", "what_breaks",
    "backward", "three_numbers", "your_kernel", "your_run", "decoding",
)  # fmt: skip
"""Pages that come to their player after other parts: it has a screen of its own."""
WITHIN_WINDOW = """(player, scrolled) => new Promise((resolve) => {
  const box = () => player.getBoundingClientRect(), end = performance.now() + 20_000;
  const look = () => {
    if (scrolled) player.scrollIntoView({ block: "end" });      // again while the page grows
    const within = box().top >= 0 && box().bottom <= innerHeight + 0.5;
    if (within || performance.now() > end) resolve(within ? "" : `from ${box().top} to ${box().bottom} px`);
    else setTimeout(look, 50);                              // a busy browser may draw no frame
  };
  look();
})"""

Fault = dict[str, str]


@pytest.fixture(scope="module")
def dressed(
    request: pytest.FixtureRequest, launch: Callable[..., Browser], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """A browser on a machine that has one family of fonts."""
    if sys.platform != "linux":
        pytest.skip("fonts are chosen by fontconfig on Linux only")
    try:
        environment = only(request.param, tmp_path_factory.mktemp(request.param))
    except NoFontsError as error:
        pytest.fail(str(error), pytrace=False)
    browser = launch(env=environment)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def context(dressed: Browser) -> Iterator[BrowserContext]:
    context = dressed.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(path=CHECKER)
    context.add_init_script(WITHOUT_FADES)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """One tab for all pages: a page that opens in a used tab costs a third of one that opens in a new one."""
    page = context.pages[0] if context.pages else context.new_page()
    if not page.url.startswith(("about:", "file:")):
        page.evaluate("[sessionStorage, localStorage].forEach((storage) => storage.clear())")
    return page


def looks(theme: Theme, other: Theme, view: int, *, same_layout: bool) -> list[Look]:
    """What a page's view is looked at in, where the page was opened in `theme`, 1440 px wide.

    A view begins as the one before it was left. The theme turns where the width stays: plots that are told both at once
    can miss the theme. It moves nothing, so two widths are enough in the other one.
    """
    if view == 0:
        return [(1440, theme), (1920, theme), (1280, theme), (420, theme), (420, other), (1440, other)]
    rest: list[Look] = [(1440, other), (1440, theme), (1920, theme), (1280, theme), (420, theme)]
    if same_layout:
        rest = [(1440, other), (420, other)]
    return rest[:: -1 if view % 2 == 0 else 1]


@ONE_FONT_SET
@pytest.mark.parametrize("stem", STEMS)
def test_layout(page: Page, app: Server, stem: str) -> None:
    # By turns: the page before was left in this theme, and to turn it costs as much as a look.
    theme, other = THEMES[:: 1 if STEMS.index(stem) % 2 == 0 else -1]
    found: list[str] = []
    with opened(page, app, stem, (1440, theme)):
        if place := outside(page, scrolled=stem in FAR_DOWN):
            found.append(f"{stem}: the player is {place}, outside a laptop's window")
        found += [f"{stem} / Code / {width}: {named(fault)}" for width, fault in faults_in_code(page, theme)]
        for number, view in enumerate(views(page)):
            name = " / ".join(filter(None, (stem, view)))
            fonts_at = {1440} if number else {1440, 420}  # a phone shows what is hidden elsewhere
            in_looks = looks(theme, other, number, same_layout=stem in SAME_LAYOUT)
            found += seen(page, name, in_looks, fonts_at=fonts_at)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dressed", ["Liberation"], indirect=True)
@pytest.mark.parametrize("stem", STEMS[::2] + STEMS[1::2])
def test_layout_in_other_fonts(page: Page, app: Server, stem: str) -> None:
    """As a page opens, in the theme that `test_layout` does not open it in; by turns first on a laptop or a phone, as
    the page before was left.
    """
    number = STEMS.index(stem)
    theme = THEMES[1 - number % 2]
    both: list[Look] = [(1440, theme), (420, theme)][:: 1 if number // 2 % 2 == 0 else -1]
    with opened(page, app, stem, both[0]):
        found = seen(page, stem, both, fonts_at={1440, 420})
    assert not found, "\n".join(found)


@contextmanager
def opened(page: Page, app: Server, stem: str, look: Look) -> Iterator[None]:
    """The chapter, opened in a look, and watched."""
    wear(page, look)
    settled(page)  # a window that is no phone's any more has the page draw its plots anew
    with watched(page, app):
        move(page, app, "" if stem == "home" else stem)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        settled(page)
        yield


def seen(page: Page, name: str, looks: list[Look], *, fonts_at: set[int]) -> list[str]:
    """What is wrong with a page in each look; for its fonts it is looked at once in each of these widths."""
    found: list[str] = []
    for look in looks:
        wear(page, look)
        settled(page)
        where = " / ".join([name, *map(str, look)])
        found += [f"{where}: {named(fault)}" for fault in faults(page)]
        if look[0] in fonts_at:
            fonts_at = fonts_at - {look[0]}
            found += [f"{where}: the system's font {font} for “{text}”" for font, text in foreign_fonts(page)]
            found += [f"{where}: {error}" for error in errors(page)]
    return found


def faults_in_code(page: Page, theme: Theme) -> Iterator[tuple[int, Fault]]:
    """The faults of a player that opens at Idea, once it shows all its panels, each with the window's width."""
    idea, code = (page.locator(f".depth:visible [data-depth={depth}]") for depth in ("idea", "code"))
    if not code.count() or code.get_attribute("aria-pressed") == "true":
        return
    code.click()
    for width in (1440, 1920, 1280):
        wear(page, (width, theme))
        settled(page)
        yield from ((width, fault) for fault in faults(page))
    idea.click()


def wear(page: Page, look: Look) -> None:
    """Gives the window a look's width, and the browser its theme."""
    width, theme = look
    size: ViewportSize = {"width": width, "height": 1080 if width == 1920 else 900}
    if page.viewport_size != size:  # one that is set again is laid out again
        page.set_viewport_size(size)
    if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") != (theme == "dark"):
        page.emulate_media(color_scheme=theme)  # one that is given again has every style computed again


def outside(page: Page, *, scrolled: bool) -> str:
    """Where the page's player is if it is not whole within the window, once scrolled to; else nothing."""
    player = page.get_by_test_id("player")
    if not player.count():
        return ""
    found: str = player.evaluate(WITHIN_WINDOW, scrolled)
    return found


def errors(page: Page) -> list[str]:
    """What a page shows of errors: boxes, and players that failed."""
    boxes = page.locator("[data-testid=stException], [data-testid=stAlertContentError], .player .failure:visible")
    unready = page.locator(".player:not([data-testid=player])")
    return boxes.all_inner_texts() + ["a player is not ready"] * unready.count()


@ONE_FONT_SET
def test_the_players_other_faces(page: Page, app: Server) -> None:
    wear(page, (1440, "light"))
    move(page, app, "flash_attention?step=60&depth=code")  # its formula is wider than its panel at full screen
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    found: list[str] = []
    for mode, widths in (("presenter", (1920, 1440)), ("Memory", (1440, 1920))):
        if mode == "presenter":
            player.locator("[data-do=present]").first.click()
            expect(player).to_have_class(re.compile("presenting"))
        else:
            player.press("Escape")
            expect(player).not_to_have_class(re.compile("presenting"))
            player.get_by_role("button", name="Memory", exact=True).click()
        for width in widths:
            wear(page, (width, "light"))
            settled(page)
            if player.locator(".equation .formula").evaluate("box => box.scrollWidth > box.clientWidth"):
                found.append(f"{mode} / {width}: the formula is wider than its panel")
            # The presenter's panels fill the window; the headings above the player are off the screen.
            found += [f"{mode} / {width}: {named(fault)}" for fault in faults(page) if fault["kind"] != "heading"]
    wear(page, (1440, "light"))
    move(page, app, "side_by_side?step=39&depth=code")
    formulas = player.locator(".equation .formula:has(math)")
    expect(formulas).not_to_have_count(0)
    if any(formulas.evaluate_all("boxes => boxes.map(box => box.scrollWidth > box.clientWidth)")):
        found.append("two runs: the formula is wider than its panel")
    assert not found, "\n".join(found)


@ONE_FONT_SET
def test_the_measurements_of_two_gpus(page: Page, app: Server) -> None:
    wear(page, (1440, "light"))
    move(page, app, "measurements")
    page.get_by_role("button", name="H100 · recorded", exact=True).click()
    expect(page.get_by_label("Quantity")).to_be_visible()
    found: list[str] = []
    looked: list[Look] = [
        (1440, "light"),
        (1920, "light"),
        (1280, "light"),
        (420, "light"),
        (420, "dark"),
        (1440, "dark"),
    ]
    for look in looked:
        wear(page, look)
        settled(page)
        found += [f"{look}: {named(fault)}" for fault in faults(page)]
    page.get_by_role("radio", name="Limits of a GPU", exact=True).click()
    expect(page.get_by_role("img", name="measured limits in B/s")).to_be_visible()
    for width in (1440, 1280, 420):
        wear(page, (width, "dark"))
        settled(page)
        found += [f"limits, {width}: {named(fault)}" for fault in faults(page)]
    assert not found, "\n".join(found)


@ONE_FONT_SET
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_two_runs_at_full_screen(page: Page, app: Server, pair: Pair) -> None:
    wear(page, (1440, "light"))
    runs = zip("ab", (pair.left, pair.right), strict=True)
    asked = {f"{side}.{name}": value for side, run in runs for name, value in run.to_query().items()}
    move(page, app, f"side_by_side?{urlencode(asked)}&step=30&depth=code")
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    player.locator("[data-do=present]").first.click()
    expect(player).to_have_class(re.compile("presenting"))
    found: list[str] = []
    for depth in ("code", "idea"):
        expect(player).to_have_attribute("data-depth", depth)
        for look in ((1920, "light"), (1440, "dark"), (420, "light")):
            wear(page, look)
            settled(page)
            found += [f"{depth} / {look}: {named(fault)}" for fault in faults(page) if fault["kind"] != "heading"]
        wear(page, (1440, "light"))
        player.press("i")
    player.press("Escape")
    assert not found, "\n".join(found)


@ONE_FONT_SET
def test_the_keys_of_play_stay_in_sight_where_the_player_is_higher_than_the_window(page: Page, app: Server) -> None:
    page.set_viewport_size({"width": 1440, "height": 700})
    move(page, app, "online_softmax?step=0&depth=code")
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    assert player.evaluate("(player) => player.getBoundingClientRect().bottom > innerHeight")
    expect(player.locator(".buttons [data-do=next]")).to_be_in_viewport(ratio=1)


@ONE_FONT_SET
def test_what_is_taken_home_has_the_apps_fonts(page: Page, app: Server, tmp_path: Path) -> None:
    """The exported lecture, a picture of the player and one of a plot, each opened from disk."""
    wear(page, (1440, "light"))
    move(page, app, "sweeps?witness=formula&image+format=SVG")
    plot = page.get_by_test_id("stPlotlyChart").first
    expect(plot.locator(".main-svg").first).to_be_visible()
    plot.hover()
    taken = [saved(page, plot.locator("[data-title^='Download plot']"), tmp_path)]
    move(page, app, "flash_attention")
    player = page.get_by_test_id("player")
    for what in ("svg", "html"):
        player.locator("summary", has_text="Export").click()
        taken.append(saved(page, player.locator(f"[data-save={what}]"), tmp_path))
        page.keyboard.press("Escape")
    for path in taken:
        page.goto(path.as_uri())
        until(page, "document.fonts.status === 'loaded' && document.fonts.size > 0")
        assert foreign_fonts(page) == [], path.name


def saved(page: Page, button: Locator, folder: Path) -> Path:
    """The file that a button hands over."""
    with page.expect_download() as download:
        button.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def views(page: Page) -> Iterator[str]:
    """Shows each view that the page has, one after the other, and yields its name; "" for a page of one view."""
    group = page.locator(", ".join(f".st-key-{key}" for key in CHOOSES)).first
    if not group.count():
        yield ""
        return
    for option in group.get_by_role("radio").or_(group.get_by_role("button")).all():
        name = (option.get_attribute("data-press") or option.inner_text()).strip()
        option.click()
        page.mouse.move(0, 0)  # what is under the pointer has other colours
        settled(page)
        yield name


def settled(page: Page) -> None:
    """Waits until the page has come to rest; a tab that does not is closed, so the next test has a new one.

    On a busy machine Chromium may draw no frame after a new size, and none ever after.
    """
    if not page.evaluate("window.layoutSettled()"):
        page.close()
        pytest.fail(f"{page.url} does not come to rest")


def faults(page: Page) -> list[Fault]:
    """What is wrong with the page at rest. It may begin to run again after it came to rest: a run of its own has ended."""
    for _ in range(50):
        found: list[Fault] | None = page.evaluate("window.layoutFaults()")
        if found is not None:
            return found
        settled(page)
    pytest.fail(f"{page.url} is run again and again")


def named(fault: Fault) -> str:
    return f"{fault['kind']} “{fault['text']}” ({fault['where']}) {fault['detail']}"


def foreign_fonts(page: Page) -> list[tuple[str, str]]:
    """The fonts that are not the app's, each with a text that is drawn with it.

    Asked of the elements with a character that was not yet drawn in their font (layout.js). Mostly there is none: to
    hand the whole page to DevTools, or all its style sheets, costs more than to lay it out anew.
    """
    client = page.context.new_cdp_session(page)
    fresh = client.send("Runtime.evaluate", {"expression": "window.withNewCharacters()"})["result"]["objectId"]
    of_list = client.send("Runtime.getProperties", {"objectId": fresh, "ownProperties": True})["result"]
    elements = [one["value"]["objectId"] for one in of_list if one["name"].isdecimal()]
    found: dict[str, str] = {}
    if elements:
        for agent in ("DOM", "CSS"):
            client.send(f"{agent}.enable")
        client.send("DOM.getDocument", {"depth": 0})
    for element in elements:
        try:
            node = client.send("DOM.requestNode", {"objectId": element})["nodeId"]
            fonts = client.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        except Error:  # the page has drawn this text anew since
            continue
        for font in fonts:
            if not font["isCustomFont"] and "Emoji" not in font["familyName"]:
                asked = {"objectId": element, "functionDeclaration": "function() { return this.newCharacters; }"}
                text = client.send("Runtime.callFunctionOn", asked)["result"]["value"]
                found.setdefault(font["familyName"], text[:60])
    client.detach()
    return list(found.items())
