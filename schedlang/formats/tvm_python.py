"""Traces as Python that needs TVM alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from schedlang.distributions import ComputeLocation
from schedlang.errors import SpaceError
from schedlang.expressions import IndexMap, IntExpr, IntOp
from schedlang.formats.python import comment, is_default, literal, ranges, targets
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice, Primitive, Sampling
from schedlang.interpreters.flatten import flatten_for_tvm, workload_of
from schedlang.tvm import program
from schedlang.tvm.analysis import INLINE, ROOT
from schedlang.tvm.schedule.intrinsics import definition
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.language.trace import Trace

_TVM_DRAWS = {
    "sample_perfect_tile": ("n", "max_innermost_factor"),
    "sample_partitioned_tile": ("n", "partition_pos", "innerpart_factor"),
}


def as_tvm_python(trace: Trace, workload: Workload | Any = None) -> str:
    """A program that makes ``sch``, a TVM schedule, with the workload embedded as TVMScript."""
    workload = workload_of(trace, workload)
    flat = flatten_for_tvm(trace, workload).simplified()
    lines = ["import tvm", "from tvm.s_tir import Schedule"]
    lines += _intrinsic_lines(i.args[1] for i in flat.instructions if i.kind.name == "tensorize")
    lines += ["", *_module_lines(workload), "sch = Schedule(mod)"]
    printer = _Printer()
    for instruction in flat.instructions:
        lines += printer.lines(instruction)
    return "\n".join(lines) + "\n"


def _intrinsic_lines(names: Iterable[str]) -> Iterator[str]:
    """What registers these tensor intrinsics: TVM's own, and those that were defined here."""
    texts = {name: definition(name) for name in names}
    if None in texts.values():
        yield "import tvm.s_tir.tensor_intrin  # registers the tensor intrinsics"
    for name, text in texts.items():
        if text is not None:
            parsed = ", ".join(f"tvm.script.from_source({part!r})" for part in text)
            yield f"tvm.s_tir.TensorIntrin.register({name!r}, {parsed}, override=True)"


def _module_lines(workload: Workload) -> Iterator[str]:
    script = workload.script()
    if program.structurally_equal(program.parse_script(script), workload.mod):
        yield 'mod = tvm.script.from_source("""\\'
        yield script.replace("\\", "\\\\").rstrip()
        yield '""")'
    else:  # a value that TVMScript does not print exactly
        yield f"mod = tvm.ir.load_json({program.to_json(workload.mod)!r})"


class _Printer:
    """Prints flat instructions; remembers the loops that are no loops (inlined, at the root)."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}

    def lines(self, instruction: Instruction) -> Iterator[str]:
        kind = instruction.kind
        if isinstance(kind, Choice):
            taken = instruction.args[0][instruction.decision]
            yield comment(f"{instruction.site}: {taken}")
        elif isinstance(kind, Sampling):
            yield from self._draw(instruction)
        else:
            assert isinstance(kind, Primitive)
            yield from self._primitive(kind, instruction)

    def _draw(self, instruction: Instruction) -> Iterator[str]:
        name, decision = instruction.kind.name, instruction.decision
        distribution = instruction.distribution
        left = targets(instruction)
        if isinstance(distribution, ComputeLocation) and name == "sample_compute_location":
            if decision in (INLINE, ROOT):
                self.places[instruction.outputs[0].index] = decision
                yield f"# {left}{'inlined' if decision == INLINE else 'where it is'}"
            else:
                block = literal(instruction.args[0])
                yield f"{left}sch.get_loops(sch.get_consumers({block})[0])[{decision}]"
        elif name == "sample_loop_order":
            loops = [literal(instruction.args[0][k]) for k in decision]
            yield f"{left}{', '.join(loops)}{',' if len(loops) == 1 else ''}"
        elif name in _TVM_DRAWS and len(decision) > 1:
            named = {
                p.name: arg
                for p, arg in zip(instruction.kind.parameters, instruction.args, strict=True)
            }
            shown = [literal(named["loop"])]
            for key in _TVM_DRAWS[name]:
                value = named[key]
                shown.append(f"{key}={-1 if value is None else literal(value)}")
            yield f"{left}sch.{name}({', '.join(shown)}, decision={list(decision)})"
        else:
            assert distribution is not None
            outputs = distribution.outputs(decision)
            values = ", ".join(map(str, outputs)) if isinstance(outputs, tuple) else str(outputs)
            comma = "," if isinstance(outputs, tuple) and len(outputs) == 1 else ""
            yield f"{left}{values}{comma}  {comment(f'drawn from {distribution}')}"

    def _primitive(self, kind: Primitive, instruction: Instruction) -> Iterator[str]:
        if not kind.tvm_name:
            raise SpaceError(
                f"{kind.name}: TVM has no such primitive; leave out the module that uses it"
            )
        if kind.name in ("compute_at", "reverse_compute_at"):
            place = self.places.get(instruction.args[1].index)
            if place == ROOT:
                return
            if place == INLINE:
                inline = kind.name.replace("compute_at", "compute_inline")
                yield f"sch.{inline}({literal(instruction.args[0])})"
                return
        shown: list[str] = []
        given = list(zip(kind.parameters, instruction.args, strict=True))
        while given and is_default(given[-1][0].default, given[-1][1]):
            given.pop()
        for parameter, arg in given:
            if parameter.variadic:
                shown += [_tvm_literal(item) for item in arg]
            elif parameter.argument.name == "ranges":
                shown.append(ranges(arg, _tvm_expr))
            elif parameter.keyword_only:
                shown.append(f"{parameter.name}={_tvm_literal(arg)}")
            else:
                shown.append(_tvm_literal(arg))
        yield f"{targets(instruction)}sch.{kind.tvm_name}({', '.join(shown)})"


def _tvm_literal(arg: Any) -> str:
    if isinstance(arg, IntExpr):
        return _tvm_expr(arg)
    if isinstance(arg, tuple) and arg and any(isinstance(a, IntExpr) for a in arg):
        return "[" + ", ".join(_tvm_literal(a) for a in arg) + "]"
    return literal(arg, _tvm_map)


def _tvm_map(index_map: IndexMap) -> str:
    outputs = [_tvm_expr(e) for e in index_map.outputs]
    tail = "," if len(outputs) == 1 else ""
    return f"lambda {', '.join(index_map.inputs)}: ({', '.join(outputs)}{tail})"


def _tvm_expr(expr: int | IntExpr) -> str:
    if isinstance(expr, IntOp):
        left, right = _tvm_expr(expr.left), _tvm_expr(expr.right)
        if expr.operation in ("min", "max"):
            return f"tvm.tirx.{expr.operation}({left}, {right})"
        return f"({left} {expr.operation} {right})"
    return str(expr)
