"""Kernels of other repositories: how their files run, what is counted, what is blamed."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from benchmarks import foreign
from benchmarks.foreign import class_of, joined, summary, why_not_joined

KERNEL = """
    import torch, triton, triton.language as tl
    import pytest

    @triton.jit
    def double(x, y, n, scale: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) * scale, mask=i < n)
"""
SCRIPT = """
    def check():
        x = torch.ones(100, device="cuda")
        double[(7,)](x, torch.empty_like(x), 100, 2, BLOCK=16)

    result = check()
"""
TEST = """
    @pytest.mark.parametrize("n", [60, 6000])
    def test_double(n):
        x = torch.ones(60, device="cuda")
        double[(4,)](x, torch.empty_like(x), 64, 2, BLOCK=16)
        assert n == 60
"""
FILES = {
    "sound.py": KERNEL + SCRIPT,
    "faulty.py": KERNEL + TEST,
    # It ends at the limit of memory, so soon: one of time would cut the others too where the cores are busy.
    "endless.py": KERNEL + "        while n > 0:\n            i += 1\n" + SCRIPT.replace("BLOCK=16", "BLOCK=16384"),
    "refused.py": KERNEL.replace("    i =", "    for k in [1]:\n            pass\n        i =") + SCRIPT,
    "absent.py": "    import no_such_package\n" + KERNEL + SCRIPT,
    "notes.py": "import math\n",
    "src/package/__init__.py": KERNEL,
    "kernels/__init__.py": "",  # as a package of Tilescope is called
    "kernels/sizes.py": "N = 60\n",
    "tests/test_package.py": """
        import torch
        from kernels.sizes import N
        from package import double

        def test_half():
            x = torch.ones(N)
            double[(4,)](x, torch.empty_like(x), N, 0.5, BLOCK=16)

        if __name__ == "__main__":
            import pytest
            pytest.main([__file__])
    """,
}


def test_a_folder_is_traced_compiled_and_counted(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "repository"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))
    out = tmp_path / "out.json"

    def measure(*options: str) -> int:
        monkeypatch.setattr("sys.argv", ["foreign", str(folder), "--out", str(out), "--seconds", "60", *options])
        return foreign.main()

    assert measure("--within", "0") == 0
    result = json.loads(out.read_text())
    assert (result["files"], result["not_run"]) == (0, 6)
    assert measure() == 0
    result = json.loads(out.read_text())
    assert result["not_run"] == 0
    counts = {name: result[name] for name in ("files", "launched", "kernels", "compiled", "traced", "checked")}
    assert counts == {"files": 6, "launched": 5, "kernels": 5, "compiled": 4, "traced": 3, "checked": 3}
    assert result["blamed"] == {"repository/faulty.py:test_double": ["outside"]}
    assert result["traced_kernels"]["repository/src/package/__init__.py:double"] == "checked"
    assert result["not_traced"].keys() == {"repository/endless.py:double"}
    assert result["not_traced"]["repository/endless.py:double"].startswith("limit")
    assert result["not_compiled"].keys() == {"repository/refused.py:double"}
    assert result["not_launched"]["repository/absent.py:"].startswith("import")
    assert str(tmp_path) not in out.read_text()
    with pytest.raises(SystemExit):
        measure("--keep", str(out))
    assert capsys.readouterr().err.endswith("has the folder repository already\n")


def test_folders_are_added_to_a_result_of_the_same_recorder():
    def result(name, seconds, **more):
        kernel = {"place": [f"{name}/k.py", 3, "k"], "ended": 1, "why": "", "compiled": ""}
        finding = {"sort": "mask", "error": False}
        row = {"name": f"{name}/a.py:", "mode": "checked", "why": "", "steps": 5, "findings": [finding]}
        rest = {"seconds_a_run": seconds, "not_run": 1, "sources": [{"name": name}], "code": {"recorder": "r"}}
        return {**rest, **summary([row | {"kernels": [kernel]}], [name]), **more}

    both = joined(result("old", 60.0, date="yesterday"), result("new", 10.0, date="today"))
    assert (both["files"], both["traced"], both["not_run"], both["hints"]) == (2, 2, 2, {"mask": 2})
    assert both["traced_kernels"] == {"old/k.py:k": "checked", "new/k.py:k": "checked"}
    assert [one["name"] for one in both["sources"]] == list(both["folders"]) == ["old", "new"]
    assert (both["date"], both["seconds_a_run"]) == ("today", 60.0)
    now = {"code": {"recorder": "r"}}
    assert why_not_joined(both, now, ["third"]) == ""
    assert why_not_joined(both, now, ["third", "old"]) == "has the folder old already"
    assert why_not_joined(both, {"code": {"recorder": "other"}}, []).startswith("was measured with another code")


def test_a_kernel_counts_as_traced_once_one_of_its_launches_was():
    def row(name, ended, compiled="", mode="checked"):
        kernel = {"place": ["r/k.py", 3, "k"], "ended": ended, "why": "" if ended else "boom", "compiled": compiled}
        return {"name": f"r/{name}", "mode": mode, "why": "", "steps": 5, "findings": [], "kernels": [kernel]}

    assert summary([row("a.py:", 0), row("b.py:", 2)], ["r"])["traced_kernels"] == {"r/k.py:k": "checked"}
    assert summary([row("a.py:", 2, mode="sampled")], ["r"])["traced_kernels"] == {"r/k.py:k": "sampled"}
    assert summary([row("a.py:", 0)], ["r"])["not_traced"] == {"r/k.py:k": "error: boom"}
    assert summary([row("a.py:", 0, "refused")], ["r"])["compiled"] == 0


@pytest.mark.parametrize(
    ("why", "name"),
    [
        ("it ran longer than 20 s: raise --seconds", "limit"),
        ("Unable to allocate 242. MiB for an array with shape (31777264,) and data type float64", "limit"),
        ("x.py failed: ModuleNotFoundError: No module named 'vllm'", "import"),
        ("x.py asks for a GPU. Kernels are recorded", "gpu"),
        ("x.py:test needs arguments (device)", "fixture"),
        ("line 7: `break` cannot be compiled", "refused"),
        ("ValueError: 3", "error"),
    ],
)
def test_classes_of_reasons(why, name):
    assert class_of(why) == name
