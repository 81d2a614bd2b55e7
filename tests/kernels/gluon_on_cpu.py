"""Runs a Hopper kernel written in Gluon without a GPU: its own functions, as Python, on tensors of the CPU.

It models what the kernel's barriers are for. Each job of `warp_specialize` runs until it reaches a barrier. Then a
seeded random choice decides which job continues or which copy arrives. Memory is NaN until a copy arrives. A matmul
reads its operands when it starts or when it is waited for, and its result cannot be used before that. So reading or
overwriting a tile too early gives a wrong result for some seed, and a barrier that nobody sets raises `Stuck`.
Layouts, registers and speed are not modelled.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch
from greenlet import greenlet
from triton.experimental.gluon._runtime import GluonJITFunction

from kernels.kept import Kept

MOST_STEPS = 20_000
"""Steps of all jobs of one launch; no launch of the tests takes a tenth as many."""


class Stuck(Exception):
    """Every job waits for a barrier, and no copy is in flight; or jobs ask for ever for what no other writes."""


class _Ended(BaseException):
    """Ends a job that is no longer needed."""


class Barrier:
    """An mbarrier: a phase ends when all expected arrivals and bytes have come."""

    def __init__(self) -> None:
        self.count = self.missing = self.bytes = self.phases = 0

    def init(self, count: int) -> None:
        self.count = self.missing = count

    def come(self, arrivals: int = 0, size: int = 0) -> None:
        self.missing -= arrivals
        self.bytes += size
        assert self.missing >= 0, "more arrivals than the barrier counts"
        if self.missing == 0 and self.bytes == 0:
            self.missing = self.count
            self.phases += 1


class Shared:
    """A buffer in shared memory."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values, self.dtype = values, values.dtype

    def index(self, place: int) -> Shared:
        return Shared(self.values[int(place)])

    def reshape(self, shape: Sequence[int]) -> Shared:
        return Shared(self.values.view(*shape))

    def _reinterpret(self, dtype: torch.dtype, shape: Sequence[int], layout: Any) -> Shared:
        return Shared(self.values.flatten()[: math.prod(shape)].view(*shape))

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.values.permute(*order))

    def store(self, values: torch.Tensor) -> None:
        self.values.copy_(values)

    def load(self, layout: Any) -> Tile:
        return self.values.clone().as_subclass(Tile)


class Barriers:
    """An array of barriers. A single barrier is an array of one."""

    def __init__(self, count: int) -> None:
        self.all = [Barrier() for _ in range(count)]

    def index(self, place: int) -> Barrier:
        return self.all[int(place)]


class Pointer:
    """An address in a tensor's memory."""

    def __init__(self, tensor: torch.Tensor, offset: Any = 0) -> None:
        self.tensor, self.offset = tensor, offset
        self.dtype = SimpleNamespace(element_ty=tensor.dtype)

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.tensor, self.offset + more)


class Tile(torch.Tensor):
    """A tile of numbers with an unknown layout."""

    type = SimpleNamespace(layout=None)  # type: ignore[assignment]

    def to(self, dtype: torch.dtype, bitcast: bool = False) -> torch.Tensor:  # type: ignore[override]
        return self.view(dtype) if bitcast else super().to(dtype)


class Descriptor:
    """A TMA descriptor: the tensor is copied in tiles of `shape`, with zeros past its edge, or past one before it."""

    def __init__(self, tensor: torch.Tensor, shape: Sequence[int], edge: Sequence[int] = ()) -> None:
        self.base, self.shape, self.dtype, self.layout = tensor, shape, tensor.dtype, None
        self.edge = edge or tensor.shape
        self.block_type = SimpleNamespace(nbytes=math.prod(shape) * tensor.element_size(), shape=shape)

    def part(self, corner: Sequence[int]) -> tuple[slice, ...]:
        """The tile's place in the tensor, cut off at its end."""
        return tuple(
            slice(int(at), min(int(at) + size, end))
            for at, size, end in zip(corner, self.shape, self.edge, strict=True)
        )


class Matmul:
    """An asynchronous matmul. Its result is known once it is waited for."""

    def __init__(self, a: Any, b: Shared, acc: torch.Tensor | Matmul | float) -> None:
        self.operands = (a, b, acc)
        self.result: torch.Tensor | None = None
        self.known = False

    def compute(self) -> None:
        if self.result is None:
            a, b, acc = self.operands
            a = a.values if isinstance(a, Shared) else a
            if isinstance(acc, Matmul):  # started before
                acc.compute()
            before: Any = acc.result if isinstance(acc, Matmul) else acc
            self.result = (a.float() @ b.values.float() + before).as_subclass(Tile)


class Job:
    """A function that runs only when it is stepped, from where it paused: a greenlet, which Playwright brings along."""

    def __init__(self, machine: Machine, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.machine, self.function, self.arguments = machine, function, arguments
        self.ready: Callable[[], bool] = lambda: True
        self.failure: BaseException | None = None
        self.done = self.ended = False
        self.program = machine.program
        self.products: list[Matmul] = []
        self.leaving: list[Callable[[], None]] = []  # what the copy engine has not read yet
        self.itself = greenlet(self._run)

    def _run(self) -> None:
        try:
            if not self.ended:
                self.function(*self.arguments)
                assert not self.products, "a product that nobody waited for"
        except BaseException as failure:
            self.failure = failure
        self.done = True

    def step(self) -> None:
        """Runs it until it pauses or ends."""
        before, self.machine.job = self.machine.job, self
        self.itself.switch()
        self.machine.job = before

    def pause(self, ready: Callable[[], bool]) -> None:
        """Called by the job: lets others run, and continues when stepped again, once it is ready."""
        self.ready = ready
        self.itself.parent.switch()
        if self.ended:
            raise _Ended


class Machine:
    """One SM: Gluon's names as a kernel's module uses them, and the jobs that run."""

    def __init__(self, seed: int) -> None:
        self.job: Any = None  # the one that runs
        self.random = random.Random(seed)
        self.copies: list[Callable[[], None]] = []
        self.on_their_way: dict[Any, list[list[Callable[[], None]]]] = {}  # of each job: groups, the last one open
        self.program: tuple[int, ...] = ()
        self.grid: tuple[int, ...] = ()

    def names(self) -> dict[str, Any]:
        """Replacements for the module's imports."""
        anything: Callable[..., None] = lambda *_, **__: None  # noqa: E731
        dtypes = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "int32", "int64")}
        gl = SimpleNamespace(
            **dtypes, constexpr=int, static_range=range, SliceLayout=anything,
            NVMMADistributedLayout=anything, DotOperandLayout=anything,
            NVMMASharedLayout=_Layout,
            BlockedLayout=anything, SwizzledSharedLayout=anything,
            program_id=self.program_id, num_programs=lambda axis: self.grid[axis],
            cdiv=lambda a, b: -(-a // b), minimum=_both(min, torch.minimum), maximum=_both(max, torch.maximum),
            arange=lambda start, end, layout: torch.arange(start, end).as_subclass(Tile),
            zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype).as_subclass(Tile),
            full=lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype).as_subclass(Tile),
            max=lambda x, axis: x.amax(axis), min=lambda x, axis: x.amin(axis), sum=lambda x, axis: x.sum(axis),
            where=torch.where, exp2=torch.exp2,
            reshape=lambda x, shape: x.reshape(shape), permute=lambda x, order: x.permute(order),
            expand_dims=lambda x, axis: x.unsqueeze(axis),
            log2=torch.log2, convert_layout=lambda x, layout: x, load=self.load, store=_store, atomic_xchg=_exchange,
            allocate_shared_memory=_allocated, warp_specialize=self.specialize,
        )  # fmt: skip
        mbarrier = SimpleNamespace(
            MBarrierLayout=lambda: Barrier, init=lambda b, count: _one(b).init(count), wait=self.wait,
            arrive=self.arrive, expect=lambda b, size: _one(b).come(1, size),
        )  # fmt: skip
        tma = SimpleNamespace(
            async_copy_global_to_shared=self.fetch, async_copy_shared_to_global=self.write, store_wait=self.left,
        )  # fmt: skip
        async_copy = SimpleNamespace(
            async_copy_global_to_shared=self.copy_async, commit_group=self.commit, wait_group=self.arrived
        )
        return {
            "gl": gl, "gdc_wait": anything, "gdc_launch_dependents": anything,
            "async_copy": async_copy, "mbarrier": mbarrier, "tma": tma, "warpgroup_mma": self.multiply,
            "warpgroup_mma_wait": self.finish, "fence_async_shared": anything,
            "range": lambda *ends: map(torch.tensor, range(*map(int, ends))),
            "TensorDescriptor": lambda tensor, shape, strides, tile, layout: Descriptor(tensor, tile, shape),
            "descriptor": lambda tensor, rows: Descriptor(tensor, [1, 1, rows, tensor.shape[3]]),
            "_add_to_global": self.add, "hopper_refusal": lambda *_: "", "refusal": lambda *_, **__: "",
            "sms": lambda _: 2,
        }  # fmt: skip

    def program_id(self, axis: int) -> torch.Tensor:
        return torch.tensor((self.job.program if self.job else self.program)[axis])

    def load(self, pointer: Pointer, mask: Any = None, other: float = math.nan, volatile: bool = False) -> Any:
        """A volatile load sees what other programs have written meanwhile."""
        if volatile:
            self.job.pause(lambda: True)
        return _load(pointer, mask, other)

    def wait(self, barrier: Barrier | Barriers, parity: int) -> None:
        one, odd = _one(barrier), int(parity)
        self.job.pause(lambda: one.phases & 1 != odd)

    def arrive(self, barrier: Barrier | Barriers, count: int) -> None:
        _one(barrier).come(count)
        self.job.pause(lambda: True)

    def fetch(self, desc: Descriptor, corner: Sequence[int], barrier: Barrier | Barriers, place: Shared) -> None:
        def arrive() -> None:
            part = desc.base[desc.part(corner)]
            place.values.zero_()
            place.values[tuple(slice(size) for size in part.shape)] = part
            _one(barrier).come(size=-desc.block_type.nbytes)

        self.copies.append(arrive)

    def add(self, desc: Descriptor, corner: Sequence[int], place: Shared) -> None:
        """The copy engine's sum."""
        self.leave(desc, corner, place, torch.Tensor.add_)

    def write(self, desc: Descriptor, corner: Sequence[int], place: Shared) -> None:
        self.leave(desc, corner, place, torch.Tensor.copy_)

    def leave(
        self, desc: Descriptor, corner: Sequence[int], place: Shared, put: Callable[[Any, torch.Tensor], Any]
    ) -> None:
        """The copy engine reads the place at any time until it is waited for."""
        part, job = desc.base[desc.part(corner)], self.job
        read = False

        def come() -> None:
            nonlocal read
            if not read:
                read = True
                put(part, place.values[tuple(slice(size) for size in part.shape)])

        job.leaving.append(come)
        if self.random.random() < 0.5:
            self.copies.append(come)

    def left(self, pendings: int) -> None:
        """All but the latest copies have read their places."""
        leaving = self.job.leaving
        for come in leaving[: max(0, len(leaving) - pendings)]:
            come()
            leaving.remove(come)

    def copy_async(self, place: Shared, pointer: Pointer, mask: torch.Tensor) -> None:
        assert torch.isnan(place.values).all(), "a place that something is in"
        self._groups()[-1].append(lambda: place.store(_load(pointer, mask, math.nan)))

    def commit(self) -> None:
        self._groups().append([])

    def arrived(self, pendings: int) -> None:
        """All but the latest groups are there; what is not in a group yet is not."""
        groups = self._groups()
        for group in groups[: max(0, len(groups) - 1 - pendings)]:
            for copy in group:
                copy()
        del groups[: max(0, len(groups) - 1 - pendings)]

    def _groups(self) -> list[list[Callable[[], None]]]:
        return self.on_their_way.setdefault(self.job, [[]])

    def multiply(self, a: Any, b: Shared, acc: torch.Tensor, use_acc: bool = True, is_async: bool = False) -> Matmul:
        assert is_async, "a product that waits for itself is not asked for here"
        product = Matmul(a, b, acc if use_acc else 0.0)
        if self.random.random() < 0.5:
            product.compute()
        self.job.products.append(product)
        self.job.pause(lambda: True)
        return product

    def finish(self, pendings: int, deps: Sequence[Any]) -> Any:
        products = self.job.products
        while len(products) > pendings:
            product = products.pop(0)
            product.compute()
            product.known = True
        assert all(one.known for one in deps if isinstance(one, Matmul)), "used before it is there"
        known = [one.result if isinstance(one, Matmul) else one for one in deps]
        return known[0] if len(known) == 1 else known

    def specialize(
        self,
        functions: Sequence[tuple[Callable[..., None], tuple[Any, ...]]],
        warps: Sequence[int],
        registers: Sequence[int],
    ) -> None:
        assert len(warps) == len(registers) == len(functions) - 1
        self.run([Job(self, *one) for one in functions])

    def run(self, jobs: list[Job]) -> None:
        """The jobs, each a piece at a time, in any order, until all have ended. Some are slow, so others get ahead."""
        speed = {id(job): self.random.choice((1.0, 0.02)) for job in jobs}
        steps = 0
        try:
            while not all(job.done for job in jobs):
                steps += 1
                if steps > MOST_STEPS:
                    raise Stuck(f"no end after {MOST_STEPS} steps")
                able = [job for job in jobs if not job.done and job.ready()]
                if not able and not self.copies:
                    raise Stuck("every job waits for a barrier, and no copy is in flight")
                weights = [speed[id(job)] for job in able] + [1.0] * len(self.copies)
                (at,) = self.random.choices(range(len(weights)), weights)
                if at < len(able):
                    able[at].step()
                else:
                    self.copies.pop(at - len(able))()
                for job in jobs:
                    if job.failure:
                        raise job.failure
        finally:
            self.copies.clear()
            for job in jobs:
                if not job.done:
                    job.ended = True
                    job.step()


class _Layout:
    """A layout, which says nothing here."""

    def __init__(self, **_: Any) -> None: ...

    @staticmethod
    def get_default_for(*_: Any) -> None: ...


def on_cpu(
    module: ModuleType, wrapper: str, seed: int = 0, together: str = ""
) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """The module's wrapper, running its kernel here. Raises Stuck, or AssertionError for invalid operations.

    Programs run one after the other, but those of the kernel `together` at once, since they wait for each other.
    """
    machine = Machine(seed)
    functions = [getattr(value, "fn", value) for value in vars(module).values()]
    written = {f.__module__ for f in functions if isinstance(f, FunctionType) and "gl" in f.__globals__}
    modules = [*(sys.modules[name] for name in sorted(written - {module.__name__}) if name in sys.modules), module]
    ours = {name: value for one in modules for name, value in vars(one).items()}
    names = {**ours, **machine.names()}
    for name, value in ours.items():
        function = value.prepare if isinstance(value, Kept) else getattr(value, "fn", value)
        if (
            isinstance(function, FunctionType)
            and (function.__module__ in {one.__name__ for one in modules} or isinstance(value, GluonJITFunction))
            and name not in machine.names()
        ):
            own = FunctionType(function.__code__, names, name, function.__defaults__)
            own.__kwdefaults__ = function.__kwdefaults__
            names[name] = _Launched(machine, own, name == together) if name.endswith("_kernel") else own
            if isinstance(value, Kept):
                names[name] = Kept(own)
    run: Callable[..., tuple[torch.Tensor, torch.Tensor]] = names[wrapper]
    return run


class _Launched:
    def __init__(self, machine: Machine, kernel: Callable[..., None], together: bool) -> None:
        self.machine, self.kernel, self.together = machine, kernel, together

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(
            *arguments: Any, num_warps: int, maxnreg: int = 255, launch_pdl: bool = False, **constants: Any
        ) -> None:
            given = [Pointer(one) if isinstance(one, torch.Tensor) else one for one in arguments]
            self.machine.grid = (*grid, 1)
            jobs = []
            for program in torch.cartesian_prod(*(torch.arange(n) for n in self.machine.grid)).tolist():
                self.machine.program = program
                if self.together:
                    jobs.append(Job(self.machine, partial(self.kernel, **constants), tuple(given)))
                else:
                    self.kernel(*given, **constants)
            self.machine.run(jobs)

        return launch


def _one(barrier: Barrier | Barriers) -> Barrier:
    return barrier.all[0] if isinstance(barrier, Barriers) else barrier


def _both(of_numbers: Callable[[Any, Any], Any], of_tensors: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: of_tensors(a, b) if isinstance(a, torch.Tensor) and a.dim() else of_numbers(a, b)


def _allocated(dtype: torch.dtype, shape: Sequence[int], layout: Any) -> Shared | Barriers:
    return Barriers(shape[0]) if layout is Barrier else Shared(torch.full(shape, math.nan, dtype=dtype))


def _memory(pointer: Pointer) -> torch.Tensor:
    """All elements from the tensor's first to the end of its storage."""
    size = pointer.tensor.untyped_storage().nbytes() // pointer.tensor.element_size() - pointer.tensor.storage_offset()
    return pointer.tensor.as_strided((size,), (1,))


def _load(pointer: Pointer, mask: torch.Tensor | None = None, other: float = math.nan) -> torch.Tensor:
    """Past the storage, in a vector that begins inside, there is something: NaN."""
    memory = _memory(pointer)
    if mask is None:
        return memory[pointer.offset]
    known = mask & (pointer.offset < len(memory))
    values = memory[torch.where(known, pointer.offset, 0)]
    return torch.where(known, values, torch.where(mask, math.nan, other).to(values.dtype)).as_subclass(Tile)


def _store(pointer: Pointer, values: torch.Tensor, mask: torch.Tensor | None = None) -> None:
    mask = torch.ones_like(pointer.offset).bool() if mask is None else mask.expand_as(pointer.offset)
    _memory(pointer)[pointer.offset[mask]] = values[mask]


def _exchange(pointer: Pointer, value: torch.Tensor, sem: str) -> None:
    _memory(pointer)[pointer.offset] = value
