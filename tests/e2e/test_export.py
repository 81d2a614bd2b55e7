"""What the Export menu and the command line hand over: a page that needs no server, pictures, a film, the trace."""

from __future__ import annotations

import json
import re
import struct
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from playwright.sync_api import Page, expect

from explain import cli, lessons, recordings
from explain.figures import palette
from explain.player.component import Run
from explain.player.export import standalone_html
from explain.player.view import view
from explain.trace.file import TraceFile
from tests.e2e.conftest import CODE_READER, PATIENCE_MS

SVG = "{http://www.w3.org/2000/svg}"


def run_of(experiment):
    run = TraceFile(recordings.path_of(experiment).read_bytes())
    return Run(run, view(experiment, run.trace, "recorded"))


@pytest.fixture(scope="module")
def tab_offline(browser) -> Iterator[tuple[Page, list[str]]]:
    """A page with the network off, and what it asked for beside its file and complained of."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(CODE_READER)
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "blob:", "data:")) else faults.append(r.url))
    yield page, faults
    context.close()


@pytest.fixture
def offline(tab_offline) -> Iterator[Page]:
    """A page with the network off; the test fails if it asked for anything but the file, or complained."""
    page, faults = tab_offline
    faults.clear()
    page.emulate_media(color_scheme="light")
    yield page
    assert not faults, "\n".join(faults)


@pytest.fixture
def opened(offline, tmp_path):
    """opened(*experiments, step): their page, exported by Python and opened from disk."""

    def opened(*experiments, step=0) -> Page:
        path = tmp_path / "lecture.html"
        path.write_text(standalone_html([run_of(experiment) for experiment in experiments], step), encoding="utf-8")
        offline.goto(path.as_uri())
        expect(offline.get_by_test_id("player")).to_have_attribute("data-step", str(step))
        return offline

    return opened


def saved(page, button, folder) -> Path:
    """The file that a button of the Export menu hands over."""
    if not page.locator(".ways").is_visible():
        page.locator("summary", has_text="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    expect(page.locator(".ways [role=status]")).to_contain_text(f"Saved {path.name}")
    return path


def packet(html) -> tuple[dict[str, Any], bytes]:
    text = re.search(r'<script id="packet" type="text/plain">([^<]*)<', html)
    assert text
    whole = b64decode(text[1])
    (length,) = struct.unpack_from("<I", whole)
    return json.loads(whole[4 : 4 + length]), whole[4 + length :]


def test_the_page_steps_from_disk_without_a_network(opened):
    page = opened(lessons.OPENING, step=95)
    player = page.get_by_test_id("player")
    player.focus()
    expect(page).to_have_title("FlashAttention-2 forward · Tilescope")
    for key, step in [("ArrowRight", 96), ("ArrowLeft", 95), ("End", 371), ("Home", 0)]:
        page.keyboard.press(key)
        expect(player).to_have_attribute("data-step", str(step))
    expect(player).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="dark")
    expect(player).to_have_attribute("data-theme", "dark")
    ground = tuple(bytes.fromhex(palette.GROUNDS["ground"][1][1:]))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb{ground}"


def test_two_runs_fit_one_page(opened):
    page = opened(lessons.wrong_twin(lessons.ONLINE), lessons.ONLINE)
    page.get_by_test_id("player").focus()
    page.keyboard.press("End")
    sums = page.locator(".output").evaluate_all("all => all.map(e => Number(e.dataset.sum))")
    assert sums == pytest.approx([3, 1], rel=1e-6)


def test_the_browser_and_python_make_the_same_page(opened, tmp_path):
    page = opened(lessons.OPENING, step=7)
    page.keyboard.press("ArrowRight")
    made = saved(page, "The whole run as HTML", tmp_path)
    assert made.name == "flash_attention-step-8.html"
    assert made.read_text(encoding="utf-8") == standalone_html([run_of(lessons.OPENING)], 8)


def test_an_exported_page_asks_for_nothing():
    html = standalone_html([run_of(lessons.ONLINE)])
    head, traces = packet(html)
    assert (head["step"], head["query"], head["height"]) == (0, None, None)
    assert traces == run_of(lessons.ONLINE).trace.data
    assert "default-src 'none'" in html
    assert not re.search(r"<link|<script[^>]* src|@import|url\((?!#|.data:font|.\$\{)", html.replace(" url(#${", ""))


def pixels(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    length, kind = struct.unpack_from(">I4s", png, 8)
    assert kind == b"IHDR"
    (check,) = struct.unpack_from(">I", png, 16 + length)
    assert crc32(png[12 : 16 + length]) == check
    return struct.unpack_from(">II", png, 16)


def test_a_picture_shows_what_the_screen_shows(opened, tmp_path):
    page = opened(lessons.OPENING, step=160)
    made = saved(page, "This step as PNG", tmp_path)
    assert made.name == "flash_attention-step-160.png"
    width, height = pixels(made.read_bytes())
    frame = page.get_by_test_id("player").bounding_box()
    assert frame is not None
    assert (width, height) == pytest.approx((2 * (frame["width"] + 28), 2 * (frame["height"] + 28)), abs=2)
    # Beside the screen itself, without the menu, which is not part of a picture: nearly every pixel is as it is there.
    page.keyboard.press("Escape")
    page.evaluate("document.querySelector('#tilescope').shadowRoot.querySelector('.tools').style.visibility = 'hidden'")
    screen = page.get_by_test_id("player").screenshot()
    page.evaluate("document.activeElement.blur()")
    alike = page.evaluate(
        """async ([picture, screen]) => {
          const load = async (bytes) => createImageBitmap(new Blob([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))]));
          const [a, b] = [await load(picture), await load(screen)];
          const read = (image, inset) => {
            const canvas = new OffscreenCanvas(b.width, b.height), ctx = canvas.getContext("2d");
            ctx.drawImage(image, inset, inset, image.width - 2 * inset, image.height - 2 * inset, 0, 0, b.width, b.height);
            return ctx.getImageData(0, 0, b.width, b.height).data;
          };
          const [p, q] = [read(a, 28), read(b, 0)];
          let same = 0, inked = 0;
          for (let i = 0; i < p.length; i += 4) {
            if (Math.abs(p[i] - q[i]) + Math.abs(p[i + 1] - q[i + 1]) + Math.abs(p[i + 2] - q[i + 2]) < 96) same++;
            if (p[i] + p[i + 1] + p[i + 2] < 600) inked++;
          }
          return [same / (p.length / 4), inked / (p.length / 4)];
        }""",
        [_base64(made.read_bytes()), _base64(screen)],
    )
    assert alike[0] > 0.95, alike
    assert alike[1] > 0.02, alike  # not blank


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()


def test_a_drawing_holds_its_text_as_text(opened, tmp_path):
    page = opened(lessons.OPENING, step=160)
    made = saved(page, "This step as SVG", tmp_path)
    drawing = ET.parse(made).getroot()
    texts = " ".join(text.text or "" for text in drawing.iter(f"{SVG}text"))
    for words in (
        "FlashAttention-2 forward",
        "flash_attention_kernel",
        "step 160 of 371",
        page.locator(".words").inner_text(),
    ):
        assert words in texts, words
    images = [image.get("href") or "" for image in drawing.iter(f"{SVG}image")]
    assert len(images) >= 4
    assert all(image.startswith("data:image/png;base64,") for image in images)
    assert not list(drawing.iter(f"{SVG}foreignObject"))


def test_a_film_goes_from_step_to_step_and_comes_back(opened, tmp_path):
    page = opened(lessons.ONLINE, step=10)
    page.locator("summary", has_text="Export").click()
    page.get_by_label("First step of the film").fill("3")
    page.get_by_label("Last step of the film").fill("6")
    page.get_by_label("Pace of the film").select_option("8")
    made = saved(page, "Film of the steps", tmp_path)
    assert made.name == "softmax_online-steps-3-to-6.webm"
    assert made.read_bytes()[:4] == b"\x1a\x45\xdf\xa3"  # EBML
    width, height, seconds = page.evaluate(
        """async (film) => {
          const video = document.createElement("video");
          video.src = URL.createObjectURL(new Blob([Uint8Array.from(atob(film), (c) => c.charCodeAt(0))]));
          await new Promise((resolve, reject) => ((video.onloadeddata = resolve), (video.onerror = reject)));
          video.currentTime = 1e6;
          await new Promise((resolve) => (video.onseeked = resolve));
          return [video.videoWidth, video.videoHeight, video.currentTime];
        }""",
        _base64(made.read_bytes()),
    )
    frame = page.get_by_test_id("player").bounding_box()
    assert frame is not None
    assert (width, height) == pytest.approx((frame["width"] + 28, frame["height"] + 28), abs=3)
    assert 0.3 < seconds < 20  # four steps at eight a second, and what a busy machine adds
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", "10")


def test_a_film_can_be_cancelled_and_its_steps_are_checked(opened):
    page = opened(lessons.ONLINE)
    page.locator("summary", has_text="Export").click()
    status = page.locator(".ways [role=status]")
    for first, last, words in [("9", "3", "9 to 3"), ("0", "50", "from 0 to 49")]:
        page.get_by_label("First step of the film").fill(first)
        page.get_by_label("Last step of the film").fill(last)
        page.get_by_role("button", name="Film of the steps").click()
        expect(status).to_contain_text(words)
    page.get_by_label("First step of the film").fill("0")
    page.get_by_label("Last step of the film").fill("49")
    page.get_by_role("button", name="Film of the steps").click()
    expect(page.locator("progress")).to_be_visible()
    page.get_by_role("button", name="Cancel the film").click()
    expect(page.locator("progress")).to_be_hidden()
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", "0")


def test_the_trace_file_is_the_recorded_one(opened, tmp_path):
    made = saved(opened(lessons.ONLINE), "The trace file", tmp_path)
    assert made.name == "softmax_online.tilescope"
    assert made.read_bytes() == run_of(lessons.ONLINE).trace.data


def test_keys_in_the_menu_are_not_the_players_and_escape_closes_it(opened):
    page = opened(lessons.ONLINE)
    summary = page.locator("summary", has_text="Export")
    summary.focus()
    page.keyboard.press("Space")
    expect(page.locator(".ways")).to_be_visible()
    page.get_by_label("First step of the film").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", "0")
    page.keyboard.press("Escape")
    expect(page.locator(".ways")).to_be_hidden()
    expect(summary).to_be_focused()


def test_the_command_line_exports_a_kernel_or_a_trace_file(offline, tmp_path, capsys):
    page_file, trace_copy, again = (tmp_path / name for name in ("a.html", "b.tilescope", "c.html"))
    row = ["--set", "rows=1", "--set", "block_n=2", "--inputs", "notebook"]
    assert cli.main(["export", "softmax_online", *row, "--step", "20", "--out", str(page_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 20
    assert cli.main(["export", "softmax_online", *row, "--out", str(trace_copy)]) == 0
    assert cli.main(["export", str(trace_copy), "--step", "20", "--out", str(again)]) == 0
    assert again.read_text(encoding="utf-8") == page_file.read_text(encoding="utf-8")
    offline.goto(page_file.as_uri())
    expect(offline.get_by_test_id("player")).to_have_attribute("data-step", "20")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["no_such", "--out", "x.html"], "target=no_such"),
        ([__file__, "--out", "x.html"], "cannot be read: not a trace file"),
        (["softmax_online", "--out", "x.mp4"], "--out=x.mp4: must end in .html or .tilescope"),
        (["softmax_online", "--out", "/no/such/folder/x.html"], "--out=/no/such/folder/x.html"),
        (["softmax_online", "--step", "9999", "--out", "x.html"], "--step=9999: must be a whole number from 0 to"),
        (["softmax_online", "--step", "-1", "--out", "x.html"], "--step=-1"),
    ],
)
def test_what_cannot_be_exported_is_named(words, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", *words]) == 2
    assert named in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
