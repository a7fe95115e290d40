"""Tensors in a GPU's memory; writes next to them do not go unnoticed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import numpy as np

from schedlang.targets.measure.verify import Array
from schedlang.tvm.codegen import device as devices
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import Device

GUARD_BYTES = 1 << 18
"""On each side of a tensor. A multiple of 256: CUDA's allocations start at those."""
_GUARD = 0x5A


class DeviceMemory:
    """A tensor in the middle of an allocation, between bytes that no program may touch.

    They have a pattern, which ``overrun`` looks at: a write up to 256 KB before or after the tensor
    is found. One that is farther away may reach another tensor, or be an illegal access. Reads
    outside are not found.
    """

    def __init__(self, shape: Sequence[int], dtype: str, device: Device) -> None:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        self._whole = runtime.empty_tensor((size + 2 * GUARD_BYTES,), "uint8", device)
        start = devices.address_of(self._whole)
        self._inner = devices.BorrowedTensor(start + GUARD_BYTES, shape, dtype, device)
        self.tensor = self._inner.tensor
        self._guards = {
            "before": devices.BorrowedTensor(start, (GUARD_BYTES,), "uint8", device),
            "after": devices.BorrowedTensor(
                start + GUARD_BYTES + size, (GUARD_BYTES,), "uint8", device
            ),
        }
        self._pattern = np.full(GUARD_BYTES, _GUARD, np.uint8)
        self._mend()

    def fill(self, value: Array) -> None:
        """Copy ``value`` to the GPU."""
        self.tensor.copyfrom(value)

    def read(self) -> Array:
        """Return a copy of the tensor's values."""
        found: Array = self.tensor.numpy()
        return found

    def look(self) -> Array:
        """Return a copy of the tensor's values: they cannot be viewed from here."""
        return self.read()

    def read_only(self) -> AbstractContextManager[None]:
        """Do nothing: a GPU's memory has no protection; changed inputs are seen afterwards."""
        return nullcontext()

    def overrun(self) -> str | None:
        """Say on which side a program wrote outside the tensor, and mend it."""
        for place, guard in self._guards.items():
            if not (guard.tensor.numpy() == _GUARD).all():
                self._mend()
                return place
        return None

    def _mend(self) -> None:
        for guard in self._guards.values():
            guard.tensor.copyfrom(self._pattern)
