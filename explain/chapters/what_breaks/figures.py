"""An exhibit's changed line, and the verdicts of both kernels on an input, as HTML for `app.css`."""

from __future__ import annotations

import textwrap
from html import escape

from kernels.catalog import KERNELS
from kernels.edits import source_of
from kernels.museum import Exhibit


def changed_line(exhibit: Exhibit) -> tuple[int, str]:
    """The number of the changed line in its module; and that line in the correct and in the broken kernel."""
    edit = exhibit.edit
    assert edit is not None
    source = source_of(KERNELS[exhibit.base].module)
    changed = edit.diff(source)
    number = changed[0][1]
    sides = {"-": ("correct", "Correct"), "+": ("broken", titles(exhibit)[1].partition(":")[0])}
    lines = textwrap.dedent("\n".join(text for _, _, text in changed)).splitlines()
    rows = "".join(
        f'<b>{sides[sign][1]}</b><code data-side="{sides[sign][0]}">{escape(line)}</code>'
        for (sign, _, _), line in zip(changed, lines, strict=True)
    )
    return number, f'<div class="changed">{rows}</div>'


def titles(exhibit: Exhibit) -> tuple[str, str]:
    """What both kernels are called beside each other."""
    return "Correct kernel", f"{'Changed' if exhibit.harmless else 'Broken'}: {exhibit.title}"


def verdicts(both: tuple[tuple[str, str, bool], ...]) -> str:
    """Large verdicts beside each other: each kernel's name, its error ÷ tolerance, and whether it passes."""
    boxes = "".join(
        f'<div data-passes="{str(passes).lower()}"><span>{escape(name)}</span><b>{"passes" if passes else "fails"}</b>'
        f"<span>error ÷ tolerance: {escape(ratio)}</span></div>"
        for name, ratio, passes in both
    )
    return f'<div class="verdicts">{boxes}</div>'
