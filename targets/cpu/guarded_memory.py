"""Tensors in main memory; writes outside them do not go unnoticed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from schedlang.targets.cpu.address_space import PAGE, exit_on_fault, make_writable, reserve
from schedlang.targets.measure.verify import Array
from schedlang.tvm.codegen import runtime

# Before each tensor, and where no address space can be reserved after it too.
_GUARD_BYTES = 1 << 16
_GUARD = 0x5A
# On each side, and at least the size of the tensor: a program that mistakes a stride is far away.
_RESERVE_BYTES = 256 << 20


class GuardedMemory:
    """A tensor in main memory, and what is around it that no program may touch.

    The tensor ends where address space begins that nobody may read or write, except for bytes of
    padding that align its start. Some bytes in front of it begin such address space too. A program
    that comes there crashes; the bytes between have a pattern, which ``overrun`` looks at.

    Where the system does not reserve address space, there is only the pattern, on both sides.
    """

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory, start, self._pages = _place(size)
        self.tensor = runtime.tensor_in(memory[start : start + size], shape, dtype)
        self._values = memory[start : start + size].view(np.dtype(dtype)).reshape(tuple(shape))
        self._guards = {"before": memory[:start], "after": memory[start + size :]}
        self._mend()

    def fill(self, value: Array) -> None:
        """Copy ``value`` into the tensor."""
        np.copyto(self._values, value, casting="no")

    def read(self) -> Array:
        """Return a copy of the tensor's values."""
        return self._values.copy()

    def look(self) -> Array:
        """Return a view of the tensor's values."""
        return self._values

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """End this process where it writes to the tensor or near it, for the ``with`` block.

        Its exit status is ``worker.exit.WRITE_FAULT``. Does nothing on other systems than Linux,
        and where no address space was reserved.
        """
        if self._pages is None or sys.platform != "linux":
            yield
            return
        with exit_on_fault():
            make_writable(self._pages, False)
            try:
                yield
            finally:
                make_writable(self._pages, True)

    def overrun(self) -> str | None:
        """Say on which side a program wrote outside the tensor, and mend it."""
        for place, guard in self._guards.items():
            if not (guard == _GUARD).all():
                self._mend()
                return place
        return None

    def _mend(self) -> None:
        for guard in self._guards.values():
            guard[:] = _GUARD


def _place(size: int) -> tuple[Array, int, Array | None]:
    """Return memory for ``size`` bytes and what is around them, and where they start in it.

    Also returns the memory as pages that can be protected, where it is that.
    """
    total = -(-(_GUARD_BYTES + size) // PAGE) * PAGE
    memory = reserve(total, max(_RESERVE_BYTES, -(-size // PAGE) * PAGE))
    if memory is not None:
        return memory, (total - size) // runtime.ALIGNMENT * runtime.ALIGNMENT, memory
    plain = runtime.empty_tensor((size + 2 * _GUARD_BYTES,), "uint8")
    return np.from_dlpack(plain), _GUARD_BYTES, None
