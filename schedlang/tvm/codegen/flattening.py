"""TVM's lowering pipeline, with indices flattened as they are written.

``FlattenBuffer`` simplifies the index of each access as a map of iterators, and computes some
wrongly, see ``iterator_maps``. Their divisions are variables while it runs. What follows it finds
the divisions again, so that vectors and guards are made of them as of any others.
"""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, TensorLoad
from tvm.ir.transform import module_pass
from tvm.s_tir import pipeline as _tvm
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_map

from schedlang.tvm.iterator_maps import Iterators


def default_pipeline() -> tuple[Any, Any, Any]:
    """Return TVM's default passes up to code generation, and its last passes: host, device.

    The passes are TVM's own function, which finds another ``FlattenBuffer`` under that name.
    """
    ours = {"FlattenBuffer": lambda: _FLATTEN_BUFFER}
    transform = SimpleNamespace(**{**vars(tirx.transform), **ours})
    names = {**vars(_tvm), "tirx": SimpleNamespace(transform=transform)}
    passes: tuple[Any, Any, Any] = FunctionType(_tvm.default_s_tir_pipeline.__code__, names)()
    return passes


def _flatten(mod: IRModule, _context: Any) -> IRModule:
    hidden: dict[Any, Any] = {}
    functions = {name: _hide(function, hidden) for name, function in mod.functions.items()}
    if not hidden:
        return tirx.transform.FlattenBuffer()(mod)
    flat = tirx.transform.FlattenBuffer()(IRModule(functions, attrs=mod.attrs))
    return IRModule(
        {name: _show(function, hidden) for name, function in flat.functions.items()},
        attrs=flat.attrs,
    )


_FLATTEN_BUFFER = module_pass(_flatten, opt_level=0, name="schedlang.FlattenBuffer")


def _hide(function: Any, hidden: dict[Any, Any]) -> Any:
    """Put variables in the place of unsafe divisions, and note what they stand for."""
    if not isinstance(function, PrimFunc):
        return function
    iterators = Iterators.of(function.body)
    before = len(hidden)

    def rewrite(access: Any) -> Any:
        unsafe = iterators.unsafe_divisions(access.indices)
        if not unsafe:
            return access
        indices = [_replaced(index, unsafe, hidden) for index in access.indices]
        if isinstance(access, TensorLoad):
            return tirx.BufferLoad(access.source, indices)
        return tirx.BufferStore(access.buffer, access.value, indices)

    kinds = ((TensorLoad, tirx.BufferStore), rewrite)
    body = structural_map(function.body, kinds, order="post")
    return function if len(hidden) == before else function.with_body(body)


def _replaced(index: Any, unsafe: list[Any], hidden: dict[Any, Any]) -> Any:
    if any(index.same_as(part) for part in unsafe):
        variable = tirx.Var("division", index.ty)
        hidden[variable] = index
        return variable
    if isinstance(index, tirx.Add | tirx.Sub | tirx.Mul):
        left, right = (_replaced(part, unsafe, hidden) for part in (index.a, index.b))
        return type(index)(left, right)
    return index


def _show(function: Any, hidden: dict[Any, Any]) -> Any:
    if not isinstance(function, PrimFunc):
        return function
    shown = structural_map(function.body, (tirx.Var, lambda var: hidden.get(var, var)))
    return function.with_body(shown)
