"""The committed results: read, written, and known as stale when the code they measured has changed."""

from __future__ import annotations

import functools
import json

import pytest

from explain import ROOT, cli, data
from explain.records import code, results
from kernels.catalog import KERNELS
from kernels.digest import running

pytestmark = pytest.mark.xdist_group("digests")  # of all code take seconds: worked out once


@pytest.fixture
def root(monkeypatch, tmp_path):
    """A repository with one group of files."""
    monkeypatch.setattr(code, "ROOT", tmp_path)
    monkeypatch.setattr(code, "GROUPS", {"app": ("app.py", "parts/**/*.js")})
    (tmp_path / "parts").mkdir()
    (tmp_path / "app.py").write_text("x = 1  # one\n")
    (tmp_path / "parts" / "a.js").write_text("1")
    code.code_of.cache_clear()
    yield tmp_path
    code.code_of.cache_clear()


def test_the_digest_of_a_group_changes_with_its_code_and_not_with_its_comments(root):
    digests = [code.code_of("app")]
    for file, text in (("app.py", '"""Doc."""\nx = 1\n'), ("app.py", "x = 2\n"), ("parts/a.js", "2"), ("b.js", "3")):
        (root / file).write_text(text)
        code.code_of.cache_clear()
        digests.append(code.code_of("app"))
    assert digests[0] == digests[1]
    assert len(set(digests[1:4])) == 3
    assert digests[3] == digests[4]  # b.js is in no group


def test_a_kernel_a_function_and_nothing_have_a_digest():
    entry = KERNELS["softmax_online"]
    assert code.code_of("softmax_online") == entry.code == code.code_of(f"{entry.module}:{entry.function}")
    assert code.code_of("softmax_gone") == code.code_of("kernels.gone:f") == code.code_of("kernels.softmax:gone") == ""


def test_a_result_is_stale_where_it_measured_other_code():
    fresh = code.measured_code(["softmax_online", "flash_attention"])["code"]
    assert code.stale_parts(fresh) == []
    assert code.stale_parts({**fresh, "flash_attention": "0" * 16, "gone": "1" * 16}) == ["flash_attention", "gone"]
    assert code.stale_parts(None) == code.stale_parts({}) == ["everything"]
    assert not code.stale_words([])
    assert "softmax_online" in code.stale_words(["softmax_online"])


@pytest.mark.parametrize(
    "data",
    [
        {"points": [{"experiment": {"kernel": "softmax_online"}, "origin": 0}], "origins": [{"code": "DIGEST"}]},
        {"grids": [{"rung": "tma", "code": "DIGEST"}]},
        {"module": "kernels.softmax", "function": "softmax_online", "code": "DIGEST"},
        {"code": {"softmax_online": "DIGEST"}},
    ],
)
def test_every_kind_of_file_says_what_is_stale(tmp_path, data):
    name = "rung:tma" if "grids" in data else "softmax_online"
    for digest, stale in ((KERNELS[name].code, 0), ("f" * 16, 1)):
        path = tmp_path / f"{digest}.json"
        path.write_text(json.dumps(data).replace("DIGEST", digest))
        assert len(results.Committed(path, "again").stale) == stale


def test_what_is_written_is_read_back_and_loaded_once_until_it_changes(tmp_path):
    path, calls = tmp_path / "a.json", []

    def parse(data):
        calls.append(data)
        return data["x"]

    assert results.load(path, parse, "again") is None
    results.write(path, {"x": 1})
    assert [results.load(path, parse, "again") for _ in range(3)] == [1, 1, 1]
    assert len(calls) == 1
    results.write(path, {"x": 22})
    assert results.load(path, parse, "again") == 22
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(ValueError, match="JSON"):
        results.write(path, {"x": float("nan")})
    assert results.read(path) == {"x": 22}


@pytest.mark.parametrize("text", ["{", "[1]", '{"y": 1}', '{"x": {}}'])
def test_a_file_that_is_no_result_is_refused_by_its_name(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(results.ResultFileError, match=r"a\.json"):
        results.load(path, lambda data: data["x"] + 1, "again")


def test_every_committed_result_is_there_and_the_command_lists_it(capsys, monkeypatch):
    monkeypatch.setattr(code, "running", functools.cache(running))  # most files are in several groups
    files = [one.path for one in results.committed()]
    asked = [pattern for pattern, _, _ in data(results.__file__)["committed"]]
    assert [pattern for pattern in asked if not any(ROOT.glob(pattern))] == []
    others = {*results.BENCHMARKS.glob("*.json"), *results.RECORDINGS.glob("*.json")} - set(files)
    assert not others
    assert cli.main(["results", "--json"]) == 0  # here: each digest is made once, all take 3 s of a core
    listed = json.loads(capsys.readouterr().out)["results"]
    assert [row["file"] for row in listed] == [path.relative_to(ROOT).as_posix() for path in files]
    assert {row["file"] for row in listed if row["stale"]} == {
        one.path.relative_to(ROOT).as_posix() for one in results.committed() if one.stale
    }
