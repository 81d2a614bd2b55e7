"""Tours: every chapter's is found in its run; a file that cannot be used is named, with what is allowed."""

from __future__ import annotations

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from explain import contents, lessons, tours
from explain.chapters.cross_entropy.view import KERNEL_OF
from explain.chapters.side_by_side.pairs import PAIRS
from explain.chapters.triton_ladder.ladder import RUNGS
from explain.chapters.what_breaks.divergence import compared
from explain.experiment import Experiment
from explain.player.files import text
from explain.trace.model import numbers
from explain.ui.stepper import lesson, toured
from kernels.museum import EXHIBITS
from tests.explain.test_player_wrapper import unpacked
from tests.pages import opened, page

SHIPPED = tours.shipped()
FIRST = {tour.chapter: tour for tour in reversed(SHIPPED)}
MINE = """
title = "Mine"
chapter = "online_softmax"
[[run]]
kernel = "softmax_online"
inputs = "notebook"
rows = 1
block_n = 1
[[caption]]
at = "second rescale"
text = "{l_i before} × {alpha} + {sum p} = {l_i}"
say = "Say this."
minutes = 2
row = 0
watch = "l_i"
"""


def opened_on() -> dict[str, list[list[Experiment]]]:
    """What each chapter's players open on, view by view."""
    return {
        "first_kernel": [[lessons.VECTORS]],
        "softmax": [[lessons.naive_twin(lessons.SAFE), lessons.SAFE]],
        "memory_hierarchy": [[lessons.STANDARD]],
        "attention": [[lessons.ONE_TILE]],
        "online_softmax": [
            [lessons.element_by_element(lessons.ONLINE)],
            [lessons.ONLINE],
            [lessons.wrong_twin(lessons.ONLINE), lessons.ONLINE],
            [lessons.ROWS],
            [lessons.MERGED],
            [lessons.added_twin(lessons.MERGED), lessons.MERGED],
            [lessons.TOPK],
        ],
        "flash_attention": [[lessons.OPENING], [lessons.first_order(lessons.OPENING), lessons.OPENING]],
        "triton_ladder": [[rung.experiment(lessons.ONLINE)] for rung in RUNGS],
        "what_breaks": [[*compared(exhibit)] for exhibit in EXHIBITS.values()],
        "side_by_side": [[pair.left, pair.right] for pair in PAIRS],
        "three_numbers": [[lessons.SHORT]],
        "backward": [
            [lessons.BACKWARD],
            [lessons.summed_by_atomics(lessons.BACKWARD)],
            [lessons.with_p_kept(lessons.BACKWARD)],
        ],
        "decoding": [[lessons.DECODED], [lessons.VERIFIED, lessons.top_left(lessons.VERIFIED)]],
        "cross_entropy": [[lessons.LOSS.through(kernel)] for kernel in KERNEL_OF.values()],
    }


@pytest.mark.parametrize(
    "tour", [one for one in tours.shipped() if one.chapter != "what_breaks"], ids=lambda one: one.file
)
def test_a_tour_does_not_go_back_in_time(tour):
    """What breaks goes from an effect back to its cause."""
    captions = toured(tour)["captions"]
    for run in range(len(tour.runs)):
        steps = [one["step"] for one in captions if one["run"] == run]
        assert steps == sorted(steps)


def test_every_view_with_a_player_begins_with_a_tour():
    for chapter, views in opened_on().items():
        assert all(tours.through(runs, chapter) for runs in views), chapter
        assert tours.through(views[0], chapter) == FIRST[chapter]
    assert opened_on().keys() == FIRST.keys()


@pytest.mark.parametrize("tour", SHIPPED, ids=lambda tour: f"{tour.chapter}/{tour.file}")
def test_a_chapters_tour_is_found_in_its_run(tour):
    assert 6 <= len(tour.captions) <= 10
    assert tour.chapter in {page.stem for page in contents.pages()}
    traces = [lesson(experiment.key)[1] for experiment in tour.runs]
    found = toured(tour)["captions"]
    for caption in found:
        assert 0 <= caption["step"] < traces[caption["run"]].steps
        assert "{" not in caption["text"]
        assert caption["say"]
        assert caption["panels"] if caption["depth"] == "code" else not caption["panels"]
    shown = {(caption["run"], caption["step"], caption["depth"]) for caption in found}
    assert len(shown) == len(found), "no caption shows what another shows"


def player_of(test: AppTest) -> bytes:
    """The packet of the page's player: the one component that gets bytes."""
    return next(packet for one in test.get("bidi_component") if (packet := one.proto.bytes))


@pytest.mark.parametrize("tour", FIRST.values(), ids=FIRST)
def test_a_link_opens_a_chapters_tour_at_its_caption(tour):
    head, _ = unpacked(player_of(page(tour.chapter, caption="2")))
    assert {name: head["tour"][name] for name in toured(tour)} == toured(tour)
    assert (head["caption"], head["step"]) == (2, None)


def test_the_panels_are_the_players():
    names = re.search(r"const PANEL_NAMES = \{(.*?)\};", text("presenter.js"), re.DOTALL)
    assert names
    assert set(re.findall(r"(\w+): \"", names[1])) - {"idea"} == set(tours.PANELS)


def test_the_numbers_of_a_caption_are_the_runs():
    tour = tours.parse(MINE, "mine.toml")
    (trace,) = (lesson(experiment.key)[1] for experiment in tour.runs)
    (caption,) = tours.resolved(tour, [trace])["captions"]
    before, alpha, added, now = (float(one) for one in re.findall(r"[\d.]+", caption["text"]))
    assert now == pytest.approx(before * alpha + added, rel=1e-3)
    assert numbers(trace.state(caption["step"])["l_i"]) == pytest.approx(now, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('title = "Mine"', "", ("title",)),
        ('title = "Mine"', "title = 3", ("title", "text")),
        ("[[caption]]", "[[captions]]", ("caption",)),
        ('"softmax_online"', '"softmax_onlin"', ("run 1", "softmax_onlin", "softmax_online")),
        ("block_n = 1", "block_m = 1", ("run 1", "block_m", "block_n")),
        ('watch = "l_i"', 'depth = "deep"', ("caption 1", "deep", *tours.DEPTHS)),
        ('watch = "l_i"', 'panels = ["map", "maps"]', ("caption 1", "maps", *tours.PANELS)),
        ('watch = "l_i"', 'side = "right"', ("caption 1", "right", "left")),
        ('watch = "l_i"', 'colour = "red"', ("caption 1", "colour", "watch")),
        ("minutes = 2", "minutes = 200", ("caption 1", "200", "60")),
        ('"{l_i', f'"{"word " * 26}{{l_i', ("caption 1", "25")),
        ("second rescale", "second resale", ("caption 1", "second resale", "rescale", "new_max")),
        ("[[run]]", "[[run", ("TOML",)),
        ("second rescale", "second NaN", ("caption 1", "second NaN")),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_allowed(old, new, named):
    assert old in MINE
    with pytest.raises(tours.TourError) as error:
        tours.parse(MINE.replace(old, new), "mine.toml")
    for word in ("mine.toml", *named):
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("second rescale", "first load of z", ("first load of z",)),
        ("row = 0", "row = 4", ("row=4", "0 to 0")),
        ("row = 0", "column = 3", ("column=3", "columns 1 to 1")),
        ('"l_i"', '"l_j"', ("l_j", "l_i", "loads of x")),
        ("{alpha}", "{beta}", ("{beta}",)),
        ("{alpha}", "{x_ptr}", ("{x_ptr}",)),
    ],
)
def test_what_a_run_does_not_have_is_named(old, new, named):
    tour = tours.parse(MINE.replace(old, new), "mine.toml")
    with pytest.raises(tours.TourError) as error:
        tours.resolved(tour, [lesson(experiment.key)[1] for experiment in tour.runs])
    for word in ("mine.toml", "caption 1", *named):
        assert word in str(error.value)


def test_all_faults_of_a_file_are_told_at_once():
    second = MINE[MINE.index("[[caption]]") :].replace("minutes = 2", 'minutes = "2"')
    wrong = MINE.replace("second rescale", "firts load of x").replace('say = "Say this."', "") + second
    with pytest.raises(tours.TourError) as error:
        tours.parse(wrong.replace("block_n = 1", "block_m = 1"), "mine.toml")
    about = [fault.split(": ")[:2] for fault in error.value.faults]
    assert about[0][0] == "run 1"
    assert about[1:] == [["caption 1", "say is missing"], ["caption 1", "at"], ["caption 2", "minutes='2'"]]
    assert str(error.value).count("mine.toml: ") == len(about)


def test_of_many_faults_the_first_are_told_and_the_others_counted():
    unknown = "\n".join(f"field_{i} = {i}" for i in range(tours.MOST_FAULTS + 5))
    with pytest.raises(tours.TourError) as error:
        tours.parse(unknown + MINE, "mine.toml")
    assert len(error.value.faults) == tours.MOST_FAULTS + 1
    assert error.value.faults[-1] == "5 more"


def test_all_that_a_run_does_not_have_is_told_at_once():
    second = MINE[MINE.index("[[caption]]") :].replace("second rescale", "first load of z")
    tour = tours.parse(MINE.replace('"l_i"', '"l_j"').replace("row = 0", "row = 4") + second, "mine.toml")
    with pytest.raises(tours.TourError) as error:
        toured(tour)
    about = [fault.split(": ")[:2] for fault in error.value.faults]
    assert about == [["caption 1", "watch='l_j'"], ["caption 1", "row=4"], ["caption 2", "at"]]


def test_a_tour_with_other_runs_is_not_played():
    head, _ = unpacked(player_of(page("online_softmax", inputs="ascending")))
    assert "tour" not in head


@pytest.mark.parametrize(
    ("query", "caption", "step", "link"),
    [
        ({"caption": "3"}, 3, None, {}),
        ({"step": "12"}, None, 12, {}),
        ({"caption": "3", "step": "12", "row": "2"}, 3, 12, {"row": "2"}),
        ({"caption": "x", "row": "2"}, 1, None, {}),
    ],
)
def test_a_link_says_where_to_begin(query, caption, step, link):
    head, _ = unpacked(player_of(page("flash_attention", **query)))
    assert (head["caption"], head["step"], head.get("link", {})) == (caption, step, link)
    assert json.dumps(head["tour"])


@pytest.mark.parametrize("stem", [one.stem for one in contents.pages() if one.notes.exists()])
def test_each_run_sheet_is_its_chapters_tour(stem):
    sheet = json.loads(page("notes", chapter=stem).get("bidi_component")[0].proto.json)["sheet"]
    tour = FIRST.get(stem)
    assert sheet["chapter"] == stem
    if tour is None:
        assert sheet["minutes"] == contents.page_of(f"{stem}.py").minutes
        assert all(one["say"] and not one["text"] for one in sheet["captions"])
    else:
        assert [one["say"] for one in sheet["captions"]] == [caption.say for caption in tour.captions]
        assert [one["answer"] for one in sheet["captions"]] == [caption.answer for caption in tour.captions]
        assert sum(one["minutes"] for one in sheet["captions"]) == tour.minutes


@pytest.mark.parametrize("works", [True, False])
def test_an_own_tour_plays_on_its_page_and_in_its_chapter(works, tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(MINE if works else MINE.replace("second rescale", "second resale"))
    monkeypatch.setattr("sys.argv", ["app.py", "--tour", str(path)])
    test, chapter = page("your_tour"), page("online_softmax")
    played, _ = unpacked(chapter.get("bidi_component")[0].proto.bytes)
    head, _ = unpacked(test.get("bidi_component")[0].proto.bytes)
    if works:
        assert not test.error
        assert len(head["tour"]["captions"]) == len(played["tour"]["captions"]) == 1
    else:
        assert "mine.toml" in test.error[0].value
        assert "- Caption 1: at" in test.error[0].value
        assert "Your file was not loaded." in " ".join(words.value for words in test.markdown)
        assert head["tour"]["title"] == played["tour"]["title"] != "Mine"  # the example, with the table of fields
        assert "`minutes`" in " ".join(words.value for words in test.markdown)


def test_the_app_with_a_tour_opens_on_it(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    monkeypatch.setattr("sys.argv", ["app.py", "--tour", str(path)])
    assert opened("main.py").title[0].value == contents.page_of("your_tour.py").title
