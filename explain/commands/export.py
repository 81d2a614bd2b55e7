"""`export` and `tour`: a run, or a chapter's tour, as files to take along."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from explain import tours
from explain.browser import NoBrowserError
from explain.commands.arguments import check_out, command
from explain.commands.console import BAD_ARGUMENTS, FAILED, complain, print_json, progress_line
from explain.engine import Engine, TraceRun
from explain.experiment import Experiment, ParameterError
from explain.trace.file import TraceFileError
from kernels.catalog import TAUGHT

EXPORTS = (".html", ".tilescope")


def add_to(commands: Any) -> None:
    help = "Write a run to one file: an HTML page that opens without a server, or its trace."
    parser = command(commands, "export", export, help)
    parser.add_argument("target", metavar="TARGET", help="a kernel of the list, or a trace file")
    names = f"the file to write; its name ends in {' or '.join(EXPORTS)}"
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=names)
    step = "the step the page opens on, from 0; default: the one that failed, the first error, or 0"
    parser.add_argument("--step", default="", metavar="N", help=step)
    Experiment.add_arguments(parser)
    help = "Show a tour's run sheet, or write the tour as slides or as a page to take along."
    parser = command(commands, "tour", tour, help)
    names = f"a tour file, or one of {', '.join(tours.files())}; a chapter's name alone means its first"
    parser.add_argument("target", metavar="TOUR", help=names)
    slides = "slides, a caption on each; Chrome or Chromium prints them"
    parser.add_argument("--pdf", type=Path, metavar="FILE", help=slides)
    parser.add_argument("--html", type=Path, metavar="FILE", help="a page that plays the tour without a server")


def export(parsed: argparse.Namespace) -> int:
    from explain.player.component import Run
    from explain.player.export import standalone_html  # brings Streamlit, which the other commands do without
    from explain.player.view import view_of

    if parsed.out.suffix not in EXPORTS:
        made_in_browser = ".png, .svg and .webm are made by the Export menu of the player, there and in the page"
        raise ParameterError("--out", parsed.out, f"must end in {' or '.join(EXPORTS)}; {made_in_browser}")
    check_out(parsed.out)
    run = _recorded_run(parsed)
    try:
        trace = run.trace
    except TraceFileError as error:
        raise ParameterError("target", parsed.target, f"cannot be read: {error}") from None
    asked = parsed.step or str(trace.report.worst or 0)
    step = int(asked) if asked.isascii() and asked.isdecimal() else -1
    if not 0 <= step < trace.steps:
        raise ParameterError("--step", asked, f"must be a whole number from 0 to {trace.steps - 1}")
    if parsed.out.suffix == ".html":
        parsed.out.write_text(standalone_html([Run(run, view_of(trace, run.origin))], step), encoding="utf-8")
    else:
        parsed.out.write_bytes(run.data)
    answer = {"file": str(parsed.out), "file_bytes": parsed.out.stat().st_size, "steps": trace.steps, "step": step}
    if parsed.json:
        return print_json(answer | {"experiment": trace.experiment})
    print(f"{parsed.out}: {answer['file_bytes']:,} bytes, {trace.steps:,} steps")
    return 0


def _recorded_run(parsed: argparse.Namespace) -> TraceRun:
    """The run to export: of a trace file, or of a kernel, recorded or made now."""
    if parsed.target in TAUGHT:
        with closing(Engine()) as engine, progress_line() as progress:
            return engine.trace(Experiment.from_parsed(parsed.target, parsed), progress)
    path = Path(parsed.target)
    if not path.is_file():
        raise ParameterError("target", parsed.target, f"must be a trace file, or one of {', '.join(TAUGHT)}")
    if parsed.set or parsed.inputs or parsed.seed != "0":
        raise ParameterError("target", parsed.target, "takes no --set, --inputs or --seed: the file holds its run")
    return TraceRun(path.read_bytes(), "recorded")


def tour(parsed: argparse.Namespace) -> int:
    from explain.slides import SlidesError, page_of, pdf_of  # brings Streamlit, which the other commands do without

    try:
        one = tours.named(parsed.target)
    except tours.TourError as error:
        return complain(f"{error}; the tours are {', '.join(tours.files())}", BAD_ARGUMENTS)
    files = {"--html": parsed.html, "--pdf": parsed.pdf}
    for option, path in files.items():
        if path and not path.parent.is_dir():
            raise ParameterError(option, path, "must be in a folder that exists")
    try:
        with closing(Engine()) as engine, progress_line() as progress:
            content, page = page_of(one, engine, progress)
        if parsed.html:
            parsed.html.write_text(page, encoding="utf-8")
        if parsed.pdf:
            parsed.pdf.write_bytes(pdf_of(page))
    except tours.TourError as error:
        return complain(str(error), BAD_ARGUMENTS)
    except (NoBrowserError, SlidesError, ValueError) as error:
        return complain(f"--pdf: {error}. Or write --html FILE, open it and print it: each caption is a page", FAILED)
    written = {str(path): path.stat().st_size for path in files.values() if path}
    if parsed.json:
        return print_json({"minutes": one.minutes, "files": written, **content})
    for i, caption in enumerate(content["captions"], 1):
        print(f"{i:>2}. {caption['minutes']:g} min  {caption['text']}\n{'':>12}{caption['say']}")
    for path, size in written.items():
        print(f"{path}: {size:,} bytes")
    return 0
