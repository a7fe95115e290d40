"""A declaration is all of a primitive: its method binds arguments as its signature says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from schedlang.errors import InstructionError, TraceFormatError
from schedlang.expressions import IntRV
from schedlang.instructions.arguments import Loop
from schedlang.instructions.handles import LoopRV
from schedlang.instructions.instruction import KINDS
from schedlang.language.declare import primitive
from schedlang.language.schedule import Schedule, Trace
from tests.language.primitives.programs import elementwise


def schedule() -> tuple[Any, LoopRV]:
    """A schedule and the first loop of its block; of any type, for wrong calls."""
    sch = Schedule(elementwise())
    return sch, sch.get_loops("B")[0]


def test_the_signature_and_the_docstring_are_those_of_the_declaration() -> None:
    signature = inspect.signature(Schedule.split)
    assert list(signature.parameters) == [
        "self",
        "loop",
        "factors",
        "preserve_unit_iters",
        "disable_predication",
    ]
    assert signature.parameters["preserve_unit_iters"].default is True
    assert signature.return_annotation == "list[LoopRV]"
    assert "Split a loop into nested ones" in (inspect.getdoc(Schedule.split) or "")
    assert Schedule.split.__qualname__ == "LoopPrimitives.split"
    assert inspect.getsource(Schedule.split).lstrip().startswith('@primitive("Split"')


def test_wrong_calls_raise_the_type_errors_of_python() -> None:
    sch, loop = schedule()
    with pytest.raises(TypeError, match=r"split\(\) missing 1 required .* argument: 'factors'"):
        sch.split(loop)
    with pytest.raises(TypeError, match=r"split\(\) got an unexpected keyword argument 'into'"):
        sch.split(loop, into=[4, 4])
    with pytest.raises(TypeError, match=r"split\(\) takes from 3 to 5 positional arguments but 6"):
        sch.split(loop, [4, 4], True, False, 1)
    with pytest.raises(TypeError, match=r"split\(\) got multiple values for argument 'loop'"):
        sch.split(loop, loop=loop)
    with pytest.raises(TypeError, match=r"sample_perfect_tile\(\) missing 1 required"):
        sch.sample_perfect_tile(loop)
    with pytest.raises(TypeError, match=r"choose\(\) missing 1 required"):
        sch.choose("fork")
    assert len(sch.trace) == 2


def test_arguments_are_given_by_position_by_keyword_or_by_default() -> None:
    sch, loop = schedule()
    outer, inner = sch.split(factors=[4, None], loop=loop)
    assert sch.trace.instructions[-1].args == (loop, (4, None), True, False)
    sch.fuse(outer, inner, preserve_unit_iters=False)
    assert sch.trace.instructions[-1].args == ((outer, inner), False)
    drawn = sch.sample_categorical([1, 2], decision=2, name="width")
    assert isinstance(drawn, IntRV)
    assert (sch.trace.instructions[-1].site, sch.trace.instructions[-1].decision) == ("width", 2)


def test_a_traceback_shows_the_line_of_the_declaration() -> None:
    code = vars(Schedule.split)["__wrapped__"].__code__
    assert Schedule.split.__code__.co_firstlineno == code.co_firstlineno
    assert Schedule.split.__code__.co_filename == code.co_filename


@pytest.fixture
def extended() -> Iterator[type[Any]]:
    """A schedule with one more primitive, which is declared and mentioned nowhere else."""

    class Extended(Schedule):
        @primitive("Unroll", method="unroll")
        def write_out(self, loop: Loop) -> None:
            """Write the iterations out: ``for i in 4  ->  unrolled i in 4``."""

    yield Extended
    del KINDS["write_out"]


def test_one_declaration_makes_an_instruction(extended: type[Any]) -> None:
    sch = extended(elementwise())
    loop = sch.get_loops("B")[0]
    with pytest.raises(InstructionError, match="argument 'loop' takes a loop"):
        sch.write_out("i")
    assert sch.write_out(loop) is None
    trace = sch.trace
    assert str(trace).endswith("sch.write_out(l1)")
    assert Trace.from_json(trace.to_json()) == trace
    assert "unroll" in trace.replay().mod.script()
    assert "sch.unroll(l1)" in trace.as_tvm_python()
    with pytest.raises(TraceFormatError, match="must be of kind loop"):
        Trace.from_json(trace.to_json().replace('{"rv":"l1"}', '{"rv":"b0"}'))
