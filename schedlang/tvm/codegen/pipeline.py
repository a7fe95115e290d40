"""TVM's lowering pipeline, with indices computed as they are written.

Three of its passes compute some wrongly. ``FlattenBuffer`` simplifies the index of each access as a
map of iterators, see ``iterator_maps``. ``CompactBufferAllocation`` makes a buffer as small as what
such a map says that is written. ``RenormalizeSplitPattern`` splits divisions of remainders by
negative numbers. What may come out wrong is hidden while they run. The passes after them find it
again, so that vectors and guards are made of it as of any other index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

from tvm import s_tir, tirx
from tvm.ir import IRModule, TensorLoad
from tvm.ir.transform import module_pass
from tvm.s_tir import pipeline as _tvm
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm.iterator_maps import DIVISIONS, Iterators, shown

Hide = Callable[[Any], Any]


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


def _with_passes(dialect: Any, hides: Mapping[str, Hide]) -> Any:
    """Return what the pipeline asks a dialect for, with passes that do not see what is hidden."""
    passes = vars(dialect.transform)
    ours = {name: partial(_blind, name, passes[name], hide) for name, hide in hides.items()}
    return SimpleNamespace(transform=SimpleNamespace(**{**passes, **ours}))


def _blind(name: str, make: Callable[[], Any], hide: Hide) -> Any:
    """Return a pass that does not see what is hidden."""

    def run(mod: IRModule, _context: Any) -> IRModule:
        functions = {var: _of_body(func, hide) for var, func in mod.functions.items()}
        if all(func.same_as(functions[var]) for var, func in mod.functions.items()):
            return make()(mod)
        result = make()(IRModule(functions, attrs=mod.attrs))
        visible = {var: _of_body(func, shown) for var, func in result.functions.items()}
        return IRModule(visible, attrs=result.attrs)

    return module_pass(run, opt_level=0, name=f"schedlang.{name}")


def _of_body(function: Any, change: Hide) -> Any:
    if not isinstance(function, PrimFunc):
        return function
    body = change(function.body)
    return function if body.same_as(function.body) else function.with_body(body)


def _hide_unsafe(body: Any, stores_only: bool = False) -> Any:
    """Hide what TVM may compute wrongly in the indices of accesses."""
    if not _found(body, DIVISIONS):
        return body
    iterators = Iterators.of(body)
    kinds = tirx.BufferStore if stores_only else (TensorLoad, tirx.BufferStore)
    if not any(iterators.is_unsafe(access.indices) for access in _found(body, kinds)):
        return body

    def rewrite(access: Any) -> Any:
        if not iterators.is_unsafe(access.indices):
            return access
        # The pass leaves the other indices of the access as they are, too.
        indices = [iterators.hidden(access.indices[0], access.indices), *access.indices[1:]]
        if isinstance(access, TensorLoad):
            return tirx.BufferLoad(access.source, indices)
        return tirx.BufferStore(access.buffer, access.value, indices)

    return structural_map(body, (kinds, rewrite), order="post")


def _hide_unsafe_stores(body: Any) -> Any:
    """Hide what TVM may estimate wrongly; what is read is what was written."""
    return _hide_unsafe(body, stores_only=True)


def _hide_remainders(body: Any) -> Any:
    """Hide the remainders that are divided by a negative number."""
    if not any(map(_splits_negatively, _found(body, DIVISIONS))):
        return body
    iterators = Iterators.of(body)

    def rewrite(division: Any) -> Any:
        if not _splits_negatively(division):
            return division
        return type(division)(iterators.hidden(division.a), division.b)

    return structural_map(body, (DIVISIONS, rewrite), order="post")


def _splits_negatively(division: Any) -> bool:
    divisor = division.b
    return (
        isinstance(division.a, DIVISIONS) and isinstance(divisor, tirx.IntImm) and divisor.value < 0
    )


def _found(body: Any, kinds: Any) -> list[Any]:
    found: list[Any] = []
    structural_walk(body, (kinds, found.append))
    return found
