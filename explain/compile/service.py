"""What a tile costs: recorded, compiled on this machine before, or compiled now in the background.

A compilation takes between a third of a second and half a minute. No page waits for it: `start` begins it, and `look`
answers at once with what is known. Any number of sessions share one compilation. Imports neither torch nor triton;
thread-safe.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from explain import ROOT, recordings
from explain.compile.cost import Cost
from explain.compile.listing import Listing, unpacked
from explain.engine import cache_folder, has_triton, must_be_a_kernel, scratch
from explain.experiment import Experiment
from explain.jobs import Job, Jobs
from explain.plain import made, plain
from explain.records.results import write_bytes
from explain.workers import WorkerError, WorkerPool, WorkerSpec
from kernels.catalog import KERNELS

COMPILE_WORKER = WorkerSpec(
    "compile",
    "explain.compile.handler:handle",
    env=(("TRITON_INTERPRET", "0"), ("OMP_NUM_THREADS", "1"), ("CUDA_VISIBLE_DEVICES", "")),
    default_seconds=180,
    default_megabytes=6000,
    address_space_limit=False,  # LLVM and ptxas reserve more than they use
    nice=10,
)
RECORDED = "tile-costs"
NEVER_COMPILED = (
    "This tile is not among the recorded ones, and Triton runs on Linux only, so it cannot be compiled here. "
    "The tiles of the opening view are recorded."
)
MOST_ANSWERS = 512
MOST_WAITING = 32
MOST_LISTINGS = 64


@dataclass(frozen=True)
class Answer:
    """What is known so far: a `cost` and its `origin` ("recorded", or "compiled" on this machine); or an `error`; or
    what the compiler is `working` on, and for how many `seconds`.
    """

    cost: Cost | None = None
    origin: str = ""
    error: str = ""
    working: str = ""
    seconds: float = 0.0


class Compiler:
    """Compile workers at low priority, and their answers."""

    def __init__(self, spec: WorkerSpec = COMPILE_WORKER) -> None:
        self._pool = WorkerPool(spec, size=2)  # a long compilation leaves the other worker free
        self._jobs: Jobs[Cost] = Jobs(MOST_WAITING, MOST_ANSWERS)
        self._lock = threading.Lock()
        self._listings: dict[str, tuple[Listing, ...]] = {}  # by key

    def look(self, experiment: Experiment, capability: int) -> Answer | None:
        """What is known of this experiment for this compute capability; None if it was never compiled here."""
        job = self._jobs.get(key_of(experiment, capability))
        if job is None:
            return self._known(experiment, capability)
        if job.running:
            return Answer(working=job.doing, seconds=job.seconds)
        if job.result is not None:
            return Answer(job.result, "compiled")
        return Answer(error="The compilation was stopped." if job.cancelled else job.error)

    def start(self, experiment: Experiment, capability: int) -> None:
        """Compiles in the background, unless that runs already; `look` says how far it is."""

        def work(job: Job[Cost]) -> Cost:
            if not has_triton():
                raise WorkerError(NEVER_COMPILED)
            return self.compile(experiment, capability, progress=job.progress, cancel=job.cancel)

        self._jobs.start(key_of(experiment, capability), work, "waiting for the compiler")

    def _known(self, experiment: Experiment, capability: int) -> Answer | None:
        if cost := _recorded(experiment, capability):
            return Answer(cost, "recorded")
        try:
            return Answer(_cost_in(_cached(experiment, capability)), "compiled")
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def listings(self, experiment: Experiment, capability: int) -> tuple[Listing, ...]:
        """The instructions of each launch, recorded or compiled here; none if this tile was never compiled here."""
        key = key_of(experiment, capability)
        with self._lock:
            if known := self._listings.get(key):
                return known
        recorded = [listing_path(experiment, capability)] if _recorded(experiment, capability) else []
        for place in (*recorded, _listing_beside(_cached(experiment, capability))):
            with suppress(OSError, EOFError, ValueError, KeyError, TypeError, IndexError):
                return self._keep(key, _listings_in(place))
        return ()

    def _keep(self, key: str, listings: tuple[Listing, ...]) -> tuple[Listing, ...]:
        with self._lock:
            self._listings[key] = listings
            while len(self._listings) > MOST_LISTINGS:
                self._listings.pop(next(iter(self._listings)))
        return listings

    def cancel(self, experiment: Experiment, capability: int) -> None:
        """Ends this compilation, for every session that waits for it."""
        self._jobs.cancel(key_of(experiment, capability))

    def compile(self, experiment: Experiment, capability: int, **call: Any) -> Cost:
        """Compiles in this thread and keeps the answer on disk. Raises WorkerError with the reason."""
        must_be_a_kernel(experiment)
        path = _cached(experiment, capability)
        with scratch() as folder:
            listing = Path(folder) / "listing"
            request = {"experiment": experiment.to_json(), "capability": capability, "listing": str(listing)}
            cost = made(Cost, self._pool.call(request, **call))
            instructions = listing.read_bytes()
        self._keep(key_of(experiment, capability), unpacked(instructions))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for kept, data in ((_listing_beside(path), instructions), (path, json.dumps(plain(cost)).encode())):
                write_bytes(kept, data)
        except OSError:  # not stored: compiled again next time
            pass
        return cost

    def compile_file(self, path: Path, function: str, capability: int, **call: Any) -> Cost:
        """Compiles what a function of any Python file launches; nothing is kept. Raises WorkerError with the reason."""
        request = {"path": str(path.resolve()), "function": function, "capability": capability}
        return made(Cost, self._pool.call(request, **call))

    def close(self) -> None:
        """Ends the worker."""
        self._pool.close()


@functools.cache
def compiler() -> Compiler:
    """The compiler of this process, shared by every session."""
    return Compiler()


@functools.lru_cache(maxsize=MOST_ANSWERS)
def key_of(experiment: Experiment, capability: int) -> str:
    """What a compilation depends on: kernel, parameters and target, not the inputs' values."""
    return json.dumps([experiment.kernel, experiment.values, capability], sort_keys=True)


def provenance(cost: Cost, origin: str) -> str:
    """The source of a cost's numbers, for a caption."""
    where = {"recorded": "recorded", "compiled": "compiled on this machine"}[origin]
    return f"{where} · triton {cost.triton}, ptxas {cost.ptxas}, {cost.date}, no GPU"


def _recorded(experiment: Experiment, capability: int) -> Cost | None:
    codes, costs = _records()
    cost = costs.get(key_of(experiment, capability))
    fresh = cost is not None and codes.get(cost.kernel) == KERNELS[cost.kernel].code
    return cost if fresh else None


@functools.cache
def _records() -> tuple[dict[str, str], dict[str, Cost]]:
    """The digest of each kernel's code as it was compiled, and the shipped costs by key."""
    record = recordings.measured(RECORDED) or {"code": {}, "costs": []}
    costs = [made(Cost, cost) for cost in record["costs"]]
    return record["code"], {
        json.dumps([cost.kernel, cost.parameters, cost.capability], sort_keys=True): cost for cost in costs
    }


@functools.lru_cache(maxsize=MOST_ANSWERS)
def _cost_in(file: Path) -> Cost:
    return made(Cost, json.loads(file.read_text()))


@functools.lru_cache(maxsize=MOST_LISTINGS)
def _listings_in(file: Path) -> tuple[Listing, ...]:
    return unpacked(file.read_bytes())


def _cached(experiment: Experiment, capability: int) -> Path:
    digest = hashlib.sha256(f"{key_of(experiment, capability)}\n{_version()}".encode()).hexdigest()[:32]
    return cache_folder().parent / "compiled" / f"{digest}.json"


def listing_path(experiment: Experiment, capability: int) -> Path:
    """The path of a tile's shipped instructions, whether or not there are any."""
    digest = hashlib.sha256(key_of(experiment, capability).encode()).hexdigest()[:12]
    return recordings.FOLDER / f"{experiment.kernel}-sm{capability}-{digest}.listing.gz"


def _listing_beside(cost: Path) -> Path:
    return cost.with_suffix(".listing.gz")


@functools.cache
def _version() -> str:
    """A digest of the compiler and of the code it compiles."""
    files = [*sorted((ROOT / "kernels").rglob("*.py")), *sorted((ROOT / "explain" / "compile").glob("*.py"))]
    texts = [path.read_bytes() for path in files]
    triton = metadata.version("triton") if has_triton() else "none"
    return hashlib.sha256(b"\n".join([triton.encode(), *texts])).hexdigest()
