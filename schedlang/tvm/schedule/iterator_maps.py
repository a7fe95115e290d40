"""Divisions that TVM 0.27 computes wrongly when it simplifies indices as maps of iterators.

That analysis pads an iterator so that divisors divide its extent, and pads it once for all
divisions. Where these need different padding, or where the padded iterator is divided again, it
loses constants: ``(i + 2) % 6 * 8 + i % 6`` becomes ``(i + 2) % 6 * 9``, and ``((i + 1) % 4 + 2) %
4`` becomes ``(i + 2) % 4``. It divides by negative numbers where an iterator is subtracted.
Divisions of sums of iterators alone come out right, and so do those of shifted sums where the
iterators are in no other division.

The analysis gives up on a product of two iterators, and leaves all indices as they are written.
Primitives of schedules that simplify or invert indices run with a guard around them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm.s_tir import SBlock
from tvm.tirx import (
    Add,
    AttrStmt,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    Mul,
    Sub,
    Var,
    bitwise_and,
    call_pure_extern,
)
from tvm_ffi import structural_map

from schedlang.tvm.schedule.ffi import TVMSchedule, get_sref, get_trace, replace
from schedlang.tvm.values import constant, extent_of, found_in

DIVISIONS = (FloorDiv, FloorMod)
_NAME = "schedlang_hidden"
_EXTENTS = ("thread_extent", "virtual_thread")


def shown(statement: Any) -> Any:
    """Put what is ``hidden`` in a statement back."""

    def show(call: Call) -> Any:
        is_hidden = len(call.args) > 1 and getattr(call.args[0], "value", None) == _NAME
        return call.args[1] if is_hidden else call

    return structural_map(statement, (Call, show), order="post")


class ExpressionKind(IntEnum):
    """What an expression is to the analysis; a sum is the greatest of its terms."""

    PLAIN = 0
    """A sum of iterators that begin with 0, and of divisions of such sums."""
    FIXED = 1
    """Nothing that the analysis knows as an iterator."""
    SHIFTED = 2
    """A sum of both."""
    OTHER = 3


class Iterators:
    """The variables of loops, blocks and threads, as the analysis knows them."""

    def __init__(self, kinds: Mapping[Any, ExpressionKind]) -> None:
        self._kinds = kinds

    @classmethod
    def of(cls, statement: Any) -> Iterators:
        """Find the variables of the loops, blocks and threads in a statement."""
        kinds: dict[Any, ExpressionKind] = {}
        for node in found_in(statement, (For, AttrStmt, SBlock)):
            if isinstance(node, For):
                kinds[node.loop_var] = _begins(node.min)
            elif isinstance(node, SBlock):
                kinds.update({axis.var: _begins(axis.dom.min) for axis in node.iter_vars})
            elif node.attr_key in _EXTENTS:
                kinds[node.node.var] = ExpressionKind.PLAIN
        return cls(kinds)

    def is_odd(self, division: Any) -> bool:
        """Tell whether a division may come out wrong beside others, or inverted."""
        return self._kind(division) not in (ExpressionKind.PLAIN, ExpressionKind.FIXED)

    def hidden(self, expr: Any, beside: Sequence[Any] = ()) -> Any:
        """Return a call that TVM knows nothing of, and gives up on, in an expression's place.

        It gives up as long as there are iterators in ``expr`` or ``beside`` it.
        """
        squares = self._squares((expr, *beside))
        return call_pure_extern(str(expr.ty.dtype), _NAME, expr, *squares)

    def disguised(self, indices: Sequence[Any], scalars: Collection[Any] = ()) -> list[Any]:
        """Return indices of the same values that the analysis gives up on; code can be generated.

        A call is another matter: that of ``hidden`` names no function. One product is enough of an
        iterator that has several values. ``scalars`` are such ones, of no vectorised loop: products
        of others make vectors of indices, whose elements are loaded and stored one by one.
        """
        first, *others = indices
        squares = self._squares(indices)
        for square in [square for square in squares if square.a in scalars][:1] or squares:
            first = first + bitwise_and(square, IntImm(square.ty, 0))
        return [first, *others]

    def _squares(self, exprs: Sequence[Any]) -> list[Any]:
        """Return a product for each iterator in the expressions, on which the analysis gives up."""
        used = set().union(*map(self._used, exprs))
        return [var * var for var in sorted(used, key=lambda var: str(var.name))]

    def is_unsafe(self, indices: Sequence[Any]) -> bool:
        """Tell whether an access's indices may come out wrong, or be an error.

        The analysis divides by zero where an iterator that is subtracted cancels one in a division.
        """
        divisions = [part for index in indices for part in _outermost_divisions(index)]
        if not divisions:
            return False
        if any(map(self.subtracts, indices)):
            return True
        odd = [part for part in divisions if self.is_odd(part)]
        if not all(map(self._is_shifted, odd)):
            return True
        return any(
            not self._used(part).isdisjoint(self._used(other))
            for part in odd
            for other in divisions
            if other is not part
        )

    def subtracts(self, index: Any) -> bool:
        """Tell whether terms of an index are subtracted, or multiplied by no positive constant."""
        if isinstance(index, Add):
            return self.subtracts(index.a) or self.subtracts(index.b)
        if isinstance(index, Sub):
            return self.subtracts(index.a) or self._kind(index.b) != ExpressionKind.FIXED
        if isinstance(index, Mul) and _is_positive(index.b):
            return self.subtracts(index.a)
        return isinstance(index, Mul) and self._kind(index) != ExpressionKind.FIXED

    def _used(self, expr: Any) -> set[Any]:
        """Return the iterators in an expression."""
        return {var for var in found_in(expr, Var) if var in self._kinds}

    def _is_shifted(self, division: Any) -> bool:
        """Tell whether no other division is inside, and the dividend is a shifted sum."""
        return (
            self._kind(division.a) == ExpressionKind.SHIFTED
            and _is_positive(division.b)
            and next(_outermost_divisions(division.a), None) is None
        )

    def _kind(self, expr: Any) -> ExpressionKind:
        if isinstance(expr, Var):
            return self._kinds.get(expr, ExpressionKind.FIXED)
        if isinstance(expr, IntImm):
            return ExpressionKind.FIXED
        if isinstance(expr, Add):
            return _sum_of(self._kind(expr.a), self._kind(expr.b))
        if isinstance(expr, Sub):
            right = self._kind(expr.b)
            return _sum_of(
                self._kind(expr.a), right if right == ExpressionKind.FIXED else ExpressionKind.OTHER
            )
        if isinstance(expr, Mul):
            left = self._kind(expr.a)
            if left != ExpressionKind.FIXED and _is_positive(expr.b):
                return left
            return (
                ExpressionKind.FIXED
                if left == self._kind(expr.b) == ExpressionKind.FIXED
                else ExpressionKind.OTHER
            )
        if isinstance(expr, DIVISIONS):
            left = self._kind(expr.a)
            if left == ExpressionKind.FIXED == self._kind(expr.b):
                return ExpressionKind.FIXED
            return left if left == ExpressionKind.PLAIN and _divides(expr) else ExpressionKind.OTHER
        return ExpressionKind.OTHER if self._used(expr) else ExpressionKind.FIXED


def _sum_of(left: ExpressionKind, right: ExpressionKind) -> ExpressionKind:
    return left if left == right else max(left, right, ExpressionKind.SHIFTED)


def _divides(division: Any) -> bool:
    """Tell whether a division is a step of splitting an iterator into parts that do not overlap."""
    if not _is_positive(division.b):
        return False
    inner = division.a
    if isinstance(inner, FloorMod):
        return int(inner.b) % int(division.b) == 0
    return not isinstance(inner, FloorDiv) or isinstance(division, FloorMod)


def _outermost_divisions(expr: Any) -> Iterator[Any]:
    """Find the divisions that are in no other; in calls and loads, all."""
    if isinstance(expr, DIVISIONS):
        yield expr
    elif isinstance(expr, Add | Sub | Mul):
        yield from _outermost_divisions(expr.a)
        yield from _outermost_divisions(expr.b)
    elif not isinstance(expr, Var | IntImm):
        yield from found_in(expr, DIVISIONS)


def _begins(least: Any) -> ExpressionKind:
    return ExpressionKind.PLAIN if constant(least) == 0 else ExpressionKind.SHIFTED


def _is_positive(value: Any) -> bool:
    return extent_of(value) > 0


# -- TVM primitives whose arithmetic is wrong, with a guard around them ---------------------------
#
# They simplify or invert indices and the bindings of block variables. While one runs, divisions
# that it computes wrongly are calls that TVM knows nothing of. It then leaves them as they are, or
# refuses where it cannot do without.

Apply = Callable[..., Any]
Test = Callable[[Iterators, Any], bool]

_hides = ContextVar("hides", default=True)


@contextmanager
def as_in_tvm() -> Iterator[None]:
    """Inside ``with``, primitives do what they do in TVM without schedlang."""
    token = _hides.set(False)
    try:
        yield
    finally:
        _hides.reset(token)


def may_do_more(sch: TVMSchedule) -> bool:
    """Return whether a primitive may do what TVM refuses: the schedule records no TVM trace."""
    return _hides.get() and get_trace(sch) is None


def within_function(apply: Apply) -> Apply:
    """Hide the divisions of the whole function from a primitive of a block or a loop."""
    return _hiding(apply, _root)


def within_function_signed(apply: Apply) -> Apply:
    """Hide those, and what subtracts iterators: this primitive divides indices itself.

    Of ``x[8 - i]`` with the layout ``i % 3, i // 3`` TVM makes ``x[i % -3 * -1, ...]``.
    """

    def is_odd(iterators: Iterators, expr: Any) -> bool:
        if isinstance(expr, DIVISIONS):
            return iterators.is_odd(expr)
        return str(expr.ty.dtype).startswith("int") and iterators.subtracts(expr)

    return _hiding(apply, _root, is_odd, (*DIVISIONS, tirx.Sub, tirx.Mul))


def within(apply: Apply) -> Apply:
    """Hide the divisions of the block or loop that a primitive is called with; of the first one."""
    return _hiding(apply, lambda sref: sref)


def within_all(apply: Apply) -> Apply:
    """Hide those, and all others that are not of a variable alone.

    Where a consumer reads ``x[v * 3 // 16]``, TVM takes it that its variable stays 0.
    """
    return _hiding(apply, lambda sref: sref, lambda iterators, division: True)


def _hiding(
    apply: Apply,
    region: Callable[[Any], Any],
    is_odd: Test = Iterators.is_odd,
    kinds: tuple[Any, ...] = DIVISIONS,
) -> Apply:
    def run(sch: TVMSchedule, handle: Any, *args: Any) -> Any:
        first = handle if not isinstance(handle, list | tuple) else next(iter(handle), None)
        if first is None or not _hides.get():  # TVM refuses a list of no blocks
            return apply(sch, handle, *args)
        sref = region(get_sref(sch, first))
        if not _hide(sch, sref, is_odd, kinds):
            return apply(sch, handle, *args)
        root = _root(sref)
        try:
            return apply(sch, handle, *args)
        finally:
            _replace(sch, root, shown(root.stmt))

    return run


def _hide(sch: TVMSchedule, sref: Any, is_odd: Test, kinds: tuple[Any, ...]) -> bool:
    """Hide the odd expressions below a block or loop; return whether there are any."""
    found = found_in(sref.stmt, kinds)
    # Most are divisions of a loop that was fused.
    if all(map(_is_of_variable, found)):
        return False
    iterators = Iterators.of(_root(sref).stmt)

    def hide(expr: Any) -> Any:
        if _is_of_variable(expr) or not is_odd(iterators, expr):
            return expr
        return iterators.hidden(expr)

    if all(hide(expr) is expr for expr in found):
        return False

    _replace(sch, sref, structural_map(sref.stmt, (kinds, hide), order="post"))
    return True


def _is_of_variable(expr: Any) -> bool:
    return isinstance(expr, DIVISIONS) and isinstance(expr.a, tirx.Var)


def _root(sref: Any) -> Any:
    while sref.parent is not None:
        sref = sref.parent
    return sref


def _replace(sch: TVMSchedule, sref: Any, new: Any) -> None:
    """Put a statement with the same blocks and loops in a block's or loop's place."""
    pairs = zip(found_in(sref.stmt, SBlock), found_in(new, SBlock), strict=True)
    reused = {old: made for old, made in pairs if not old.same_as(made)}
    replace(sch, sref, new, reused)
