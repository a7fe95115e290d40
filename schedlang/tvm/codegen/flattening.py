"""TVM's lowering pipeline, with indices computed as they are written.

Two of its passes compute some wrongly. ``FlattenBuffer`` simplifies the index of each access as a
map of iterators, see ``iterator_maps``. ``RenormalizeSplitPattern`` splits divisions of remainders
by negative numbers. What may come out wrong is hidden while they run. The passes after them find
it again, so that vectors and guards are made of it as of any other index.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

from tvm import s_tir, tirx
from tvm.ir import IRModule, TensorLoad
from tvm.ir.transform import module_pass
from tvm.s_tir import pipeline as _tvm
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_map

from schedlang.tvm.iterator_maps import DIVISIONS, Iterators, hidden, shown

Hide = Callable[[Any], Any]


def default_pipeline() -> tuple[Any, Any, Any]:
    """Return TVM's default passes up to code generation, and its last passes: host, device.

    The passes are TVM's own function, which finds ours under the names of two of them.
    """
    names = {
        **vars(_tvm),
        "tirx": _with_pass(tirx, "FlattenBuffer", _hide_unsafe),
        "s_tir": _with_pass(s_tir, "RenormalizeSplitPattern", _hide_remainders),
    }
    passes: tuple[Any, Any, Any] = FunctionType(_tvm.default_s_tir_pipeline.__code__, names)()
    return passes


def _with_pass(dialect: Any, name: str, hide: Hide) -> Any:
    """Return what the pipeline asks a dialect for, with a pass that does not see what is hidden."""
    original = getattr(dialect.transform, name)()

    def run(mod: IRModule, _context: Any) -> IRModule:
        functions = {var: _of_body(func, hide) for var, func in mod.functions.items()}
        if all(func.same_as(functions[var]) for var, func in mod.functions.items()):
            return original(mod)
        result = original(IRModule(functions, attrs=mod.attrs))
        visible = {var: _of_body(func, shown) for var, func in result.functions.items()}
        return IRModule(visible, attrs=result.attrs)

    ours = module_pass(run, opt_level=0, name=f"schedlang.{name}")
    transforms = SimpleNamespace(**{**vars(dialect.transform), name: lambda: ours})
    return SimpleNamespace(transform=transforms)


def _of_body(function: Any, change: Hide) -> Any:
    if not isinstance(function, PrimFunc):
        return function
    body = change(function.body)
    return function if body.same_as(function.body) else function.with_body(body)


def _hide_unsafe(body: Any) -> Any:
    """Hide what ``FlattenBuffer`` may compute wrongly in the indices of accesses."""
    iterators = Iterators.of(body)

    def rewrite(access: Any) -> Any:
        unsafe = iterators.unsafe_parts(access.indices)
        if not unsafe:
            return access
        indices = [_hide_parts(index, unsafe) for index in access.indices]
        if isinstance(access, TensorLoad):
            return tirx.BufferLoad(access.source, indices)
        return tirx.BufferStore(access.buffer, access.value, indices)

    return structural_map(body, ((TensorLoad, tirx.BufferStore), rewrite), order="post")


def _hide_parts(index: Any, unsafe: list[Any]) -> Any:
    if any(index.same_as(part) for part in unsafe):
        return hidden(index)
    if isinstance(index, tirx.Add | tirx.Sub | tirx.Mul):
        left, right = (_hide_parts(part, unsafe) for part in (index.a, index.b))
        return type(index)(left, right)
    return index


def _hide_remainders(body: Any) -> Any:
    """Hide the remainders that are divided by a negative number."""

    def rewrite(division: Any) -> Any:
        negative = isinstance(division.b, tirx.IntImm) and int(division.b) < 0
        if not negative or not isinstance(division.a, DIVISIONS):
            return division
        return type(division)(hidden(division.a), division.b)

    return structural_map(body, (DIVISIONS, rewrite), order="post")
