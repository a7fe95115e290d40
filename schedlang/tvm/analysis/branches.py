"""A program that notes which sides of its branches it takes.

A branch is each place in an expression where the values of tensors decide: a choice, a maximum, a
condition. ``SideFinder`` finds the two sides of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm_ffi import structural_equal

from schedlang.tvm.program import MAIN, as_main, changed_block, with_root
from schedlang.tvm.statements import bindings_of, changed_loop, parts_of, sequence
from schedlang.tvm.values import (
    COMPARISONS,
    OPPOSITES,
    called,
    choice_of,
    dtype_of,
    found_in,
    found_outside_loads,
    holds,
    operands_of,
    substituted,
)

_CONSTANT = re.compile(r"\b\w+\((-?[\d.]+(?:e[+-]?\d+)?)\)")


@dataclass(frozen=True)
class Branch:
    """A place where the values of tensors decide what a program computes.

    Attributes
    ----------
    block: name of the block.
    sides: conditions of its two sides, as text. At most one holds at a time: of the maximum of two
        equal numbers, neither does.
    constants: numbers in it.
    operands: what is compared.
    """

    block: str
    sides: tuple[str, str]
    constants: tuple[float, ...]
    operands: tuple[Any, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class BranchRecorder:
    """A program with its branches.

    Attributes
    ----------
    program: has one more argument, int32 of shape (branches, 2). It sets an element to 1 when it
        takes that side.
    branches: comparisons, minima, maxima, absolute values and other conditions that depend on the
        values of tensors. Those of a reduction with its own result are left out: it takes both.
    """

    program: IRModule
    branches: tuple[Branch, ...]


def record_branches(mod: IRModule) -> BranchRecorder | None:
    """Return an unscheduled program that notes its branches; None if it has none."""
    func = mod[MAIN]
    count = len(branches_of(mod))
    if count == 0:
        return None
    taken = tirx.decl_buffer((count, 2), "int32", name="taken")
    changed, branches = _Rewriter(taken).rewrite(func)
    program = tirx.PrimFunc([*func.params, taken], changed.body, func.ret_type, func.attrs)
    return BranchRecorder(as_main(program), branches)


def branches_of(mod: IRModule) -> tuple[Branch, ...]:
    """Return the branches of an unscheduled program, as ``record_branches`` has them."""
    func = mod[MAIN]
    return _Rewriter(None).rewrite(func)[1] if isinstance(func.body, SBlockRealize) else ()


class _Rewriter:
    """Puts notes before the statements of a program; only counts branches without ``taken``."""

    def __init__(self, taken: Any) -> None:
        self._taken = taken
        self._branches: dict[tuple[str, str], Branch] = {}
        self._data: set[Any] = set()
        self._block = ""
        self._accumulators: list[Any] = []

    def rewrite(self, func: tirx.PrimFunc) -> tuple[tirx.PrimFunc, tuple[Branch, ...]]:
        """Return the program with notes, and its branches."""
        root = func.body.block
        changed = with_root(func, changed_block(root, body=self._inside(root.body)))
        return changed, tuple(self._branches.values())

    def _inside(self, stmt: Any) -> Any:
        """Return a statement in the place of one inside another."""
        return sequence(self._statement(stmt))

    def _statement(self, stmt: Any) -> list[Any]:
        """Return what stands in the place of a statement."""
        if isinstance(stmt, tirx.SeqStmt):
            return [new for child in stmt.seq for new in self._statement(child)]
        if isinstance(stmt, tirx.For):
            return self._loop(stmt)
        if isinstance(stmt, tirx.While):
            notes = self._noted(stmt.condition, condition=True)
            body = sequence([*self._statement(stmt.body), *notes])
            return [*notes, tirx.While(stmt.condition, body)]
        if isinstance(stmt, tirx.IfThenElse):
            notes = self._noted(stmt.condition, condition=True)
            yes, *no = map(self._inside, parts_of(stmt))
            return [*notes, tirx.IfThenElse(stmt.condition, yes, no[0] if no else None)]
        if isinstance(stmt, SBlockRealize):
            return self._realize(stmt)
        if isinstance(stmt, tirx.AttrStmt):
            return [tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, self._inside(stmt.body))]
        if isinstance(stmt, tirx.BufferStore):
            return [*self._noted(stmt.value, *stmt.indices), stmt]
        if isinstance(stmt, tirx.Bind):
            if self._depends(stmt.value):
                self._data.add(stmt.var)
            return [*self._noted(stmt.value), stmt]
        if isinstance(stmt, tirx.Evaluate):
            return [*self._noted(stmt.value), stmt]
        return [stmt]

    def _loop(self, loop: Any) -> list[Any]:
        notes = self._noted(loop.min, loop.extent)
        bound = loop.kind == tirx.ForKind.THREAD_BINDING
        kind = loop.kind if bound else tirx.ForKind.SERIAL
        return [*notes, changed_loop(loop, self._inside(loop.body), kind=kind)]

    def _realize(self, realize: Any) -> list[Any]:
        block = realize.block
        around = self._block, self._accumulators
        self._block = str(block.name_hint)
        notes = self._noted(realize.predicate, condition=True)
        for axis, value in bindings_of(realize):
            if self._depends(value):
                self._data.add(axis.var)
        init = None
        if block.init is not None:
            self._accumulators = [region.source for region in block.writes]
            init = self._inside(block.init)
        body = self._inside(block.body)
        self._block, self._accumulators = around
        taken = [] if self._taken is None else [self._taken]
        changed = changed_block(block, body=body, init=init, writes=taken)
        return [*notes, SBlockRealize(realize.iter_values, realize.predicate, changed)]

    def _noted(self, *expressions: Any, condition: bool = False) -> list[Any]:
        """Return statements that note the branches in expressions."""
        finder = SideFinder(self._depends)
        find = finder.of_condition if condition else finder.of_value
        return [note for it in expressions for sides in find(it) for note in self._note(sides)]

    def _note(self, sides: Sides) -> list[Any]:
        """Return statements that note which of two sides is taken."""
        if any(self._accumulates(operand) for operand in sides.operands):
            return []
        texts = (_text(sides.conditions[0]), _text(sides.conditions[1]))
        key = (self._block, texts[0])
        constants = _constants(sides.operands)
        self._branches.setdefault(key, Branch(self._block, texts, constants, sides.operands))
        if self._taken is None:
            return []
        number = list(self._branches).index(key)
        one = tirx.const(1, "int32")
        notes = [
            tirx.IfThenElse(
                condition,
                tirx.BufferStore(self._taken, one, [_index(number), _index(side)]),
                None,
            )
            for side, condition in enumerate(sides.conditions)
        ]
        note = tirx.SeqStmt(notes)
        for condition in reversed(sides.path):
            note = tirx.IfThenElse(condition, note, None)
        return [note]

    def _accumulates(self, operand: Any) -> bool:
        return isinstance(operand, TensorLoad) and holds(self._accumulators, operand.source)

    def _depends(self, expression: Any) -> bool:
        """Whether the values of tensors decide an expression."""
        return any(
            isinstance(it, TensorLoad) or it in self._data
            for it in found_in(expression, (TensorLoad, tirx.Var))
        )


def _index(value: int) -> Any:
    return tirx.const(value, "int32")


def _text(expression: Any) -> str:
    """Return an expression as one line; the printer declares its variables before it."""
    line = str(expression).splitlines()[-1].replace("T.", "")
    return _CONSTANT.sub(lambda number: number[1].removesuffix(".0"), line)


def _constants(operands: Sequence[Any]) -> tuple[float, ...]:
    """Return the numbers in expressions, but not those in the indices of their loads."""
    kinds = (tirx.IntImm, tirx.FloatImm)
    found = [number for operand in operands for number in found_outside_loads(operand, kinds)]
    return tuple(sorted({float(number.value) for number in found}))


# -- The two sides of each place where the values of tensors decide -------------------------------

_ABSOLUTE = "tirx.fabs"


@dataclass(frozen=True, eq=False)
class Sides:
    """Two sides, of which at most one is taken.

    Attributes
    ----------
    conditions: of the sides.
    operands: what is compared.
    path: conditions that all hold where the result counts; only there it can be computed.
    """

    conditions: tuple[Any, Any]
    operands: tuple[Any, ...]
    path: tuple[Any, ...]


class SideFinder:
    """Finds comparisons, minima, maxima, absolute values and conditions that depend on values.

    Parameters
    ----------
    depends: whether the values of tensors decide an expression.
    """

    def __init__(self, depends: Callable[[Any], bool]) -> None:
        self._depends = depends
        self._found: list[Sides] = []

    def of_value(self, value: Any) -> list[Sides]:
        """Return the sides in an expression."""
        self._found = []
        self._expression(value, ())
        return self._found

    def of_condition(self, value: Any) -> list[Sides]:
        """Return the sides in a condition, which itself has two."""
        self._found = []
        self._condition(value, ())
        return self._found

    def _expression(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note the sides in a value that counts where all conditions in ``path`` hold."""
        if not self._depends(value):
            return
        if isinstance(value, (tirx.And, tirx.Or, tirx.Not)):
            self._condition(value, path)
        elif (choice := choice_of(value)) is not None:
            condition, yes, no = choice
            self._condition(condition, path)
            self._expression(yes, (*path, condition))
            self._expression(no, (*path, tirx.Not(condition)))
        elif isinstance(value, tirx.Let):
            self._expression(value.value, path)
            self._expression(substituted(value.body, {value.var: value.value}), path)
        else:
            for part in operands_of(value):
                self._expression(part, path)
            self._own(value, path)

    def _own(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note the sides of an operation itself."""
        if isinstance(value, COMPARISONS):
            if structural_equal(value.a, value.b):
                return  # it asks whether a number is NaN, and inputs are none
            opposite = OPPOSITES[type(value)](value.a, value.b)
            self._note((value, opposite), (value.a, value.b), path)
        elif isinstance(value, tirx.Max | tirx.Min):
            one, other = value.a, value.b
            sides = tirx.GT(one, other), tirx.LT(one, other)
            taken = sides if isinstance(value, tirx.Max) else sides[::-1]
            self._note(taken, (one, other), path)
        elif called(value) == _ABSOLUTE:
            operand = value.args[0]
            zero = tirx.const(0, dtype_of(operand))
            self._note((tirx.GT(operand, zero), tirx.LT(operand, zero)), (operand,), path)

    def _condition(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note both sides of each part of a condition."""
        if not self._depends(value):
            return
        if isinstance(value, (tirx.And, tirx.Or)):
            self._condition(value.a, path)
            reached = value.a if isinstance(value, tirx.And) else tirx.Not(value.a)
            self._condition(value.b, (*path, reached))
        elif isinstance(value, tirx.Not):
            self._condition(value.a, path)
        else:
            self._expression(value, path)
            if isinstance(value, TensorLoad | tirx.Var | tirx.Cast | Call):
                self._note((value, tirx.Not(value)), (value,), path)

    def _note(
        self, conditions: tuple[Any, Any], operands: tuple[Any, ...], path: tuple[Any, ...]
    ) -> None:
        self._found.append(Sides(conditions, operands, path))
