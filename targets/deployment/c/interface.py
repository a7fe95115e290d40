"""What a library looks like in C: its header, and the source of its entries."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from schedlang.targets.deployment.identifiers import identifier, identifiers
from schedlang.targets.deployment.signature import Parameter, Signature
from schedlang.targets.errors import LibraryError
from schedlang.tvm.codegen.objects import ENTRY_PREFIX, element_type

# DLPack's codes of element types.
_SIGNED, _UNSIGNED, _FLOAT, _BOOL = 0, 1, 2, 6
_TYPES = {(_FLOAT, 32): "float", (_FLOAT, 64): "double", (_BOOL, 8): "uint8_t"}
_TYPES |= {(_SIGNED, bits): f"int{bits}_t" for bits in (8, 16, 32, 64)}
_TYPES |= {(_UNSIGNED, bits): f"uint{bits}_t" for bits in (8, 16, 32, 64)}
# TVM's kinds of numbers by DLPack's codes, and the member of the union that holds them.
_NUMBERS = {
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
    " concept requires consteval constinit co_await co_yield co_return"
    # Macros that a header of the system may have defined.
    " linux unix errno assert stdin stdout stderr signals slots emit I EOF NAN NULL INFINITY"
    "".split()
)


MADE = "/* Made by schedlang"
"""How headers begin."""


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
        names = _names(self.signature.parameters)
        listed = (_declared(*one) for one in zip(self.signature.parameters, names, strict=True))
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
        Entry(name if alone else f"{name}_{identifier(one.name)}", one, ENTRY_PREFIX + one.name)
        for one in signatures
    ]
    names = Counter(seen for one in found for seen in one.names)
    twice = next((one for one, times in names.items() if times > 1), None)
    if twice is not None:
        raise LibraryError(f"two functions would be called {twice} in C: rename one of them")
    return found


def check_name(name: str) -> None:
    """Raise LibraryError for what cannot be the name of a function in C."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in _RESERVED:
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


@dataclass(frozen=True)
class Dispatch:
    """A function that calls one of several entries by the shapes of its tensors.

    Attributes
    ----------
    library: its name, of which the function's name is made.
    entries: that it calls, each at other shapes.
    """

    library: str
    entries: Sequence[Entry]

    @property
    def name(self) -> str:
        """The name of the function in C."""
        return f"{self.library}_tensors"

    @property
    def prototype(self) -> str:
        """Its declaration, without the semicolon."""
        return f"int {self.name}(const schedlang_tensor *const *tensors, int count)"

    @property
    def documented(self) -> str:
        """Its declaration, with a comment."""
        names = ", ".join(one.name for one in self.entries)
        return (
            f"/* Calls the one of these functions that has the shapes of the inputs:\n * {names}.\n"
            f" * SCHEDLANG_SHAPE where none has. */\n{self.prototype};\n\n"
        )

    @property
    def defined(self) -> str:
        """Its definition, behind those of the entries."""
        functions = ", ".join(
            f"&schedlang_{number}_function" for number in range(len(self.entries))
        )
        known = ", ".join(one.name for one in self.entries)
        return (
            "\nstatic const schedlang_function *const schedlang_sizes[] = "
            f"{{{functions}}};\n\nSCHEDLANG_ENTRY {self.prototype} {{\n"
            f"  return schedlang_call_sizes_1({c_string(self.library)}, schedlang_sizes, "
            f"{len(self.entries)},\n    {c_string(known)}, tensors, count);\n}}\n"
        )


def header(
    name: str, made_for: str, found: Sequence[Entry], dispatch: Dispatch | None = None
) -> str:
    """Return the header of a library; programs may include those of several."""
    guard = f"SCHEDLANG_LIBRARY_{name.upper()}_H"
    shared = files(__package__).joinpath("schedlang.h").read_text(encoding="utf-8")
    return (
        f"{MADE} for {made_for}. {name} needs no TVM. */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{shared}\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"{'' if dispatch is None else dispatch.documented}"
        f"{''.join(map(_documented, found))}"
        f"#ifdef __cplusplus\n}}\n#endif\n#endif /* {guard} */\n"
    )


def source(
    found: Sequence[Entry],
    threads: int,
    features: Iterable[str],
    sve_bits: int = 0,
    dispatch: Dispatch | None = None,
) -> str:
    """Return the C source of the entries. The code was tuned for this number of threads.

    ``features`` of the CPU and the width of SVE registers are what the code needs.
    """
    text = f'#include "kernel.h"\n#include "glue.h"\n\nSCHEDLANG_GLUE({threads})\n\n'
    text += f'#define FEATURES "{"".join(f"{one} " for one in features)}"\n'
    text += "static int schedlang_checked;\n"
    text += "".join(_defined(*one, sve_bits) for one in enumerate(found))
    return text if dispatch is None else text + dispatch.defined


def _documented(entry: Entry) -> str:
    lines = [f"/* {_comment(entry.signature.name)}, contiguous tensors in this order:"]
    lines += [f" *   {_comment(str(one))} ({one.role})" for one in entry.signature.parameters]
    lines += [" * Returns SCHEDLANG_OK, or another status, whose reason schedlang_error() has. */"]
    text = "\n".join(lines) + f"\n{entry.prototype};\n"
    if entry.tensors_prototype:
        text += f"/* The same for {len(entry.signature.parameters)} tensors, whose types and shapes"
        text += f" are checked. */\n{entry.tensors_prototype};\n"
    return text + "\n"


def _defined(number: int, entry: Entry, sve_bits: int) -> str:
    own, parameters = f"schedlang_{number}", entry.signature.parameters
    names = _names(parameters)
    shapes, rows, values = [], [], []
    for place, (one, local) in enumerate(zip(parameters, names, strict=True)):
        code, bits, _ = element_type(one.dtype)
        size = bits // 8
        extents = ", ".join(map(str, one.shape or ()))
        axes = -1 if one.shape is None else len(one.shape)
        shapes.append(f"static const int64_t {own}_shape_{place}[] = {{{extents or '1'}}};\n")
        rows.append(
            f"    {{{c_string(str(one))}, {axes}, {code}, {bits}, {int(one.written)}, {size}, "
            f"{own}_shape_{place}, {one.bytes or 0}}},\n"
        )
        if one.shape is None:
            kind, member = _NUMBERS[code]
            values.append(f"{{{kind}, 0, {{.{member} = {local}}}}}")
        else:
            values.append(f"{{SCHEDLANG_DLTENSOR, 0, {{.v_ptr = (void *){local}}}}}")
    text = "\n" + declared_code(f"{own}_code", entry.code) + "".join(shapes)
    text += f"static const schedlang_parameter {own}_parameters[] = {{\n{''.join(rows)}}};\n"
    text += f"static const schedlang_function {own}_function = {{\n"
    text += f'    "{entry.name}", {own}_code, {len(parameters)}, {own}_parameters,'
    text += f" FEATURES, {sve_bits}, &schedlang_checked}};\n\n"
    text += f"SCHEDLANG_ENTRY {entry.prototype} {{\n"
    text += f"  schedlang_any schedlang_arguments[] = {{{', '.join(values)}}};\n"
    text += f"  return schedlang_call_1(&{own}_function, schedlang_arguments);\n}}\n"
    if entry.tensors_prototype:
        text += f"\nSCHEDLANG_ENTRY {entry.tensors_prototype} {{\n"
        text += f"  return schedlang_call_tensors_1(&{own}_function, tensors, count);\n}}\n"
    return text


def _check(signature: Signature, parameter: Parameter) -> None:
    code, bits, lanes = element_type(parameter.dtype)
    if bits % 8 or lanes != 1:
        raise LibraryError(f"C has no type for the elements of {parameter}, in {signature.name}")
    if parameter.shape is None and (code, bits) not in _TYPES:
        raise LibraryError(f"C has no type for the number {parameter}, in {signature.name}")
    if parameter.shape is not None and None in parameter.shape:
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


def _comment(text: str) -> str:
    return " ".join(text.replace("*", "* ").replace("/*", "/ *").split())


def _declared(parameter: Parameter, name: str) -> str:
    if parameter.shape is None:
        return f"{c_type(parameter.dtype)} {name}"
    return f"{'' if parameter.written else 'const '}{c_type(parameter.dtype)} *{name}"


def _names(parameters: Sequence[Parameter]) -> list[str]:
    """Return names for parameters that C takes, no two alike."""
    return identifiers([_plain(one.name) for one in parameters], _RESERVED)


def _plain(text: str) -> str:
    """Return a name that is none of a type or of a mathematical constant in C."""
    name = identifier(text)
    return f"x{name}_x" if name.startswith("M_") or name.endswith("_t") else name
