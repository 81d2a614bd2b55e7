"""Runs a Hopper kernel written in Gluon without a GPU: its own functions, as Python, on tensors of the CPU.

What is kept of the machine is what the kernel's barriers are for. Each job of `warp_specialize` is a thread; a copy arrives a little later than it was asked
for, in memory that was NaN; a product reads its operands no sooner than it is waited for, and cannot be used before. So a tile that is read too soon, or
overwritten too soon, gives a wrong result, and a barrier that nobody sets ends in `Stuck`. Layouts, registers and speed are not kept.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch

LATEST = 4e-4  # seconds until a copy arrives


class Stuck(Exception):
    """A barrier that was waited for and never set."""


class Barrier:
    """An mbarrier: a phase is over when all arrivals and all bytes that it expects have come."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.count = self.missing = self.bytes = self.phases = 0

    def init(self, count: int) -> None:
        self.count = self.missing = count

    def come(self, arrivals: int = 0, size: int = 0) -> None:
        with self.changed:
            self.missing -= arrivals
            self.bytes += size
            assert self.missing >= 0, "more arrivals than the barrier counts"
            if self.missing == 0 and self.bytes == 0:
                self.missing = self.count
                self.phases += 1
                self.changed.notify_all()

    def wait(self, parity: int, patience: float, gave_up: threading.Event) -> None:
        end = time.monotonic() + patience
        with self.changed:
            while not self.changed.wait_for(lambda: self.phases & 1 != int(parity), 0.05):
                if gave_up.is_set() or time.monotonic() > end:
                    raise Stuck(f"after {self.phases} phases")


class Shared:
    """A place in shared memory."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def index(self, place: int) -> Shared:
        return Shared(self.values[int(place)])

    def reshape(self, shape: Sequence[int]) -> Shared:
        return Shared(self.values.view(*shape))

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.values.permute(*order))

    def store(self, values: torch.Tensor) -> None:
        self.values.copy_(values)


class Barriers:
    """An array of barriers; one alone is its own first."""

    def __init__(self, count: int) -> None:
        self.all = [Barrier() for _ in range(count)]

    def index(self, place: int) -> Barrier:
        return self.all[int(place)]


class Pointer:
    """An address in a tensor's memory."""

    def __init__(self, tensor: torch.Tensor, offset: Any = 0) -> None:
        self.tensor, self.offset = tensor, offset

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.tensor, self.offset + more)


class Descriptor:
    """What the copy engine is told of a tensor: it goes by tiles of `shape`, with zeros past the edge."""

    def __init__(self, tensor: torch.Tensor, shape: Sequence[int]) -> None:
        self.tensor, self.shape, self.dtype, self.layout = tensor, shape, tensor.dtype, None
        self.block_type = SimpleNamespace(nbytes=math.prod(shape) * tensor.element_size())

    def part(self, corner: Sequence[int]) -> tuple[slice, ...]:
        """Where the tile lies within the tensor."""
        return tuple(
            slice(int(at), min(int(at) + size, end))
            for at, size, end in zip(corner, self.shape, self.tensor.shape, strict=True)
        )


class Product:
    """An asynchronous product: nothing is read or known before it is waited for."""

    def __init__(self, a: Any, b: Shared, acc: torch.Tensor) -> None:
        self.operands, self.result = (a, b, acc), None

    def finish(self) -> None:
        a, b, acc = self.operands
        a = a.values if isinstance(a, Shared) else a
        self.result = a.float() @ b.values.float() + acc


class Machine:
    """One SM: the names that a kernel's module takes from Gluon, and what it runs."""

    def __init__(self, patience: float) -> None:
        self.patience, self.own = patience, threading.local()
        self.program: tuple[int, ...] = ()
        self.grid: tuple[int, ...] = ()
        self.random = random.Random(0)
        self.gave_up = threading.Event()  # one thread has failed: nobody waits for it

    def names(self) -> dict[str, Any]:
        """What stands in for the module's imports."""
        anything: Callable[..., None] = lambda *_, **__: None  # noqa: E731
        dtypes = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "int64")}
        gl = SimpleNamespace(
            **dtypes, constexpr=int, static_range=range, SliceLayout=anything, NVMMADistributedLayout=anything, DotOperandLayout=anything,
            NVMMASharedLayout=SimpleNamespace(get_default_for=anything),
            program_id=lambda axis: torch.tensor(self.program[axis]), num_programs=lambda axis: self.grid[axis],
            cdiv=lambda a, b: -(-a // b), minimum=_both(min, torch.minimum), maximum=_both(max, torch.maximum),
            arange=lambda start, end, layout: torch.arange(start, end), zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
            full=lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype),
            max=lambda x, axis: x.amax(axis), sum=lambda x, axis: x.sum(axis), where=torch.where, exp2=torch.exp2, log2=torch.log2,
            convert_layout=lambda x, layout: x, store=_store, allocate_shared_memory=_allocated, warp_specialize=self.specialize,
        )  # fmt: skip
        mbarrier = SimpleNamespace(
            MBarrierLayout=lambda: Barrier, init=lambda b, count: _one(b).init(count), wait=lambda b, parity: _one(b).wait(parity, self.patience, self.gave_up),
            arrive=lambda b, count: _one(b).come(count), expect=lambda b, size: _one(b).come(1, size),
        )  # fmt: skip
        tma = SimpleNamespace(
            async_copy_global_to_shared=self.fetch, async_copy_shared_to_global=_write, store_wait=anything,
        )  # fmt: skip
        return {
            "gl": gl, "mbarrier": mbarrier, "tma": tma, "warpgroup_mma": self.multiply, "warpgroup_mma_wait": self.finish,
            "range": lambda *ends: map(torch.tensor, range(*map(int, ends))), "fence_async_shared": anything, "TensorDescriptor": lambda tensor, shape, strides, tile, layout: Descriptor(tensor, tile),
            "descriptor": lambda tensor, rows: Descriptor(tensor, [1, 1, rows, tensor.shape[3]]),
            "hopper_refusal": lambda *_: "", "refusal": lambda *_: "", "sms": lambda _: 2,
        }  # fmt: skip

    def fetch(self, desc: Descriptor, corner: Sequence[int], barrier: Any, place: Shared) -> None:
        def arrive() -> None:
            time.sleep(self.random.random() * LATEST)
            part = desc.tensor[desc.part(corner)]
            place.values.zero_()
            place.values[tuple(slice(size) for size in part.shape)] = part
            _one(barrier).come(size=-desc.block_type.nbytes)

        threading.Thread(target=arrive, daemon=True).start()

    def multiply(self, a: Any, b: Shared, acc: torch.Tensor, use_acc: bool = True, is_async: bool = False) -> Product:
        assert is_async, "a product that waits for itself is not asked for here"
        product = Product(a, b, acc if use_acc else torch.zeros_like(acc))
        self.own.__dict__.setdefault("running", []).append(product)
        return product

    def finish(self, pendings: int, deps: Sequence[Any]) -> Any:
        running = self.own.__dict__.setdefault("running", [])
        while len(running) > pendings:
            running.pop(0).finish()
        known = [one.result if isinstance(one, Product) else one for one in deps]
        assert all(one is not None for one in known), "used before it is there"
        return known[0] if len(known) == 1 else known

    def specialize(
        self,
        jobs: Sequence[tuple[Callable[..., None], tuple[Any, ...]]],
        warps: Sequence[int],
        registers: Sequence[int],
    ) -> None:
        failures: list[BaseException] = []

        def run(job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
            try:
                job(*arguments)
                assert not self.own.__dict__.get("running"), "a product that nobody waited for"
            except BaseException as failure:
                failures.append(failure)
                self.gave_up.set()

        assert len(warps) == len(registers) == len(jobs) - 1
        threads = [threading.Thread(target=run, args=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


def on_cpu(
    module: ModuleType, wrapper: str, patience: float = 60.0
) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """The module's wrapper, which runs its kernel here. Raises Stuck where a barrier is waited for longer than `patience` seconds."""
    machine = Machine(patience)
    names = {**vars(module), **machine.names()}
    for name, value in vars(module).items():
        function = getattr(value, "fn", value)
        if (
            isinstance(function, FunctionType)
            and function.__module__ == module.__name__
            and name not in machine.names()
        ):
            own = FunctionType(function.__code__, names, name, function.__defaults__)
            own.__kwdefaults__ = function.__kwdefaults__
            names[name] = _Launched(machine, own) if name.endswith("_kernel") else own
    run: Callable[..., tuple[torch.Tensor, torch.Tensor]] = names[wrapper]
    return run


class _Launched:
    def __init__(self, machine: Machine, kernel: Callable[..., None]) -> None:
        self.machine, self.kernel = machine, kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, num_warps: int, maxnreg: int, **constants: Any) -> None:
            given = [Pointer(one) if isinstance(one, torch.Tensor) else one for one in arguments]
            self.machine.grid = (*grid, 1)
            for program in torch.cartesian_prod(*(torch.arange(n) for n in self.machine.grid)).tolist():
                self.machine.program = program
                self.kernel(*given, **constants)

        return launch


def _one(barrier: Barrier | Barriers) -> Barrier:
    return barrier.all[0] if isinstance(barrier, Barriers) else barrier


def _both(of_numbers: Callable[[Any, Any], Any], of_tensors: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: of_tensors(a, b) if isinstance(a, torch.Tensor) and a.dim() else of_numbers(a, b)


def _allocated(dtype: torch.dtype, shape: Sequence[int], layout: Any) -> Shared | Barriers:
    return Barriers(shape[0]) if layout is Barrier else Shared(torch.full(shape, math.nan, dtype=dtype))


def _store(pointer: Pointer, values: torch.Tensor, mask: torch.Tensor) -> None:
    pointer.tensor.view(-1)[pointer.offset[mask]] = values[mask]


def _write(desc: Descriptor, corner: Sequence[int], place: Shared) -> None:
    part = desc.tensor[desc.part(corner)]
    part.copy_(place.values[tuple(slice(size) for size in part.shape)])
