"""TVM's lowering pipeline, with indices computed as they are written.

Three of its passes compute some wrongly. ``FlattenBuffer`` simplifies the index of each access as a
map of iterators, see ``iterator_maps``. ``CompactBufferAllocation`` makes a buffer as small as what
such a map says that is written. ``RenormalizeSplitPattern`` splits divisions of remainders by
negative numbers. What may come out wrong is hidden while they run. The passes after them find it
again, so that vectors and guards are made of it as of any other index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

from tvm import s_tir, tirx
from tvm.ir import IRModule, TensorLoad
from tvm.ir.transform import module_pass
from tvm.s_tir import SBlockRealize
from tvm.s_tir import pipeline as _tvm
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm.iterator_maps import DIVISIONS, Iterators, shown
from schedlang.tvm.parts import bindings_of
from schedlang.tvm.values import extent_of, found_in, substituted

Hide = Callable[[Any], Any]
_UNBOUND: Mapping[Any, Any] = {}
Replace = Callable[[Iterators, Sequence[Any]], list[Any]]


def default_pipeline() -> tuple[Any, Any, Any]:
    """Return TVM's default passes up to code generation, and its last passes: host, device.

    The passes are TVM's own function, which finds ours under the names of three of them.
    """
    loops = {
        "CompactBufferAllocation": _hide_unsafe_stores,
        "RenormalizeSplitPattern": _hide_remainders,
    }
    names = {
        **vars(_tvm),
        "s_tir": _with_passes(s_tir, loops),
        "tirx": _with_passes(tirx, {"FlattenBuffer": _hide_unsafe}),
    }
    passes: tuple[Any, Any, Any] = FunctionType(_tvm.default_s_tir_pipeline.__code__, names)()
    return passes


def written_for_tvm(mod: IRModule) -> IRModule:
    """Return a module whose indices TVM's own pipeline computes right; ``mod`` if it does already.

    TVM refuses some that divide by negative numbers, in this form too: ``Divide by zero``.

    ``+ (i * i & 0)`` is added to indices that it may compute wrongly: it leaves those as they are.
    """

    def disguise(body: Any) -> Any:
        return _replace_unsafe(body, Iterators.disguised, bound=_bindings(body))

    return _with_bodies(mod, disguise)


def _with_passes(dialect: Any, hides: Mapping[str, Hide]) -> Any:
    """Return what the pipeline asks a dialect for, with passes that do not see what is hidden."""
    passes = vars(dialect.transform)
    ours = {name: partial(_blind, name, passes[name], hide) for name, hide in hides.items()}
    return SimpleNamespace(transform=SimpleNamespace(**{**passes, **ours}))


def _blind(name: str, make: Callable[[], Any], hide: Hide) -> Any:
    """Return a pass that does not see what is hidden."""

    def run(mod: IRModule, _context: Any) -> IRModule:
        hidden = _with_bodies(mod, hide)
        result = make()(hidden)
        return result if hidden is mod else _with_bodies(result, shown)

    return module_pass(run, opt_level=0, name=f"schedlang.{name}")


def _with_bodies(mod: IRModule, change: Hide) -> IRModule:
    """Change the bodies of functions; return ``mod`` itself where that changes none."""
    functions = dict(mod.functions.items())
    for name, function in mod.functions.items():
        body = change(function.body) if isinstance(function, tirx.PrimFunc) else None
        if body is not None and not body.same_as(function.body):
            functions[name] = function.with_body(body)
    same = all(func.same_as(functions[name]) for name, func in mod.functions.items())
    return mod if same else IRModule(functions, attrs=mod.attrs)


def _hide_unsafe(body: Any, stores_only: bool = False) -> Any:
    """Hide what TVM may compute wrongly in the indices of accesses."""
    return _replace_unsafe(body, _hide_first, stores_only)


def _hide_first(iterators: Iterators, indices: Sequence[Any]) -> list[Any]:
    # The pass leaves the other indices of the access as they are, too.
    return [iterators.hidden(indices[0], indices), *indices[1:]]


def _bindings(body: Any) -> dict[Any, Any]:
    """Return what the variables of blocks stand for, which TVM puts in their place."""
    bound: dict[Any, Any] = {}

    def note(realize: SBlockRealize) -> None:
        for axis, value in bindings_of(realize):
            bound[axis.var] = substituted(value, bound)

    structural_walk(body, (SBlockRealize, note), order="pre")
    return bound


def _replace_unsafe(
    body: Any, replaced: Replace, stores_only: bool = False, bound: Mapping[Any, Any] = _UNBOUND
) -> Any:
    """Replace indices that TVM may compute wrongly, with the values of ``bound`` in them."""
    if not found_in(body, DIVISIONS):
        return body
    iterators = Iterators.of(body)
    kinds = tirx.BufferStore if stores_only else (TensorLoad, tirx.BufferStore)

    def is_unsafe(access: Any) -> bool:
        return iterators.is_unsafe([substituted(index, bound) for index in access.indices])

    if not any(map(is_unsafe, found_in(body, kinds))):
        return body

    def rewrite(access: Any) -> Any:
        if not is_unsafe(access):
            return access
        indices = replaced(iterators, access.indices)
        if isinstance(access, TensorLoad):
            return tirx.BufferLoad(access.source, indices)
        return tirx.BufferStore(access.buffer, access.value, indices)

    return structural_map(body, (kinds, rewrite), order="post")


def _hide_unsafe_stores(body: Any) -> Any:
    """Hide what TVM may estimate wrongly; what is read is what was written."""
    return _hide_unsafe(body, stores_only=True)


def _hide_remainders(body: Any) -> Any:
    """Hide the remainders that are divided by a negative number."""
    if not any(map(_splits_negatively, found_in(body, DIVISIONS))):
        return body
    iterators = Iterators.of(body)

    def rewrite(division: Any) -> Any:
        if not _splits_negatively(division):
            return division
        return type(division)(iterators.hidden(division.a), division.b)

    return structural_map(body, (DIVISIONS, rewrite), order="post")


def _splits_negatively(division: Any) -> bool:
    return isinstance(division.a, DIVISIONS) and extent_of(division.b, 0) < 0
