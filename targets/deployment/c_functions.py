"""The functions of a C library: their names, what they take in C, and calls of them from Python.

``entries`` names the functions of a library that is written. ``entries_of`` takes the functions of
a library that is loaded into this process; they are called with TVM's tensors.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from schedlang.targets.deployment.signature import (
    KernelParameter,
    Manifest,
    Signature,
    identifier,
    identifiers,
)
from schedlang.targets.errors import LibraryError, describe
from schedlang.tvm.codegen import runtime
from schedlang.tvm.codegen.compiler import ENTRY_PREFIX, element_type, open_once

# -- Names and types in C -------------------------------------------------------------------------

# DLPack's codes of element types.
_SIGNED, _UNSIGNED, _FLOAT, _BOOL = 0, 1, 2, 6
_TYPES = {(_FLOAT, 32): "float", (_FLOAT, 64): "double", (_BOOL, 8): "uint8_t"}
_TYPES |= {(_SIGNED, bits): f"int{bits}_t" for bits in (8, 16, 32, 64)}
_TYPES |= {(_UNSIGNED, bits): f"uint{bits}_t" for bits in (8, 16, 32, 64)}
# TVM's kinds of numbers by DLPack's codes, and the member of the union that holds them.
NUMBERS = {
    _SIGNED: ("SCHEDLANG_INT", "v_int64"),
    _UNSIGNED: ("SCHEDLANG_INT", "v_int64"),
    _FLOAT: ("SCHEDLANG_FLOAT", "v_float64"),
    _BOOL: ("SCHEDLANG_BOOL", "v_int64"),
}
_RESERVED = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const"
    " constexpr const_cast continue decltype default delete do double dynamic_cast else enum"
    " explicit export extern false float for friend goto if inline int long mutable namespace new"
    " noexcept not not_eq nullptr operator or or_eq private protected public register"
    " reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct"
    " switch template this thread_local throw true try typedef typeid typename typeof union"
    " unsigned using virtual void volatile wchar_t while xor xor_eq main schedlang_arguments"
    " FEATURES concept requires consteval constinit co_await co_yield co_return"
    # Macros that a header of the system may have defined.
    " linux unix errno assert stdin stdout stderr signals slots emit I EOF NAN NULL INFINITY"
    "".split()
)

_TYPE_NAME = re.compile(r"(u?int|char)\w*_t")
"""Types of <stdint.h>, which later parameters need, and keywords of C++."""


@dataclass(frozen=True)
class Entry:
    """A function of a library, as C sees it.

    Attributes
    ----------
    name: of the function in C.
    signature: of the program; ``code`` is the symbol of what runs it.
    """

    name: str
    signature: Signature
    code: str

    @property
    def names(self) -> list[str]:
        """The names of its functions in C."""
        return [self.name, *([f"{self.name}_tensors"] if self.tensors_prototype else [])]

    @property
    def prototype(self) -> str:
        """Its declaration, without the semicolon."""
        extents, names = parameter_names(self.signature)
        listed = [f"int64_t {name}" for name in extents]
        listed += [_declared(*one) for one in zip(self.signature.parameters, names, strict=True)]
        return f"int {self.name}({', '.join(listed) or 'void'})"

    @property
    def tensors_prototype(self) -> str:
        """The declaration of the function that takes tensors; empty where there are numbers too."""
        if any(one.shape is None for one in self.signature.parameters):
            return ""
        return f"int {self.name}_tensors(const schedlang_tensor *const *tensors, int count)"


def entries(name: str, signatures: Sequence[Signature], *, alone: bool) -> list[Entry]:
    """Return the entries of a library with this name.

    The name of one that is ``alone`` is that of the library, which precedes those of others.

    LibraryError for a name that there cannot be, and a parameter that C has no type for.
    """
    check_name(name)
    for signature in signatures:
        for parameter in signature.parameters:
            _check(signature, parameter)
    found = [
        Entry(name if alone else _name_in(name, one), one, ENTRY_PREFIX + one.name)
        for one in signatures
    ]
    names = Counter(seen for one in found for seen in one.names)
    twice = next((one for one, times in names.items() if times > 1), None)
    if twice is not None:
        raise LibraryError(f"two functions would be called {twice} in C: rename one of them")
    return found


def _name_in(library: str, signature: Signature) -> str:
    name = identifier(signature.name)
    # Those of a set begin with the template's name.
    begins = signature.served is not None and name.startswith(f"{library}_")
    return name if begins else f"{library}_{name}"


def check_name(name: str) -> None:
    """Raise LibraryError for what cannot be the name of a function in C."""
    known = isinstance(name, str) and name not in _RESERVED
    if not known or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise LibraryError(
            f"{name!r} cannot be the name of a function in C: give the file another name, or name="
        )
    if name.startswith("schedlang"):
        raise LibraryError(f"{name!r} begins like the functions that all libraries have")
    if any(hasattr(library, name) for library in _c_libraries()):
        raise LibraryError(
            f"{name!r} is a function of the C library, which programs would lose: give the file "
            "another name, or name="
        )


@cache
def _c_libraries() -> list[ctypes.CDLL]:
    found = []
    for name in ("libc.so.6", "libm.so.6"):
        with suppress(OSError):  # another C library
            found.append(ctypes.CDLL(name))
    return found


def _check(signature: Signature, parameter: KernelParameter) -> None:
    code, bits, lanes = element_type(parameter.dtype)
    if bits % 8 or lanes != 1:
        raise LibraryError(f"C has no type for the elements of {parameter}, in {signature.name}")
    if parameter.shape is None and (code, bits) not in _TYPES:
        raise LibraryError(f"C has no type for the number {parameter}, in {signature.name}")
    if parameter.shape is not None and None in parameter.shape and signature.served is None:
        raise LibraryError(
            f"the extents of {parameter} in {signature.name} are not fixed: export_library takes it"
        )


def c_type(dtype: str) -> str:
    """Return C's type of an element; of floating types that C has not, an unsigned integer's."""
    code, bits, _ = element_type(dtype)
    return _TYPES.get((code, bits), f"uint{bits}_t")


def declared_code(local: str, symbol: str) -> str:
    """Return the declaration of a function of TVM's convention, by another name."""
    return (
        f"extern int32_t {local}(void *, const schedlang_any *, int32_t, schedlang_any *)"
        f" __asm__({c_string(symbol)});\n"
    )


def c_string(text: str) -> str:
    """Return a text as C writes it, between quotes."""
    plain = set(range(32, 127)) - set(b'"?\\')
    return '"' + "".join(chr(c) if c in plain else f"\\{c:03o}" for c in text.encode()) + '"'


def _declared(parameter: KernelParameter, name: str) -> str:
    if parameter.shape is None:
        return f"{c_type(parameter.dtype)} {name}"
    return f"{'' if parameter.written else 'const '}{c_type(parameter.dtype)} *{name}"


def parameter_names(signature: Signature) -> tuple[list[str], list[str]]:
    """Return names for the extents that vary, and for the parameters; no two are alike."""
    extents = varying(signature)
    wanted = [*extents, *(one.name for one in signature.parameters)]
    found = identifiers([_plain(one) for one in wanted], _RESERVED)
    return found[: len(extents)], found[len(extents) :]


def varying(signature: Signature) -> list[str]:
    """Return the names of the extents that have several values."""
    bounds = signature.served.bounds if signature.served is not None else {}
    return [name for name, (low, high) in bounds.items() if low < high]


def _plain(text: str) -> str:
    """Return a name in C that is no fixed-width type, no mathematical constant, and none of ours.

    A parameter may have the name of a function, or of any other type: it hides that in its scope.
    """
    name = identifier(text)
    taken = name.startswith(("M_", "schedlang")) or _TYPE_NAME.fullmatch(name)
    return f"x{name}_x" if taken else name


# -- Functions of a library in this process -------------------------------------------------------

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
