"""The digest of a kernel's code changes with what runs, and with nothing else."""

from __future__ import annotations

import sys

import pytest

from kernels.catalog import KERNELS
from kernels.digest import _module, digest_of
from kernels.edits import Edit, source_of

MAIN = '''"""What it is."""
from __future__ import annotations
import triton
import triton.language as tl
from kernels.{helper} import SCALE, unused

@triton.jit
def add_kernel(x_ptr, BLOCK: tl.constexpr):
    # x · 2
    tl.store(x_ptr, tl.load(x_ptr) * 2)

def add(x: int) -> None:
    """Adds."""
    if x < 0:
        raise ValueError(f"{{x}}: at least 0")
    add_kernel[(1,)](x, SCALE)

def beside():
    return 1
'''
HELPER = "SCALE = _BASE = 3\nSCALE = _BASE + 1\nunused = 5\n"


@pytest.fixture
def digest(monkeypatch, tmp_path):
    """The digest of `add` in a made-up module that imports from another one, after these changes of their text."""
    package = sys.modules["kernels"]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])

    def of(main: tuple[str, str] = ("", ""), helper: tuple[str, str] = ("", ""), edit: Edit | None = None) -> str:
        assert main[0] in MAIN
        assert helper[0] in HELPER
        (tmp_path / "made_up.py").write_text(MAIN.format(helper="made_up_helper").replace(*main))
        (tmp_path / "made_up_helper.py").write_text(HELPER.replace(*helper))
        digest_of.cache_clear()
        _module.cache_clear()
        return digest_of("kernels.made_up", "add", edit)

    yield of
    digest_of.cache_clear()
    _module.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        ("# x · 2", "# twice x"),
        ('"""Adds."""', '"""Adds to x."""\n    # here'),
        ('"""What it is."""', '"""What it does."""'),
        ("x: int) -> None", "x) -> int"),
        ("at least 0", "must not be negative"),
        ("tl.load(x_ptr) * 2", "(tl.load(x_ptr)  *  2)"),
        ("return 1", "return 2"),
    ],
)
def test_what_does_not_run_does_not_count(digest, change):
    assert digest(change) == digest()


@pytest.mark.parametrize(
    "change",
    [
        ("* 2)", "* 3)"),
        ("BLOCK: tl.constexpr", "BLOCK"),
        ("[(1,)]", "[(2,)]"),
        ("x < 0", "x < 1"),
        ("@triton.jit", "@triton.jit(noinline=True)"),
    ],
)
def test_what_runs_counts(digest, change):
    assert digest(change) != digest()


def test_what_is_imported_counts_where_it_is_used(digest):
    assert digest(helper=("+ 1", "+ 2")) != digest()
    assert digest(helper=("= 3", "= 4")) != digest()
    assert digest(helper=("unused = 5", "unused = 6")) == digest()


def test_an_edit_counts(digest):
    assert digest(edit=Edit("what", "add_kernel", "* 2)", "* 3)")) == digest(("* 2)", "* 3)")) != digest()


def test_each_broken_kernel_differs_from_the_right_one():
    broken = [kernel for kernel in KERNELS.values() if kernel.edit]
    right = {KERNELS[kernel.base].code for kernel in broken}
    assert len(right) == len({kernel.base for kernel in broken})
    assert len({kernel.code for kernel in broken} | right) == len(broken) + len(right)


def test_a_kernel_depends_on_the_schedule_that_it_uses(monkeypatch):
    before = KERNELS["fast:flash_attention_hopper"].code
    monkeypatch.setattr("kernels.digest.source_of", lambda name: source_of(name).replace("START = 1", "START = 2"))
    digest_of.cache_clear()
    _module.cache_clear()
    try:
        assert KERNELS["fast:flash_attention_hopper"].code != before
        assert KERNELS["flash_attention"].code == digest_of("kernels.attention", "flash_attention")
    finally:
        digest_of.cache_clear()
        _module.cache_clear()


def test_a_function_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no_such"):
        digest_of("kernels.softmax", "no_such")
