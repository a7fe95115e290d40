"""What the functions of a compiled program take, and what a library records of them.

A ``Signature`` lists the parameters of a function. A ``Manifest`` is kept in a library: the
signatures of its functions, its target, and what made it. Both are JSON values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from schedlang.codec import CodecError, Stored, decode, encode
from schedlang.files import Document
from schedlang.targets.errors import LibraryError
from schedlang.tvm import codegen, program
from schedlang.tvm.analysis.roles import parameter_roles
from schedlang.tvm.program import TensorFunction, TensorProgram, stated_outputs
from schedlang.tvm.served_extents import Served, served_of
from schedlang.tvm.values import tensor_bytes

# -- Signatures -----------------------------------------------------------------------------------

_MOST = 60
"""Most characters of a wrong argument that an error shows."""


@Stored(more=True)
@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One parameter of a function.

    Attributes
    ----------
    name: its name in the program.
    dtype: the element type, such as ``"float32"``.
    shape: extents in elements, a symbolic one as None; None for a number that is no tensor.
    role: ``"input"``, ``"output"`` or ``"inout"``.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    role: str

    @property
    def written(self) -> bool:
        """Whether the program writes it."""
        return self.role != "input"

    @property
    def bytes(self) -> int | None:
        """Size of the tensor in bytes; None if the program does not fix it."""
        if self.shape is None or None in self.shape:
            return None
        return tensor_bytes((extent for extent in self.shape if extent is not None), self.dtype)

    def __str__(self) -> str:
        """Write it as ``A: float32[64, 64]``."""
        if self.shape is None:
            return f"{self.name}: {self.dtype}"
        extents = ", ".join("?" if extent is None else str(extent) for extent in self.shape)
        return f"{self.name}: {self.dtype}[{extents}]"


@Stored(left_out=["served"], more=True)
@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes.

    Attributes
    ----------
    name: of the function.
    parameters: in order.
    parallel: whether it has parallel loops.
    served: of a function of a set of shapes, the extents that it serves.
    """

    name: str
    parameters: tuple[KernelParameter, ...]
    parallel: bool
    served: Served | None = None

    def __str__(self) -> str:
        """Write it as ``main(A: float32[64, 64], ...)``."""
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def signatures_of(mod: TensorProgram) -> tuple[Signature, ...]:
    """Return the signatures of the functions that a compiled module exports.

    Raises TypeError for anything but a module.
    """
    if not program.is_module(mod):
        raise TypeError(
            "a program to compile is an IRModule, such as schedule.mod or workload.mod, not "
            f"{repr(mod)[:_MOST]} ({type(mod).__name__})"
        )
    functions = program.named_functions(mod).values()
    found = [_signature(func) for func in functions if program.symbol(func)]
    return tuple(sorted(found, key=_order))


def _order(signature: Signature) -> tuple[bool, int]:
    """Those of one shape before those of ranges, and ``range_2`` before ``range_10``."""
    varies = signature.served is not None and signature.served.varies
    return varies, len(signature.name) if varies else 0


def _signature(func: TensorFunction) -> Signature:
    described = program.parameters(func)
    if program.block_realizes(func):
        roles = parameter_roles(func)
    else:  # no block says what it writes: everything may be
        stated = stated_outputs(func)
        roles = tuple("output" if k in stated else "inout" for k in range(len(described)))
    parameters = tuple(
        KernelParameter(one.name, one.dtype, _shape(one), role if one.kind == "buffer" else "input")
        for one, role in zip(described, roles, strict=True)
    )
    parallel = program.has_parallel_loop(func)
    return Signature(program.symbol(func), parameters, parallel, served_of(func))


def _shape(parameter: program.FunctionParameter) -> tuple[int | None, ...] | None:
    if parameter.kind != "buffer":
        return None
    return tuple(extent if isinstance(extent, int) else None for extent in parameter.shape)


# -- The manifest of a library --------------------------------------------------------------------

_DAMAGED = "what the library records is damaged: {error}"
_DOCUMENT = Document(
    version=("version", 1),
    damaged=_DAMAGED,
    newer="the library has a record of version {found!r}, and this schedlang reads version "
    "{known}: export it again, or install the schedlang that wrote it",
)
# Versions whose machine code and run time fit together agree in this many numbers.
_RELEASE_NUMBERS = {"tvm": 2, "ffi": 2}


@Stored(more=True)
@dataclass(frozen=True)
class Manifest:
    """What a library records.

    Attributes
    ----------
    functions: signatures of the functions it exports.
    target: what ``Target.deployment`` returned; ``kind`` and ``key`` are always there.
    device_type: DLPack's number of the device that runs the functions.
    software: versions of TVM, its FFI and LLVM.
    entries: of a library for C, the name there of each function; it needs no ``software``.
    sizes: whether its functions are one program at several sizes.
    """

    functions: tuple[Signature, ...]
    target: Mapping[str, Any]
    device_type: int
    software: Mapping[str, str]
    entries: Mapping[str, str] = field(default_factory=dict)
    sizes: bool = False

    @property
    def threads(self) -> int:
        """Number of threads that its parallel loops were tuned for; 0 if they have none."""
        return int(self.target.get("threads", 0))

    def to_json(self) -> str:
        """Write it as one line of JSON."""
        return _DOCUMENT.write(encode(self))

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what ``to_json`` wrote. Raises LibraryError for anything else."""
        try:
            stored = _DOCUMENT.read(text)
        except CodecError as error:
            raise LibraryError(str(error)) from error
        try:
            made = decode(cls, stored)
            _ = made.threads, made.target["kind"], made.target["key"]
        except (ValueError, KeyError, TypeError) as error:
            raise LibraryError(_DAMAGED.format(error=repr(error))) from error
        return made

    def check_software(self) -> None:
        """Raise LibraryError if another release of TVM made the library, and it needs that one."""
        if self.entries:
            return
        here = codegen.versions()
        for name, numbers in _RELEASE_NUMBERS.items():
            made = self.software.get(name, "unknown")
            if made.split(".")[:numbers] != here[name].split(".")[:numbers]:
                package = {"tvm": "apache-tvm", "ffi": "apache-tvm-ffi"}[name]
                raise LibraryError(
                    f"the library was made with {package} {made}, and this process has "
                    f"{here[name]}: export it again here, or install {package}=={made}"
                )


# -- Names of parameters as other languages take them ---------------------------------------------


def identifier(text: str) -> str:
    """Return a name of letters, digits and underscores that begins with a letter."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    return f"x{name}" if name[0].isdigit() else name


def identifiers(texts: Sequence[str], reserved: Collection[str]) -> list[str]:
    """Return names for texts, no two alike, and none of the reserved ones."""
    found: list[str] = []
    for text in texts:
        base = identifier(text)
        names = chain([base], (f"{base}_{number}" for number in count(1)))
        found.append(next(one for one in names if one not in found and one not in reserved))
    return found
