"""A CUDA graph on a machine without a GPU: what is captured runs when the graph is replayed, on the same memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Graph(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    """Stands for `torch.cuda.CUDAGraph`.

    PyTorch's operations run while they are captured, since code needs the tensors that they make. At the end, all
    memory from before has its values again. Kernels run in a replay alone.
    """

    capturing: Graph | None = None
    """The graph that captures now."""

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reset()

    def reset(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage | None]] = {}

    def capture_begin(self, *args: object, **options: object) -> None:
        self.reset()
        Graph.capturing = self
        self.__enter__()  # type: ignore[no-untyped-call]

    def capture_end(self) -> None:
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        Graph.capturing = None
        for storage, values in self.before.values():
            if values is not None:
                storage.copy_(values)

    def replay(self) -> None:
        with torch.no_grad():
            for call in self.calls:
                call()

    def launch(self, call: Callable[[], object]) -> None:
        """Captures a kernel's launch."""
        self.calls.append(call)

    def pool(self) -> tuple[int, int]:
        return 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen((args, kwargs), existed=True)
        made = func(*args, **(kwargs or {}))
        self.seen(made, existed=False)
        self.calls.append(partial(_again, made, func, *args, **(kwargs or {})))
        return made

    def seen(self, values: Any, existed: bool) -> None:
        """Keeps the memory of tensors that `existed` before the capture as it is now."""
        for tensor in tree_leaves(values):
            if isinstance(tensor, torch.Tensor):
                storage: Any = tensor.untyped_storage()
                if storage.data_ptr() not in self.before:
                    self.before[storage.data_ptr()] = storage, storage.clone() if existed else None


def _again(made: Any, func: Any, *args: Any, **kwargs: Any) -> None:
    """Calls an operation, and puts what it makes where it made it before."""
    for old, new in zip(tree_leaves(made), tree_leaves(func(*args, **kwargs)), strict=True):
        if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
            old.copy_(new)


class Capture:
    """Stands for `torch.cuda.graph`."""

    def __init__(self, cuda_graph: Graph, *args: object, **options: object) -> None:
        self.graph = cuda_graph

    def __enter__(self) -> None:
        self.graph.capture_begin()

    def __exit__(self, *error: object) -> None:
        self.graph.capture_end()


def make_graphed_callables(callables: Any, *args: object, **options: object) -> Any:
    """Replaces `torch.cuda.make_graphed_callables`. Returns the callables as they are: their results are the same."""
    return callables
