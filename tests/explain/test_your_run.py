"""A trace file of the reader's own, on its page: dropped there, or given when the app was started."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

import pytest

import start
from explain import cli, contents, given, lessons, recordings
from explain.chapters.your_kernel import view as your_kernel
from explain.chapters.your_run import cost, findings
from explain.chapters.your_run import given as given_inputs
from explain.chapters.your_run import view as your_run
from explain.experiment import Experiment
from explain.trace import file as trace_file
from explain.trace.checks import checked
from explain.trace.file import TraceFile
from explain.trace.model import Tile
from explain.trace.python_file import record_file
from explain.ui import layout
from tests import pages
from tests.explain.test_player_wrapper import unpacked

PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.device_assert(n == 4)
    tl.store(x_ptr + at, x + 1, mask=at < n)

def main(n=4):
    print("n is", n)
    kernel[(1,)](torch.zeros(8), n, BLOCK=8)

def fails():
    main(5)
"""

WRONG = """import torch, triton, triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.load(y_ptr + at, mask=at < 8, other=0.0)
    tl.store(x_ptr + at, 1.0)

def main():
    kernel[(3,)](torch.zeros(8), torch.zeros(8), B=4)
"""
"""A load that nothing uses, and in the last of three programs a store outside."""

BOTH = """import torch, triton, triton.language as tl
@triton.jit
def kernel(x_ptr, y_ptr, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y_ptr + at, tl.load(x_ptr + at))

def main():
    kernel[(1,)](torch.zeros(8), torch.zeros(8), B=16)
"""
"""A load and a store outside, in one line."""

DOUBLE = """import torch, triton, triton.language as tl
@triton.jit
def double(x_ptr, y_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x + x, mask=at < n)

def main():
    x = torch.tensor({numbers}, dtype=torch.{dtype})
    double[(1,)](x, torch.zeros_like(x), len(x), B={tile})
"""

STOPS = """
import torch, triton, triton.language as tl

@triton.jit
def stops_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    y = x + unknown
    tl.store(y_ptr + lanes, y)

def main():
    stops_kernel[(1,)](torch.randn(16), torch.zeros(16), BLOCK=16)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two traces of a foreign kernel: one that ended and one that failed."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mine.py").write_text(PROGRAM)
    assert cli.main(["trace", f"{folder / 'mine.py'}:main", "--out", str(folder / "main.tilescope")]) == 0
    assert cli.main(["trace", f"{folder / 'mine.py'}:fails", "--out", str(folder / "fails.tilescope")]) == 3
    (folder / "broken.tilescope").write_bytes(b"TILESCOP")
    return folder


@pytest.fixture(scope="module")
def checked_file(tmp_path_factory):
    """The trace of a checked run with a hint, then an error."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "mine.py").write_text(WRONG)
    assert cli.main(["check", f"{folder / 'mine.py'}:main", "--out", str(folder / "run.tilescope")]) == 1
    return folder / "run.tilescope"


@pytest.fixture
def opened(monkeypatch):
    """opened(file, …): the page of an app that was started with these files, and the player's packet."""

    def opened(*files):
        arguments = [word for file in files for word in ("--trace", str(file))]
        monkeypatch.setattr("sys.argv", ["app.py", *arguments])
        test = pages.page("your_run")
        shown = test.get("bidi_component")
        return test, unpacked(shown[0].proto.bytes) if shown else None

    return opened


def test_findings_are_listed_errors_first_and_open_the_player_at_their_step(opened, checked_file):
    test, (head, files) = opened(checked_file)
    found = trace_file.read(files[0]).report.findings or ()
    assert not found[0].error  # the hint's step comes first
    assert [one.error for one in found].count(True) == 1
    error, hint = sorted(found, key=lambda one: not one.error)
    assert head["step"] == error.step
    assert [button.label for button in test.button] == [f"Line {error.line}: store", f"Line {hint.line}: load"]
    words = pages.texts(test)
    assert "1 error, 1 hint" in words
    assert f"line {error.line} · program 2 · x_ptr[8]" in words
    assert words.index(error.words) < words.index(hint.words)
    for presses, (number, one) in enumerate(((1, hint), (0, error)), 1):
        test.button[number].click().run()
        head, _ = unpacked(test.get("bidi_component")[0].proto.bytes)
        assert (head["step"], head["reveal"]) == (one.step, presses)


def test_findings_of_one_line_have_buttons_of_different_words(opened, tmp_path):
    (tmp_path / "mine.py").write_text(BOTH)
    assert cli.main(["check", f"{tmp_path / 'mine.py'}:main", "--out", str(tmp_path / "run.tilescope")]) == 1
    test, _ = opened(tmp_path / "run.tilescope")
    assert [button.label for button in test.button] == ["Line 5: load", "Line 5: store"]


def test_the_page_your_kernel_lists_the_findings_of_its_run_too(checked_file):
    test = pages.page("your_kernel")
    reader, name = test.session_state["reader of kernels"], "your_kernel.py"
    your_kernel.RUNS.start(f"{reader} {name}", lambda job: TraceFile(checked_file.read_bytes()), "test").wait(60)
    words = pages.texts(test.run())
    assert "1 error, 1 hint: [see them" in words
    assert len(test.button) == 2
    editor, _ = (one.proto for one in test.get("bidi_component"))
    assert json.loads(json.loads(editor.json)["errors"])[0]["row"] == 6


def test_a_load_is_not_called_unused_where_the_run_stopped_before_a_line_could_use_it(tmp_path):
    path = tmp_path / "stops.py"
    path.write_text(STOPS, encoding="utf-8")
    record = partial(record_file, path, "main", "all", lambda *_: None)
    report = checked(lambda evidence: record(evidence=evidence)).report
    assert report.failure
    assert [one.sort for one in report.findings] == ["unused"]
    assert findings.of(report) == ()
    assert findings.of(replace(report, failure=None)) == report.findings


def test_a_run_that_failed_opens_at_its_step_with_what_it_printed(opened, folder):
    test, (head, files) = opened(folder / "fails.tilescope")
    failure = trace_file.read(files[0]).report.failure
    assert head["step"] == failure.step > 0
    assert pages.codes(test)[:2] == ["n is 5", failure.traceback.rstrip("\n")]


def test_a_dropped_file_is_shown_instead_of_the_given_one(opened, folder):
    test, _ = opened(folder / "main.tilescope")
    dropped = (folder / "fails.tilescope").read_bytes()
    test.file_uploader[0].set_value([("theirs", dropped, "")]).run()
    assert unpacked(test.get("bidi_component")[0].proto.bytes)[1] == [dropped]
    test.file_uploader[0].set_value([("theirs", b"no trace", "")]).run()
    assert unpacked(test.get("bidi_component")[0].proto.bytes)[1] == [your_run.EXAMPLE.read_bytes()]
    assert "theirs" in test.error[0].value


def test_a_file_that_is_no_trace_points_to_how_one_is_recorded(opened, folder):
    pointer = f"](#{layout.anchor(your_run.OWN)})"
    assert pointer in opened(folder / "mine.py")[0].error[0].value
    assert pointer in opened(folder / "mine.py", folder / "main.tilescope")[0].error[0].value


def test_how_a_trace_is_made_is_said_and_linked_with_and_without_one(opened, folder):
    traces = [folder / f"{name}.tilescope" for name in ("main", "fails")]
    for files in ([], traces[:1], traces):
        words = " ".join(words.value for words in opened(*files)[0].markdown)
        assert "explain debug" in words
        assert f"](#{layout.anchor(your_run.OWN)})" in words


def test_two_runs_stand_side_by_side(opened, folder):
    test, (head, files) = opened(folder / "main.tilescope", folder / "fails.tilescope")
    assert len(head["runs"]) == 2
    assert files == [(folder / f"{name}.tilescope").read_bytes() for name in ("main", "fails")]
    names = [run["view"]["title"].split(" · ")[1:] for run in head["runs"]]
    assert names == [["main", "left"], ["fails", "right"]]
    assert not any(run["view"]["unlike"] for run in head["runs"])
    assert all(f"`{name}.tilescope`, recorded" in pages.texts(test) for name in ("main", "fails"))


def test_two_runs_of_one_input_are_compared_by_their_costs(opened, folder):
    main = folder / "main.tilescope"
    test, _ = opened(main, main)
    assert not test.warning
    words = pages.texts(test).replace("\u00a0", " ")
    assert "equally many bytes loaded, equally many stored, equally many" in words
    assert "| right ÷ left | 1.00 × | 1.00 × | 1.00 × |" in words


def test_two_costs_are_compared_in_factors_and_small_differences_in_percent():
    pairs = [(180, 100), (100, 490), (1000, 1013), (5, 5), (0, 5), (5, 0)]
    told = ["1.8 × fewer", "4.9 × more", "1.3% more", "equally many", "more", "100.0% fewer"]
    assert [cost._compared(*pair) for pair in pairs] == told


def test_two_runs_of_different_inputs_say_so_before_their_costs(opened):
    runs = lessons.OPENING, lessons.SHORT
    test, (packet, _) = opened(*map(recordings.path_of, runs))
    sizes = [f"{one.values['seq_len']} × {one.values['head_dim']}" for one in runs]
    words = test.warning[0].value.replace("\u00a0", " ")
    assert words.startswith(f"The inputs differ: `q`, `k` and `v` are {sizes[0]} on the left, {sizes[1]} on the right.")
    assert words.endswith("Costs and values cannot be compared. Record both with the same tensors and seed.")
    assert all(run["view"]["unlike"] for run in packet["runs"])  # so the player shows no first difference
    assert "right ÷ left" not in pages.texts(test)


def traced_with(folder, name, numbers, dtype="float32", tile=8):
    """The trace of a kernel that doubles these numbers."""
    path = folder / f"{name}.py"
    path.write_text(DOUBLE.format(numbers=numbers, dtype=dtype, tile=tile))
    return record_file(path, "main", "all", lambda *_: None)


def test_values_and_dtypes_of_inputs_are_compared_and_tiles_are_not(tmp_path):
    one = traced_with(tmp_path, "one", [1, 2, 3])
    assert given_inputs.difference(one, traced_with(tmp_path, "tile", [1, 2, 3], tile=4)) == ""
    values = given_inputs.difference(one, traced_with(tmp_path, "values", [1, 2, 5]))
    assert values.startswith("The inputs differ: the values of `x`: `x[2]` is 3 on the left, 5 on the right.")
    dtypes = given_inputs.difference(one, traced_with(tmp_path, "dtype", [1, 2, 3], "float16"))
    assert dtypes.startswith("The inputs differ: `x` is f32 on the left, f16 on the right.")


def test_each_of_several_launches_has_its_row(opened):
    test, _ = opened(recordings.path_of(lessons.STANDARD))
    trace = TraceFile(recordings.path_of(lessons.STANDARD).read_bytes()).trace
    table = cost.launches(trace)
    assert table in pages.texts(test)
    assert len(table.splitlines()) == 2 + len(trace.launches) > 3
    for told in (cost.tensors(trace), table):
        assert "`x`" not in told  # the softmax's name of s
        assert "`y`" not in told
    assert [cost.tensors(trace).count(f"`{name}`") for name in "qkspvo"] == [1] * 6
    assert cost.tensors(replace(trace, experiment=None)).startswith("**Tensors, as each launch names them:** ")


def test_a_mask_is_a_difference_and_a_tile_is_none():
    def trace(experiment):
        return replace(
            TraceFile(recordings.path_of(lessons.ONLINE).read_bytes()).trace, experiment=experiment.to_json()
        )

    plain = Experiment.of("flash_attention", {"causal": False})
    assert given_inputs.difference(trace(plain), trace(plain.with_(block_n=32))) == ""
    said = given_inputs.difference(trace(plain), trace(plain.with_(causal=True)))
    assert said.startswith("The parameters differ: the mask is not causal on the left, causal on the right.")
    assert "not causal, `block_m` = 16" in cost.told(trace(plain))


def test_a_kernel_of_the_catalog_keeps_its_roles(opened):
    _, (head, _) = opened(recordings.path_of(lessons.ONLINE))
    assert head["runs"][0]["view"]["roles"] == dict(lessons.ONLINE.entry.roles)


@pytest.mark.parametrize("name", ["broken.tilescope", "mine.py", "missing.tilescope"])
def test_a_file_that_is_no_trace_is_named(opened, folder, name):
    test, (_, files) = opened(folder / name)
    assert files == [your_run.EXAMPLE.read_bytes()]  # and how to record one's own
    assert "explain trace" in " ".join(words.value for words in test.markdown)
    assert re.search(rf"\b{re.escape(name)}\b", test.error[0].value)
    assert ("is not a trace file. A trace file ends in `.tilescope`" in test.error[0].value) == (name == "mine.py")


def test_a_text_named_like_a_trace_is_told_so(opened, folder):
    (folder / "bad.tilescope").write_text("not a trace")
    said = opened(folder / "bad.tilescope")[0].error[0].value
    assert "**bad.tilescope** has the right ending, but not a trace's content." in said
    assert "step 3" in said


def test_without_a_file_the_page_plays_its_example(opened):
    test, (head, files) = opened()
    assert not test.error
    assert files == [your_run.EXAMPLE.read_bytes()]
    seen = [value for step, value in trace_file.read(files[0]).history(your_run.WATCHED) if step <= head["step"]]
    assert [bool(tile.numpy().any()) for tile in seen if isinstance(tile, Tile)] == [False, True]
    assert head["watch"] == your_run.WATCHED
    changes = {step for step, _ in trace_file.read(files[0]).history(your_run.WATCHED)}
    assert len(changes) > 2  # it has something to show
    said, total = pages.texts(test), trace_file.read(files[0]).traffic()
    assert f"{total['read_bytes']} B loaded and {total['written_bytes']} B stored" in said


@pytest.mark.parametrize(
    ("source", "recorded", "name"),
    [(your_run.SOURCE, your_run.EXAMPLE, your_run.FILE), (your_kernel.EXAMPLE, your_kernel.RECORDED, "example.py")],
    ids=["your run", "your kernel"],
)
def test_a_shipped_example_is_the_trace_of_its_file(source, recorded, name, tmp_path):
    (tmp_path / name).write_bytes(source.read_bytes())
    assert cli.main(["trace", f"{tmp_path / name}:main", "--out", str(tmp_path / "run.tilescope")]) == 0
    made, shipped = (trace_file.read(path.read_bytes()) for path in (tmp_path / "run.tilescope", recorded))
    assert made.sources == shipped.sources
    assert made.steps == shipped.steps
    assert made.report.output == shipped.report.output


def test_a_file_that_unpacks_to_more_than_is_allowed_is_refused(folder):
    with pytest.raises(trace_file.TraceFileError):
        trace_file.read((folder / "main.tilescope").read_bytes(), 100)


def test_the_app_with_a_trace_opens_on_it(folder, monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", "--trace", str(folder / "main.tilescope")])
    assert pages.opened("main.py").title[0].value == contents.page_of("your_run.py").title


def test_an_option_without_a_file_is_an_error(monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", "--trace"])
    with pytest.raises(ValueError, match="--trace"):
        given.files("trace")


def test_start_hands_files_to_the_app_by_their_full_path(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["--trace", "main.tilescope", "--server.port", "9000", "--trace", "fails.tilescope"]
    full = [str(folder / name) for name in ("main.tilescope", "fails.tilescope")]
    assert start._with_files(words) == ["--server.port", "9000", "--", "--trace", full[0], "--trace", full[1]]
    with pytest.raises(start.SetUpError, match=r"no\.tilescope"):
        start._with_files(["--trace", "no.tilescope"])
