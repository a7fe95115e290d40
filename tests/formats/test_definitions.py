"""Printed programs run by themselves, also with instructions and distributions of a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import schedlang as sl

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
from __future__ import annotations
import math as mathematics
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
import schedlang as sl
from schedlang import analysis

if TYPE_CHECKING:
    from decimal import Decimal

BOUND = 8


@sl.distribution
@dataclass(frozen=True)
class PowerOfTwo(sl.Distribution):
    kind: ClassVar[str] = "power_of_two"
    largest: int

    def sample(self, rng):
        return 1

    def log_prob(self, d):
        return -mathematics.log(5) if type(d) is int and d in self.support() else -mathematics.inf

    def support(self):
        return iter((1, 2, 4, 8, 16))


def is_short(sch, loop):
    return analysis.constant_extent(sch, loop) <= BOUND


@sl.instruction
def unroll_short(sch: sl.Schedule, block: sl.BlockRV, unused: Decimal | None = None) -> None:
    i, j, *more = sch.get_loops(block)
    for loop in (i, j, *more):
        if is_short(sch, loop):
            sch.unroll(loop)


def make_note(limit):
    @sl.instruction
    def note(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.annotate(block, "limit", limit)

    return note


note = make_note(3)
sch = sl.Schedule(sl.workloads.matmul(64, 64, 64))
i, j, k = sch.get_loops("C")
sch.split(k, [None, sch.sample(PowerOfTwo(16), decision=4)])
unroll_short(sch, sch.get_block("C"))
note(sch, sch.get_block("C"))
"""


def run(code: str, folder: Path) -> str:
    """What a script prints that is run in a process of its own."""
    path = folder / "script.py"
    path.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_script_defines_is_printed_with_what_it_needs(tmp_path: Path) -> None:
    separator = "print('#' * 70)"
    shown = f"{SCRIPT}\nprint(sch.trace.as_python())\n{separator}\nprint(sch.mod.script())"
    printed, program = run(shown, tmp_path).split("#" * 70)
    assert "unrolled" not in program and "T.unroll" in program and '"limit": 3' in program
    assert run(f"{printed}\nprint(sch.mod.script())", tmp_path).strip() == program.strip()


def test_what_is_in_a_module_is_imported() -> None:
    from schedlang.modules import vectorize_inner

    sch = sl.Schedule(sl.workloads.matmul(64, 64, 64))
    vectorize_inner(sch, sch.get_block("C"), 8)
    first, second = sch.trace.as_python().splitlines()[:2]
    assert first == "import schedlang as sl"
    assert second == "from schedlang.modules import vectorize_inner"


def test_what_has_no_source_says_what_to_do() -> None:
    scope: dict[str, object] = {"__name__": "__main__"}
    exec("import schedlang as sl\n@sl.instruction\ndef nowhere(sch): pass", scope)
    sch = sl.Schedule(sl.workloads.matmul(64, 64, 64))
    scope["nowhere"](sch)  # type: ignore[operator]
    with pytest.raises(sl.SpaceError, match="nowhere was defined where its source cannot be read"):
        sch.trace.as_python()


LIMITS = object()


def test_what_cannot_be_printed_is_named() -> None:
    limits = LIMITS

    @sl.instruction
    def look(sch: sl.Schedule) -> None:
        assert limits is not None

    sch = sl.Schedule(sl.workloads.matmul(64, 64, 64))
    look(sch)
    with pytest.raises(sl.SpaceError, match="limits is of type object, which has no source"):
        sch.trace.as_python()
