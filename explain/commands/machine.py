"""`doctor`, `hall` and `rehearse`: what this machine has, and serving a lecture hall from it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from explain import doctor as looking
from explain.app_process import AppError
from explain.commands.arguments import command, whole
from explain.commands.console import FAILED, complain, ended_by_sigterm, print_json
from explain.engine import scratch
from explain.hall import Hall, HallError, serve


def add_to(commands: Any) -> None:
    command(commands, "doctor", doctor, "Check this machine: what works, what is missing, and how to fix it.")
    help = "Serve the app to a lecture hall: several processes behind nginx, with TLS (docs/hall.md)."
    parser = commands.add_parser("hall", help=help, description=help)
    parser.set_defaults(command=hall)
    parser.add_argument("name", metavar="NAME", help="the host's name, or its IPv4 address, as readers type it")
    parser.add_argument("--processes", type=whole, default=4, metavar="N", help="how many; each uses one core (4)")
    parser.add_argument("--port", type=whole, default=8443, metavar="N", help="the port that readers use (8443)")
    parser.add_argument("--address", default="0.0.0.0", metavar="IP", help="this machine's address to listen at (all)")
    parser.add_argument(
        "--certificate", type=Path, metavar="FILE", help="for NAME, PEM, with its chain; default: makes one"
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="the certificate's key, PEM")
    help = "Record beforehand what a class will ask for: moves every control of every page (docs/hall.md)."
    parser = commands.add_parser("rehearse", help=help, description=help)
    parser.set_defaults(command=rehearsed)
    parser.add_argument("--minutes", type=whole, default=30, metavar="N", help="how long (30)")


def doctor(parsed: argparse.Namespace) -> int:
    findings = list(looking.examine())
    if parsed.json:
        print_json({"findings": [finding.__dict__ for finding in findings]})
    else:
        for finding in findings:
            print(f"{'✓' if finding.ok else '✗'} {finding.what:<22}{finding.found}")
            if finding.remedy:
                print(f"  {'':<22}→ {finding.remedy}")
    return 0 if all(finding.ok or not finding.needed for finding in findings) else 1


def hall(parsed: argparse.Namespace) -> int:
    """Serves a hall until it is ended."""
    try:
        asked = Hall(parsed.name, parsed.address, parsed.port, parsed.processes, parsed.certificate, parsed.key)
        with ended_by_sigterm(), scratch() as folder:
            for said in serve(asked, Path(folder)):
                print(said, flush=True)
    except KeyboardInterrupt:  # how a lecturer ends it
        return 0
    except HallError as error:
        return complain(str(error), FAILED)
    raise AssertionError("serve ends by an error only")


def rehearsed(parsed: argparse.Namespace) -> int:
    """Rehearses a lecture; the recorded runs stay in the cache."""
    from explain.rehearsal import rehearse  # other commands start without Streamlit

    try:
        with ended_by_sigterm():
            rehearse(parsed.minutes, lambda said: print(said, flush=True))
    except KeyboardInterrupt:  # what was recorded until then stays
        return 0
    except AppError as error:
        return complain(str(error), FAILED)
    return 0
