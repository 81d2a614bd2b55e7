"""Which buffer an address belongs to, and whether a kernel may access it.

Addresses are not enough: q, k and v may be views of one storage. So during a launch each pointer argument carries its
buffer's number in the top 16 bits of its 64-bit address; user-space addresses need only 47. Pointer arithmetic keeps
the number, and each load and store removes it. `BIAS` is added too, so that a small address minus an offset does not
borrow from the number.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from triton.runtime import interpreter

from explain.trace.errors import OutOfBounds
from explain.trace.model import Buffer

TAG_SHIFT = 48
BIAS = 1 << 46
MAX_BUFFERS = (1 << 16) - 1


DTYPES = {
    "fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "int1": "i1",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8",
}  # fmt: skip


def dtype_name(dtype: Any) -> str:
    """The trace's name for a Triton scalar dtype."""
    return DTYPES.get(dtype.name) or f"f8:{dtype.name}"


@dataclass(frozen=True)
class Region:
    """A buffer and its addresses. `offset` is the difference between a tagged pointer and the true address."""

    buffer: Buffer
    address: int
    low: int
    high: int
    offset: int

    def elements(self, pointers: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The element indices of (tagged) pointers, int64, same shape."""
        distance = (pointers - np.uint64(self.address + self.offset)).view(np.int64)
        size = self.buffer.item_bytes
        return distance >> (size.bit_length() - 1) if size & (size - 1) == 0 else distance // size


@dataclass(frozen=True)
class Touch:
    """The lanes of one access that are in one buffer; `mask` None means all lanes."""

    number: int
    pointers: NDArray[np.uint64]
    mask: NDArray[np.bool_] | None
    bytes: int


class Memory:
    """The buffers of one launch."""

    def __init__(self) -> None:
        self.regions: list[Region] = []

    def add(self, name: str, tensor: Any, dtype: Any, tagged: bool = True) -> Region:
        """Registers the tensor that a pointer argument, or a pointer loaded from memory, points to."""
        number = len(self.regions)
        if number >= MAX_BUFFERS:
            raise ValueError(f"{number + 1} pointer arguments; at most {MAX_BUFFERS} are allowed")
        base = tensor.base if hasattr(tensor, "base") and not isinstance(tensor, torch.Tensor) else tensor
        storage = base.untyped_storage()
        buffer = Buffer(
            self.unused(name),
            dtype_name(dtype),
            max(1, dtype.primitive_bitwidth // 8),
            tuple(base.size()),
            tuple(base.stride()),
            int(base.storage_offset()),
        )
        region = Region(
            buffer,
            base.data_ptr(),
            storage.data_ptr(),
            storage.data_ptr() + storage.nbytes(),
            ((number + 1) << TAG_SHIFT) + BIAS if tagged else 0,
        )
        self.regions.append(region)
        return region

    def unused(self, name: str) -> str:
        taken = {region.buffer.name for region in self.regions}
        tries = (name if k == 1 else f"{name}_{k}" for k in range(1, len(taken) + 2))
        return next(one for one in tries if one not in taken)

    def resolve(
        self, pointers: NDArray[np.uint64], mask: NDArray[np.bool_] | None, width: int, what: str
    ) -> tuple[NDArray[np.uint64], list[Touch]]:
        """The true addresses of (tagged) `pointers`, and what the active lanes touch, `width` bytes each.

        Raises OutOfBounds if an active lane is outside its tensor's storage; the message starts with `what`.
        """
        if mask is not None:
            if mask.shape != pointers.shape:
                mask = np.broadcast_to(mask, pointers.shape)
            lanes = int(np.count_nonzero(mask))
            if lanes == mask.size:
                mask = None
        if mask is None:
            lanes, active = pointers.size, pointers
        else:
            active = pointers[mask]
        if not lanes:
            number = self.number_of(int(pointers.flat[0])) if pointers.size else None
            return pointers, [] if number is None else [Touch(number, pointers, mask, 0)]
        low, high = int(active.min()), int(active.max())
        number = self.number_of(low)
        if number is None or low >> TAG_SHIFT != high >> TAG_SHIFT or not low >> TAG_SHIFT:
            return self.resolve_each(pointers, mask, width, what)
        region = self.regions[number]
        if low < region.low + region.offset or high + width > region.high + region.offset:
            raise self.error(region, pointers, mask, width, what)
        return pointers - np.uint64(region.offset), [Touch(number, pointers, mask, lanes * width)]

    def resolve_each(
        self, pointers: NDArray[np.uint64], mask: NDArray[np.bool_] | None, width: int, what: str
    ) -> tuple[NDArray[np.uint64], list[Touch]]:
        """The general case: lanes in several buffers, or pointers loaded from memory."""
        active = np.ones(pointers.shape, bool) if mask is None else mask
        real, touches = pointers.copy(), []
        while active.any():
            first = int(pointers[active][0])
            number = self.number_of(first)
            region = self.regions[number] if number is not None else self.find(first, what)
            tag = (pointers >> np.uint64(TAG_SHIFT)) == first >> TAG_SHIFT
            near, far = np.uint64(region.low + region.offset), np.uint64(region.high + region.offset)
            inside = active & tag & (pointers >= near) & (pointers + np.uint64(width) <= far)
            # A pointer with a number must stay in its buffer; one without may point to another.
            if not inside.flat[int(np.flatnonzero(active)[0])] or (region.offset and (active & tag & ~inside).any()):
                raise self.error(region, pointers, active & tag, width, what)
            number = self.regions.index(region)
            lanes = int(np.count_nonzero(inside))
            # The other lanes are in other buffers: element 0 stands for them.
            own = np.where(inside, pointers, np.uint64(region.address + region.offset))
            touches.append(Touch(number, own, None if lanes == inside.size else inside, lanes * width))
            real[inside] -= np.uint64(region.offset)
            active = active & ~inside
        return real, touches

    def number_of(self, pointer: int) -> int | None:
        """The number in the pointer, else that of the buffer it points into, else None."""
        tag = pointer >> TAG_SHIFT
        if tag:
            return tag - 1 if tag <= len(self.regions) else None
        inside = (k for k, region in enumerate(self.regions) if region.low <= pointer < region.high)
        return next(inside, None)

    def untagged(self, handle: Any) -> Any:
        """The handle with true addresses, for a kernel that converts a pointer to an integer."""
        number = self.number_of(int(handle.data.flat[0]))
        offset = 0 if number is None else self.regions[number].offset
        return interpreter.TensorHandle(handle.data - np.uint64(offset), handle.dtype)

    def find(self, address: int, what: str) -> Region:
        """The live tensor that a pointer loaded from memory points into, as in a grouped matmul."""
        found = [tensor for tensor in _live_tensors() if _low(tensor) <= address < _high(tensor)]
        if not found:
            raise OutOfBounds(f"{what} an address outside all arguments and live tensors")
        tensor = max(found, key=lambda one: (one.data_ptr() <= address, one.data_ptr(), one.numel()))
        dtype = interpreter.tl.str_to_ty(interpreter.triton.runtime.jit.mangle_type(tensor), None).element_ty
        return self.add("loaded_pointer", tensor, dtype, tagged=False)

    def error(
        self, region: Region, pointers: NDArray[np.uint64], mask: NDArray[np.bool_] | None, width: int, what: str
    ) -> OutOfBounds:
        active = pointers.reshape(-1) if mask is None else pointers[mask]
        near, far = np.uint64(region.low + region.offset), np.uint64(region.high + region.offset)
        bad = active[(active < near) | (active > far - np.uint64(width))]
        first = int(region.elements(bad[:1])[0])
        buffer = region.buffer
        size = buffer.item_bytes
        begin, end = (region.low - region.address) // size, (region.high - region.address) // size
        allowed = f"allowed: elements {begin} to {end - 1}" if end > begin else "it has no elements"
        return OutOfBounds(
            f"{what} element {first} of {buffer.name} ({len(bad)} of {active.size} lanes are outside it): its shape is "
            f"{list(buffer.shape)}, strides {list(buffer.strides)}; {allowed}"
        )


def tensor_behind(argument: Any) -> Any:
    """The tensor of an argument that only has an address, shape and strides, such as a library's view of a tensor.

    A launch on a GPU asks for `data_ptr()` alone. Anything else is returned unchanged.
    """
    if not hasattr(argument, "data_ptr") or hasattr(argument, "untyped_storage") or hasattr(argument, "base"):
        return argument
    address = argument.data_ptr()
    tensor = next((one for one in _live_tensors() if _low(one) <= address < _high(one)), None)
    if tensor is None:
        return argument
    offset = (address - _low(tensor)) // argument.dtype.itemsize
    view = torch.empty(0, dtype=argument.dtype)
    return view.set_(tensor.untyped_storage(), offset, tuple(argument.shape), tuple(argument.stride()))


def _live_tensors() -> list[torch.Tensor]:
    kinds = torch.Tensor, torch.nn.Parameter
    with torch._C.DisableTorchFunction():  # where there is no GPU, a tensor says that it is on one
        return [thing for thing in gc.get_objects() if type(thing) in kinds and thing.device.type == "cpu"]


def _low(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _high(tensor: torch.Tensor) -> int:
    return _low(tensor) + tensor.untyped_storage().nbytes()
