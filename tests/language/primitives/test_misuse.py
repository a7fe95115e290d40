"""A wrong use is refused with a message that a newcomer can act on."""

from __future__ import annotations

import inspect
import linecache
import re
from pathlib import Path

import pytest

from schedlang.errors import InstructionError
from schedlang.language.schedule import Schedule
from schedlang.tvm.program import structurally_equal
from tests.language.primitives.case import Misuse
from tests.language.primitives.groups import each_misuse

# What only someone who knows TVM's sources could read.
_INTERNAL = re.compile(
    r"not rendered|Check failed|#\d+\b(?!:)|0x[0-9a-f]{6}|ffi\.|(?<!\.)\b(?:s_tir|tirx)\."
)


@each_misuse
def test_a_misuse_is_explained(misuse: Misuse) -> None:
    sch = Schedule(misuse.workload(), seed=0)
    with pytest.raises(InstructionError, match=misuse.reason) as caught:
        misuse.apply(sch)
    error = caught.value
    head, *rest = str(error).splitlines()

    assert error.instruction == misuse.instruction
    call = head.removesuffix(f": {error.reason}")
    assert call.startswith(f"{misuse.instruction}(") and call.endswith(")")
    assert misuse.argument in call

    assert re.search(misuse.reason, error.reason)
    assert not _INTERNAL.search(error.reason), error.reason

    file, _, line = error.location.rpartition(":")
    assert Path(file) == Path(str(inspect.getsourcefile(misuse.apply)))
    assert f".{misuse.instruction}(" in linecache.getline(file, int(line))
    assert rest[0] == f"  at {error.location}"

    if misuse.program:
        assert misuse.program in [text.strip() for text in rest[2:]]


@each_misuse
def test_a_misuse_leaves_the_schedule_as_it_was(misuse: Misuse) -> None:
    sch = Schedule(misuse.workload(), seed=0)
    with pytest.raises(InstructionError):
        misuse.apply(sch)
    assert structurally_equal(sch.trace.replay().mod, sch.mod)
