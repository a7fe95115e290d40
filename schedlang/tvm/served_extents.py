"""Which extents a function serves, and which shapes its tensors then have.

Several functions become one that takes the right one by its extents (``Branching``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, StringImm
from tvm_ffi import structural_map

from schedlang.codec import Stored, decode, encode
from schedlang.tvm import program
from schedlang.tvm.full_tiles import with_own_variables
from schedlang.tvm.statements import all_of, sequence
from schedlang.tvm.symbolic_program import Formula, Reading, SymbolicProgram

_ATTRIBUTE = "schedlang.served"
Bounds = Mapping[str, tuple[int, int]]
Shapes = Sequence[Sequence[int]]


@Stored(more=True)
@dataclass(frozen=True)
class Served:
    """The extents that a function serves.

    Attributes
    ----------
    bounds: the least and the greatest value of each extent; equal where it is fixed.
    readings: which shape tells an extent; those that are fixed need none.
    shapes: formulas of the extents of each argument.
    """

    bounds: Bounds
    readings: Mapping[str, Reading]
    shapes: tuple[tuple[Formula, ...], ...]

    @classmethod
    def alone(cls, extents: Mapping[str, int], shapes: Shapes) -> Served:
        """Return that of a function for one shape."""
        fixed = tuple(tuple(Formula((((), size),)) for size in shape) for shape in shapes)
        return cls({name: (value, value) for name, value in extents.items()}, {}, fixed)

    @property
    def varies(self) -> bool:
        """Whether an extent has several values."""
        return any(low < high for low, high in self.bounds.values())

    def extents_of(self, shapes: Shapes) -> dict[str, int] | None:
        """Return the extents that these shapes tell; None where these are not served."""
        if [len(one) for one in shapes] != [len(one) for one in self.shapes]:
            return None
        extents = {name: low for name, (low, _) in self.bounds.items()}
        for name, reading in self.readings.items():
            extents[name] = shapes[reading.argument][reading.axis] - reading.more
        return extents if within(extents, self.bounds) and self.fits(shapes, extents) else None

    def fits(self, shapes: Shapes, extents: Mapping[str, int]) -> bool:
        """Return whether these are the shapes of the tensors for the given extents."""
        return [tuple(shape) for shape in shapes] == [
            tuple(formula.at(extents) for formula in axes) for axes in self.shapes
        ]

    def __str__(self) -> str:
        return bounds_text(self.bounds)


def fitting(served: Sequence[Served], shapes: Shapes) -> dict[tuple[int, ...], int]:
    """Return the places of those that serve tensors of these shapes, by their extents' values.

    Of several that serve the same extents it is the first. More than one key means that the shapes
    do not tell the extents apart.
    """
    found: dict[tuple[int, ...], int] = {}
    for place, one in enumerate(served):
        extents = one.extents_of(shapes)
        if extents is not None:
            found.setdefault(tuple(extents.values()), place)
    return found


def with_served(func: tirx.PrimFunc, served: Served) -> tirx.PrimFunc:
    """Return a function that says what it serves: libraries record it."""
    return func.with_attr(_ATTRIBUTE, json.dumps(encode(served)))


def served_of(func: tirx.PrimFunc) -> Served | None:
    """Return what ``with_served`` noted; None for another function."""
    text = func.attrs.get(_ATTRIBUTE) if func.attrs else None
    return None if text is None else decode(Served, json.loads(str(text)))


def within(extents: Mapping[str, int], bounds: Bounds) -> bool:
    """Return whether each extent is within its bounds."""
    return all(low <= extents[name] <= high for name, (low, high) in bounds.items())


def bounds_text(bounds: Bounds) -> str:
    """Write bounds: ``rows=1 to 512, width=768``."""
    return ", ".join(
        f"{name}={low}" if low == high else f"{name}={low} to {high}"
        for name, (low, high) in bounds.items()
    )


# -- One function that takes one of several programs, by its extents ------------------------------


class Branching:
    """Programs with the same arguments, put together in branches over extents.

    Parameters
    ----------
    unified: the program with the arguments, and where its extents are read from.
    """

    def __init__(self, unified: SymbolicProgram) -> None:
        self._func = unified.mod[program.MAIN]
        self._extents = {}
        for name, reading in unified.readings.items():
            size = self._func.params[reading.argument].ty.shape[reading.axis]
            self._extents[name] = size - reading.more if reading.more else size
        self._buffers: list[Any] = []

    def leaf(self, mod: IRModule) -> Any:
        """Return the statement that runs a program, for any extents or for fixed ones."""
        func = mod[program.MAIN]
        block = with_own_variables(self._with_arguments(func)).block
        self._buffers += block.alloc_buffers[:]
        return block.body

    def _with_arguments(self, func: Any) -> Any:
        """Return the body of a function with the arguments of this one."""
        table = {
            own: shared
            for own, shared in zip(func.params, self._func.params, strict=True)
            if not own.same_as(shared)
        }
        if not table:
            return func.body
        return structural_map(func.body, (tirx.Var, lambda var: table.get(var, var)), order="pre")

    def branch(self, name: str, at: int, below: Any, above: Any) -> Any:
        """Return the statement that runs ``below`` where an extent is less than ``at``."""
        extent = self._extents[name]
        return tirx.IfThenElse(extent < tirx.const(at, extent.ty.dtype), below, above)

    def within(self, bounds: Bounds, body: Any) -> Any:
        """Return the statement that runs ``body`` within bounds, and fails elsewhere."""
        conditions: list[Any] = []
        for name, extent in self._extents.items():
            low, high = (tirx.const(one, extent.ty.dtype) for one in bounds[name])
            conditions += [extent >= low, extent <= high]
        if not conditions:
            return body
        message = StringImm(f"it serves {bounds_text(bounds)}, and no other extents")
        # TVM's constructor takes these two the other way round than it says.
        check = tirx.AssertStmt(all_of(conditions), StringImm("ValueError"), [message])
        return sequence([check, body])

    def function(self, body: Any) -> IRModule:
        """Return the module with a function whose body is a statement of the above."""
        root = program.changed_block(self._func.body.block, body=body, allocated=self._buffers)
        return program.as_main(program.with_root(self._func, root))
