"""TVM primitives whose arithmetic is wrong (TVM 0.27), with a guard around them.

They simplify or invert indices and the bindings of block variables, and compute some divisions
wrongly, see ``iterator_maps``. While one runs, such divisions are calls that TVM knows nothing of.
It then leaves them as they are, or refuses where it cannot do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock
from tvm_ffi import structural_map

from schedlang.tvm.iterator_maps import DIVISIONS, Iterators, shown
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    get_sref,
    get_trace,
    replace,
)
from schedlang.tvm.values import found_in

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
