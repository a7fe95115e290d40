"""Properties of a program before scheduling: its parameters, blocks, key and text.

A program is a ``TensorFunction``, the only function of its module. Which of its parameters are
outputs follows from what it writes, unless the user states it (``stated_outputs``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import te, tirx
from tvm.error import DiagnosticError
from tvm.ir import IRModule, PointerType
from tvm.s_tir import SBlock, SBlockRealize
from tvm.script import from_source

from schedlang.errors import WorkloadError
from schedlang.tvm.program_text import script_names
from schedlang.tvm.statements import parts_of, statements_in
from schedlang.tvm.values import constant, found_in, tensor_bytes

# As files of TVMScript begin; the lines that follow keep their numbers.
_IMPORTS = re.compile(
    r"^[ \t]*(?:from[ \t]+tvm\b.*[ \t]import[ \t].*|import[ \t]+tvm\b.*)$", re.MULTILINE
)

MAIN = "main"

TensorFunction: TypeAlias = tirx.PrimFunc
"""One tensor function as TVM holds it: parameters, blocks and loops (a PrimFunc)."""
TensorProgram: TypeAlias = IRModule
"""Tensor functions by name, as TVM holds them (an IRModule); a workload has ``main`` alone."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """One parameter of a PrimFunc, not yet checked.

    Attributes
    ----------
    name: its name in the program.
    kind: ``"buffer"``, ``"pointer"`` (a handle without a buffer) or ``"scalar"``.
    dtype: element type, such as ``"float32"``.
    shape: extents in elements; a symbolic extent as text.
    compact: whether the buffer is row-major without gaps, at offset 0.
    scope: memory scope; callers can pass ``"global"`` buffers only.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int | str, ...] = ()
    compact: bool = True
    scope: str = "global"


def is_module(given: object) -> bool:
    """Whether it is one of TVM's modules."""
    return isinstance(given, IRModule)


def named_functions(mod: IRModule) -> dict[str, tirx.PrimFunc]:
    """Return the PrimFuncs of a module by global name, in name order."""
    found = {
        var.name_hint: func
        for var, func in mod.functions.items()
        if isinstance(func, tirx.PrimFunc)
    }
    return dict(sorted(found.items()))


def module_of(functions: Mapping[str, tirx.PrimFunc]) -> IRModule:
    """Return a module of functions with these names."""
    return IRModule({n: one.with_attr("global_symbol", n) for n, one in functions.items()})


def symbol(func: tirx.PrimFunc) -> str:
    """Return the exported name of a function, or ``""``."""
    return str(func.attrs["global_symbol"]) if "global_symbol" in func.attrs else ""


def as_main(func: tirx.PrimFunc) -> IRModule:
    """Return a module with ``func`` alone, renamed ``main``; other attributes are kept.

    A block whose name an earlier block has is renamed: instructions find blocks by name.
    """
    func = _with_unique_blocks(func)
    if symbol(func) != MAIN:
        func = func.with_attr("global_symbol", MAIN)
    if not func.attrs.get("s_tir", False):
        func = func.with_attr("s_tir", True)
    return IRModule({MAIN: func})


def _with_unique_blocks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Append ``_1``, ``_2``, ... to names of blocks that occur before, or that are ``root``."""
    names = [str(node.block.name_hint) for node in block_realizes(func)]
    taken = {"root", *names}
    if len(taken) == 1 + len(names):
        return func
    seen = {"root"}

    def renamed(block: Any) -> Any:
        base = name = str(block.name_hint)
        number = 1
        while name in seen or (name != base and name in taken):
            name = f"{base}_{number}"
            number += 1
        seen.add(name)
        return block if name == base else changed_block(block, name=name)

    body = func.body.block.body
    return with_root_body(func, tvm_ffi.structural_map(body, (SBlock, renamed)))


def with_root_body(func: tirx.PrimFunc, body: Any) -> tirx.PrimFunc:
    """Return ``func`` with another body of its root block."""
    return with_root(func, changed_block(func.body.block, body=body))


def with_root(func: tirx.PrimFunc, root: Any) -> tirx.PrimFunc:
    """Return ``func`` with another root block."""
    realize = SBlockRealize(func.body.iter_values, func.body.predicate, root)
    return tirx.PrimFunc(func.params, realize, func.ret_type, func.attrs)


def changed_block(
    block: Any,
    *,
    name: str | None = None,
    body: Any = None,
    init: Any = None,
    allocated: Sequence[Any] | None = None,
    reads: Sequence[Any] = (),
    writes: Sequence[Any] = (),
) -> Any:
    """Return a block with another name, body, init or list of tensors that it allocates.

    ``reads`` and ``writes`` are whole tensors that it reads or writes besides.
    """
    return SBlock(
        block.iter_vars,
        [*block.reads, *map(_whole, reads)],
        [*block.writes, *map(_whole, writes)],
        block.name_hint if name is None else name,
        block.body if body is None else body,
        block.init if init is None else init,
        block.alloc_buffers if allocated is None else allocated,
        block.match_buffers,
        block.annotations,
    )


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, extent) for extent in buffer.ty.shape)]


def parameters(func: tirx.PrimFunc) -> tuple[FunctionParameter, ...]:
    """Describe every parameter of ``func`` in order."""
    return tuple(_describe(var) for var in func.params)


def _describe(var: Any) -> FunctionParameter:
    kind = var.ty
    if isinstance(kind, tirx.BufferType):
        shape = tuple(plain_extent(extent) for extent in kind.shape)
        strides = tuple(plain_extent(stride) for stride in kind.strides)
        compact = strides in ((), _row_major(shape)) and plain_extent(kind.elem_offset) == 0
        return FunctionParameter(
            var.name, "buffer", str(kind.dtype), shape, compact, str(kind.storage_scope)
        )
    return FunctionParameter(
        var.name, "pointer" if isinstance(kind, PointerType) else "scalar", str(kind)
    )


def plain_extent(value: Any) -> int | str:
    """Return the value of an extent; one that is symbolic as text."""
    known = constant(value)
    return str(value) if known is None else known


def _row_major(shape: Sequence[int | str]) -> tuple[int, ...]:
    known = [extent for extent in shape if isinstance(extent, int)]
    return tuple(math.prod(known[axis + 1 :]) for axis in range(len(known)))


def with_parameters(
    func: tirx.PrimFunc, order: Sequence[int], like: tirx.PrimFunc
) -> tirx.PrimFunc:
    """Reorder the parameters of ``func``; name and attributes are taken from ``like``.

    ``order[k]`` is the position in ``func`` of the k-th parameter of the result. Without a global
    symbol in ``like``, as in Relax modules, the result has none: two functions of one module must
    not share one.
    """
    chosen = [func.params[place] for place in order]
    result = tirx.PrimFunc(chosen, func.body, func.ret_type, func.attrs)
    if not symbol(like):
        result = result.without_attr("global_symbol")
    for name, value in like.attrs.items():
        result = result.with_attr(name, value)
    return result


def rename_blocks(func: tirx.PrimFunc, names: Mapping[str, str]) -> tirx.PrimFunc:
    """Rename blocks; ``names`` maps old names to new ones."""

    def renamed(block: Any) -> Any:
        name = names.get(str(block.name_hint))
        return block if name is None else changed_block(block, name=name)

    body = tvm_ffi.structural_map(func.body, (SBlock, renamed))
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)


def replace_functions(mod: IRModule, functions: Mapping[str, tirx.PrimFunc]) -> IRModule:
    """Return a copy of a module with the functions of these names replaced."""
    result = mod.clone()
    for var in mod.functions:
        if var.name_hint in functions:
            result.update_func(var, functions[var.name_hint])
    return result


def block_realizes(func: tirx.PrimFunc) -> list[SBlockRealize]:
    """Return the blocks below the root block, in program order; may be empty."""
    found = [node for node in statements_in(func.body) if isinstance(node, SBlockRealize)]
    return found[1:] if isinstance(func.body, SBlockRealize) else []


def allocated_buffers(func: tirx.PrimFunc) -> list[Any]:
    """Return the buffers that the blocks of ``func`` allocate, in program order."""
    return [
        buffer
        for node in statements_in(func.body)
        if isinstance(node, SBlockRealize)
        for buffer in node.block.alloc_buffers
    ]


def intermediate_shapes(func: tirx.PrimFunc) -> list[tuple[str, tuple[int | str, ...]]]:
    """Return name and shape of every buffer that a block of ``func`` allocates."""
    return [
        (buffer.name, tuple(plain_extent(extent) for extent in buffer.ty.shape))
        for buffer in allocated_buffers(func)
    ]


def allocates(func: tirx.PrimFunc, dtypes: Sequence[str]) -> bool:
    """Tell whether a block of ``func`` allocates a buffer of one of these element types."""
    return any(str(buffer.ty.dtype) in dtypes for buffer in allocated_buffers(func))


def intermediate_sizes(func: tirx.PrimFunc) -> list[int]:
    """Return the bytes of every buffer that a block of ``func`` allocates; extents are static."""
    return [
        tensor_bytes(buffer.ty.shape, str(buffer.ty.dtype)) for buffer in allocated_buffers(func)
    ]


def loop_extents(func: tirx.PrimFunc) -> list[tuple[str, int | str]]:
    """Return name and extent of every loop of ``func``, in program order."""
    return [
        (node.loop_var.name, plain_extent(node.extent))
        for node in statements_in(func.body)
        if isinstance(node, tirx.For)
    ]


def block_loops(func: tirx.PrimFunc) -> list[tuple[str, tuple[str, ...]]]:
    """Return name, and names of the loops around it, of each block below the root, in order."""
    found: list[tuple[str, tuple[str, ...]]] = []

    def visit(stmt: Any, loops: tuple[str, ...]) -> None:
        if isinstance(stmt, SBlockRealize):
            found.append((str(stmt.block.name_hint), loops))
            visit(stmt.block.body, loops)
        elif isinstance(stmt, tirx.For | tirx.SeqStmt):
            inside = (*loops, str(stmt.loop_var.name)) if isinstance(stmt, tirx.For) else loops
            for part in parts_of(stmt):
                visit(part, inside)

    visit(func.body, ())
    return found[1:]


def has_parallel_loop(func: tirx.PrimFunc) -> bool:
    """Tell whether a loop of ``func`` runs on several threads."""
    return any(
        isinstance(node, tirx.For) and node.kind == tirx.ForKind.PARALLEL
        for node in statements_in(func.body)
    )


def structural_key(mod: IRModule) -> str:
    """Return TVM's 64-bit structural hash as 16 hex digits; names do not affect it.

    It is the same in every process. Where a collision matters, confirm with ``structurally_equal``.
    """
    return f"{tvm_ffi.structural_hash(mod):016x}"


def structurally_equal(one: IRModule, other: IRModule) -> bool:
    """Return whether two modules are the same program up to names."""
    return bool(tvm_ffi.structural_equal(one, other))


def create_prim_func(tensors: Sequence[te.Tensor]) -> tirx.PrimFunc:
    """Create the S-TIR program of tensor expressions; parameters in the order of ``tensors``."""
    return te.create_prim_func(list(tensors))


def parse_script(text: str) -> Any:
    """Parse a TVMScript text into a PrimFunc or IRModule; executes the text as Python.

    Raises ``WorkloadError`` with the line at which TVM's parser stopped.
    """
    try:
        # The parser knows the names, and no imports.
        return from_source(_IMPORTS.sub("", text), script_names())
    except SyntaxError as error:
        raise WorkloadError(
            f"line {error.lineno}: {error.msg}: {(error.text or '').strip()!r}"
        ) from error
    except DiagnosticError as error:
        place = re.search(r"--> <str>:(\d+):(\d+)", str(error))
        reason = str(error).removeprefix("error: ").splitlines()[0]
        line = int(place.group(1)) if place else 1
        shown = text.splitlines()[line - 1].strip() if text.strip() else ""
        raise WorkloadError(f"line {line}: {reason}: {shown!r}") from error
    except IndexError as error:
        raise WorkloadError(
            "the text defines no function; it must hold one @T.prim_func(s_tir=True) function "
            "or one @I.ir_module class"
        ) from error


def to_json(mod: IRModule) -> str:
    """Return TVM's JSON text of a module; ``from_json`` reads it back."""
    return str(tvm.ir.save_json(mod))


def from_json(text: str) -> IRModule:
    """Read a module written by ``to_json``; runs no code."""
    return tvm.ir.load_json(text)


def block_names(mod: IRModule, function: str = "main") -> list[str]:
    """Return the names of the blocks in post-order (MetaSchedule, Figure 5), the root last."""
    return [str(block.name_hint) for block in found_in(mod[function].body, SBlock)]


# -- Outputs that the user states: an attribute of the function -----------------------------------

OUTPUTS = "schedlang.outputs"
"""Positions of these parameters, in ascending order; functions without any lack it."""


def stated_outputs(func: tirx.PrimFunc) -> tuple[int, ...]:
    """Return the positions of the parameters that are stated to be outputs."""
    stated = func.attrs[OUTPUTS] if func.attrs and OUTPUTS in func.attrs else ()
    return tuple(int(position) for position in stated)


def with_stated_outputs(func: tirx.PrimFunc, positions: Iterable[int]) -> tirx.PrimFunc:
    """Return a function that states these outputs and no others."""
    stated = sorted(set(positions))
    if not stated:
        return func.without_attr(OUTPUTS) if stated_outputs(func) else func
    return func.with_attr(OUTPUTS, stated)
