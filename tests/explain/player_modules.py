"""Runs the player's modules without a browser, in the Node that Playwright brings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import playwright

from explain import recordings
from explain.engine import engine
from explain.experiment import Experiment
from explain.player import files
from explain.player.view import view

NODE = Path(playwright.__file__).parent / "driver" / "node"
BROWSER = """
const nothing = new Proxy(() => {}, { get: () => nothing, apply: () => nothing, set: () => true });
Object.assign(globalThis, { document: nothing, matchMedia: nothing });
"""
STORIES = """
const stories = await Promise.all(given.runs.map(async ({ file, view }) =>
  new Story(await decodeTrace(new Uint8Array((await import("node:fs")).readFileSync(file))), view)));
"""


def evaluated(script: str, body: str, **given: Any) -> Any:
    """What `body` returns: JavaScript after `script`; both see `given`."""
    told = f"console.log(JSON.stringify(await (async () => {{{body}}})()));"
    whole = f"{BROWSER}const given = {json.dumps(given)};{script}{told}"
    command = [str(NODE), "--input-type=module", "-"]
    done = subprocess.run(command, input=whole, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ran(module: str, body: str, *runs: Experiment, **given: Any) -> Any:
    """What `body` returns: JavaScript that sees a module, those that it imports, `given`, and the `stories` of runs
    that ship with the app.
    """
    given["runs"] = [
        {"file": str(recordings.path_of(run)), "view": view(run, engine().trace(run).trace, "recorded")} for run in runs
    ]
    return evaluated(files.modules("trace.js", "story.js", module) + STORIES, body, **given)
