"""Liveness, by hand-made cases and on a real kernel: what will still be read, and nothing else."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from explain import ROOT
from explain.source.liveness import alive


def after(body: str, arguments: str = "a, b") -> dict[int, list[str]]:
    """By line of the body, from 1."""
    lines = alive(f"def f({arguments}):\n" + "\n".join(f"    {line}" for line in body.split("\n")), first_line=0)
    return {line: names for line, names in lines.items() if line}


def test_a_value_is_alive_from_when_it_is_set_to_its_last_read():
    assert after("x = a\ny = x + b\nz = y\nreturn z") == {1: ["b", "x"], 2: ["y"], 3: ["z"], 4: []}


def test_what_is_overwritten_before_it_is_read_is_not_alive():
    assert after("x = a\nx = b\nreturn x") == {1: ["b"], 2: ["x"], 3: []}


def test_an_update_in_place_reads_the_old_value():
    assert after("x = a\nx += b\nreturn x")[1] == ["b", "x"]


def test_a_loop_keeps_what_its_next_turn_reads():
    lines = after("x = a\nfor i in range(b):\n    y = x * 2\n    x = y + 1\nreturn x")
    assert lines == {1: ["b", "x"], 2: ["x"], 3: ["y"], 4: ["x"], 5: []}


def test_of_an_if_both_ways_count():
    lines = after("if a:\n    x = b\nelse:\n    x = 0\nreturn x")
    assert lines[1] == ["b"]
    assert lines[2] == lines[4] == ["x"]


def test_while_break_and_continue_lead_where_they_lead():
    lines = after("x = a\nwhile x:\n    if b:\n        break\n    x = x - 1\n    continue\ny = b\nreturn y", "a, b")
    assert lines[4] == ["b"]  # out of the loop, x is read no more
    assert lines[5] == lines[6] == ["b", "x"]


def test_names_that_are_not_the_functions_own_are_left_out():
    assert after("x = tl.load(a)\nreturn tl.exp(x)") == {1: ["x"], 2: []}


def test_a_source_that_is_no_function_has_none():
    assert alive("x = 1") == {}
    assert alive("def f(:") == {}


def test_in_flash_attention_a_tile_lives_as_long_as_it_is_needed():
    text = ROOT.joinpath("kernels/attention.py").read_text()
    text = text[text.index("def flash_attention_kernel(") :]
    text = text[: text.index("@triton.jit")]
    lines = text.split("\n")
    found = alive(text)

    def alive_after(statement: str) -> set[str]:
        return set(found[1 + next(i for i, line in enumerate(lines) if line.strip().startswith(statement))])

    assert "k" in alive_after("k = tl.load")
    assert "k" not in alive_after("s = tl.dot")  # read once, for the scores
    assert {"s", "acc", "l_i", "m_i", "q"} <= alive_after("s = tl.where")
    assert "s" not in alive_after("p = tl.exp")
    assert "alpha" not in alive_after("acc = acc * alpha")
    assert "p" not in alive_after("acc = acc + tl.dot")
    assert {"q", "m_i", "l_i", "acc"} <= alive_after("m_i = m_new")  # for the next tile
    assert {"q", "acc"}.isdisjoint(alive_after("o = acc"))


@pytest.mark.parametrize("seed", range(40))
def test_no_run_reads_what_was_said_to_be_dead(seed):
    """Random programs, run in all ways their branches can go: a value that is read later was alive after every line
    between.
    """
    source = _random_program(random.Random(seed))
    found = alive(source, first_line=1)
    for choices in itertools.product([False, True], repeat=6):
        events = _run(source, choices)
        for at, (line, _, _) in enumerate(events):
            for name in "xyz":
                later = next((e for e in events[at + 1 :] if name in e[1] or name in e[2]), None)
                if later and name in later[1]:
                    assert name in found[line], (source, line, name)


def _random_program(rng: random.Random, depth: int = 0) -> str:
    lines = [] if depth else ["def f():", "    x = y = z = 0"]
    pad = "    " * (depth + 1)
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if depth < 2 and kind < 0.3:
            lines += [f"{pad}{rng.choice(['if choose():', 'while choose():'])}", _random_program(rng, depth + 1)]
        elif depth and kind < 0.35:
            lines += [f"{pad}if choose():", f"{pad}    pass"]
        else:
            lines.append(f"{pad}{rng.choice('xyz')} = {rng.choice('xyz')} + {rng.choice('xyz1')}")
    return "\n".join(lines)


def _run(source: str, choices: tuple[bool, ...]) -> list[tuple[int, set[str], set[str]]]:
    """(line, names read, names set) of each statement that one run executes."""
    tracked = source.split("\n")
    events: list[tuple[int, set[str], set[str]]] = []
    instrumented = []
    for number, text in enumerate(tracked, 1):
        bare = text.strip()
        pad = text[: len(text) - len(text.lstrip())]
        if " = " in bare and number > 2:
            target, value = bare.split(" = ")
            reads = {name for name in value.split(" + ") if name in "xyz"}
            instrumented.append(f"{pad}note({number}, {reads or set()!r}, {{{target!r}}}); {bare}")
        elif "choose()" in bare:
            instrumented.append(text.replace("choose()", f"choose({number})"))
        else:
            instrumented.append(text)
    answers = iter(choices)

    def choose(line: int) -> bool:
        events.append((line, set(), set()))
        return next(answers, False)

    scope: dict[str, Any] = {"choose": choose, "note": lambda line, reads, sets: events.append((line, reads, sets))}
    exec("\n".join(instrumented), scope)
    scope["f"]()
    return events
