"""The known advisories of the packages that the app runs with, in the versions installed here.

    python -m scripts.advisories

pip-audit asks OSV.dev. Exits with 1 if there is an advisory. Without a connection nothing is checked: it says so, and
exits with 0.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
OSV = "https://api.osv.dev/v1/query"


def installed(lines: list[str]) -> dict[str, str]:
    """The packages of a requirements file and all that they need, as installed here: {name: version}."""
    found: dict[str, str] = {}
    wanted = [Requirement(line) for line in lines if re.match(r"\w", line)]
    while wanted:
        one = wanted.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an optional part
            continue
        wanted += map(Requirement, requires(name) or [])
    return found


def advisories(packages: dict[str, str], url: str) -> list[str] | str:
    """A line for each advisory of these packages; or why nothing could be asked."""
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder) / "requirements.txt"
        # A local version, such as 2.13.0+cpu, is a build of the public one.
        pinned.write_text("".join(f"{name}=={found.partition('+')[0]}\n" for name, found in packages.items()))
        command = ["pip_audit", "-r", str(pinned), "--no-deps", "--disable-pip", "-s", "osv", "--osv-url", url]
        shown = ["-f", "json", "--progress-spinner", "off", "--timeout", "5"]
        run = subprocess.run([sys.executable, "-m", *command, *shown], check=False, capture_output=True, text=True)
    if not run.stdout:
        return (run.stderr.strip().splitlines() or [f"pip-audit exited with {run.returncode}"])[-1]
    return [
        f"{one['name']} {one['version']}: {known['id']}, fixed in {', '.join(known['fix_versions']) or 'no version'}"
        for one in json.loads(run.stdout)["dependencies"]
        for known in one.get("vulns", [])
    ]


def main(arguments: list[str]) -> int:
    """Print what is known; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--osv-url", default=OSV, metavar="URL", help="another server of OSV's protocol")
    packages = installed((ROOT / "requirements.txt").read_text().splitlines())
    found = advisories(packages, parser.parse_args(arguments).osv_url)
    if isinstance(found, str):
        print(f"not checked, OSV.dev does not answer: {found}")
        return 0
    print(*found, f"{len(packages)} packages, {len(found)} known advisories", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
