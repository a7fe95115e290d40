"""Libraries for C in this process: their functions, called with TVM's tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schedlang.targets.deployment.c.entry import c_type
from schedlang.targets.deployment.manifest import Manifest
from schedlang.targets.deployment.signature import Signature
from schedlang.targets.errors import LibraryError, describe
from schedlang.tvm.codegen import runtime
from schedlang.tvm.codegen.library import open_once

_NUMBERS = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}")
       for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


class CError(RuntimeError):
    """A function of a C library failed; ``status`` is what it returned, as in its header."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or f"it failed with the status {status}")
        self.status = status


def entries_of(path: Path, manifest: Manifest, threads: int) -> dict[str, Callable[..., None]]:
    """Return the functions of a library, by their names in the program.

    ``threads`` is the number for parallel loops, also of those who have the library open already;
    0 leaves it to the library.
    """
    try:
        library = open_once(path, ctypes.CDLL)
        found = {
            one.name: _function(library, getattr(library, manifest.entries[one.name]), one)
            for one in manifest.functions
        }
    except (OSError, AttributeError, KeyError) as error:
        raise LibraryError(f"cannot load {path}: {describe(error)}") from error
    library.schedlang_set_threads(threads, -1)
    return found


def _function(library: Any, entry: Any, signature: Signature) -> Callable[..., None]:
    numbers = [one.shape is None for one in signature.parameters]
    library.schedlang_error.restype = ctypes.c_char_p
    run: Callable[[Sequence[Any]], int]
    if any(numbers):
        # The library sees addresses alone.
        entry.argtypes = [
            _NUMBERS[c_type(one.dtype)] if number else ctypes.c_void_p
            for one, number in zip(signature.parameters, numbers, strict=True)
        ]

        run = _with_numbers(entry, signature)
    else:
        run = _with_tensors(getattr(library, f"{entry.__name__}_tensors"), len(numbers))

    def call(*arguments: Any) -> None:
        status = run(arguments)
        if status:
            raise CError(status, library.schedlang_error().decode(errors="replace"))

    return call


def _with_numbers(entry: Any, signature: Signature) -> Callable[[Sequence[Any]], int]:
    """Return a call of the function that takes addresses, and numbers.

    ``CompiledFunction`` looks at each argument of a function that takes a number.
    """
    numbers = [one.shape is None for one in signature.parameters]

    def run(arguments: Sequence[Any]) -> int:
        pairs = zip(arguments, numbers, strict=True)
        return int(entry(*[one if number else one.data_ptr() for one, number in pairs]))

    return run


def _with_tensors(entry: Any, count: int) -> Callable[[Sequence[Any]], int]:
    """Return a call of the function that takes tensors, and looks at their types and shapes."""
    kind, ours = ctypes.c_void_p * count, runtime.DeviceArray

    def run(arguments: Sequence[Any]) -> int:
        tensors = [one if type(one) is ours else runtime.borrow(one) for one in arguments]
        return int(entry(kind(*map(runtime.dlpack_address, tensors)), len(tensors)))

    return run
