"""What the functions of a compiled program take, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from schedlang.tvm import program
from schedlang.tvm.data_flow.roles import parameter_roles
from schedlang.tvm.stated_outputs import stated_outputs
from schedlang.tvm.symbolic import Served, served_of
from schedlang.tvm.values import tensor_bytes

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction, TensorProgram

_MOST = 60
"""Most characters of a wrong argument that an error shows."""


@dataclass(frozen=True, slots=True)
class Parameter:
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
    parameters: tuple[Parameter, ...]
    parallel: bool
    served: Served | None = None

    def __str__(self) -> str:
        """Write it as ``main(A: float32[64, 64], ...)``."""
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "parameters": [asdict(one) for one in self.parameters],
            "parallel": self.parallel,
            **({} if self.served is None else {"served": self.served.to_json()}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Signature:
        """Read what ``to_json`` returned. Raises KeyError, TypeError or ValueError for others."""
        parameters = tuple(
            Parameter(
                str(one["name"]),
                str(one["dtype"]),
                None if one["shape"] is None else tuple(one["shape"]),
                str(one["role"]),
            )
            for one in value["parameters"]
        )
        served = Served.from_json(value["served"]) if "served" in value else None
        return cls(str(value["name"]), parameters, bool(value["parallel"]), served)


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
        Parameter(one.name, one.dtype, _shape(one), role if one.kind == "buffer" else "input")
        for one, role in zip(described, roles, strict=True)
    )
    parallel = program.has_parallel_loop(func)
    return Signature(program.symbol(func), parameters, parallel, served_of(func))


def _shape(parameter: program.Parameter) -> tuple[int | None, ...] | None:
    if parameter.kind != "buffer":
        return None
    return tuple(extent if isinstance(extent, int) else None for extent in parameter.shape)
