"""Instructions and distributions that users define: they record, replay, print, store, flatten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schedlang.distributions import Categorical
from schedlang.errors import InvalidTrace, TraceFormatError
from schedlang.language.schedule import Trace
from schedlang.tvm.program import from_json, structurally_equal
from tests.language.programs import product
from tests.language.user_defined import PowerOfTwo, scheduled

ROOT = Path(__file__).parents[2]


def script(*arguments: str) -> str:
    """What Python prints in a fresh process that finds nothing but the repository."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PRINT = """
from schedlang.tvm.program import to_json
print(to_json(sch.mod))
print(sch.trace.to_json())
"""


# -- records, replays, stores ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_recorded_as_one_step_and_run_again_at_replay(seed: int) -> None:
    sch = scheduled(seed)
    names = [instruction.kind.name for instruction in sch.trace.instructions]
    assert names.count("tile_inner") == 2 and names.count("spread") == 2
    assert names.count("outermost") == 1 and names.count("unroll") == 0
    again = sch.trace.replay()
    assert again.trace == sch.trace
    assert structurally_equal(again.mod, sch.mod)
    assert "T.unroll(2)" in sch.mod.script()
    assert sch.get(sch.get_block("C")).annotations["note"] == "from 'outside'"
    assert sch.trace.distributions["divisor"] == Categorical((2, 4, 8, 16))


def test_arguments_and_results_are_recorded() -> None:
    trace = scheduled().trace
    steps = {i.kind.name: i for i in reversed(trace.instructions)}
    assert [p.name for p in steps["tile_inner"].kind.parameters] == ["block", "lanes", "note"]
    assert steps["tile_inner"].args[2] == "from 'outside'"
    assert steps["tile_inner"].outputs == ()
    assert len(steps["spread"].outputs) == 2 and not steps["spread"].single
    assert len(steps["spread"].args) == 3 and len(steps["spread"].args[1]) == 2
    assert steps["spread"].args[2] is False
    assert steps["outermost"].single
    assert str(steps["spread"]).startswith("l") and "spread(width=2, loops=[l" in str(
        steps["spread"]
    )


@pytest.mark.parametrize("seed", range(5))
def test_stored_and_read(seed: int) -> None:
    sch = scheduled(seed)
    loaded = Trace.from_json(sch.trace.to_json(), product())
    assert loaded == sch.trace
    assert structurally_equal(loaded.replay().mod, sch.mod)
    assert loaded.distributions["lanes"] == PowerOfTwo(4)


def test_other_decisions_reach_the_inside() -> None:
    trace = scheduled().trace
    for lanes in (2, 4, 8):
        sch = trace.with_decisions({"lanes": lanes, "divisor": 4}).replay()
        loops = sch.get_loops("C")
        assert lanes in [sch.extent(loop) for loop in loops]
        assert structurally_equal(sch.trace.replay().mod, sch.mod)
    with pytest.raises(InvalidTrace, match="decision 3 of 'lanes' is not in the support of Power"):
        trace.with_decisions({"lanes": 3}).replay()
    repaired = trace.with_decisions({"lanes": 3}).replay(misfit="repair")
    assert repaired.trace.decisions["lanes"] == 1


def test_unknown_instructions_and_distributions_are_refused_when_read() -> None:
    text = scheduled().trace.to_json()
    with pytest.raises(TraceFormatError, match="unknown instruction 'tile_other'.*import the file"):
        Trace.from_json(text.replace('"tile_inner"', '"tile_other"'))
    with pytest.raises(TraceFormatError, match=r"distribution.*import the module that defines it"):
        Trace.from_json(text.replace("test_power_of_two", "test_power_of_three"))
    with pytest.raises(TraceFormatError, match="count must be at least 1"):
        Trace.from_json(text.replace('"count":4', '"count":-4'))


def test_a_fresh_process_must_import_what_it_reads() -> None:
    read = "import sys, schedlang as sl\nsl.Trace.from_json(sys.argv[1])\nprint('read')\n"
    text = scheduled().trace.to_json()
    assert "read" in script("-c", "import tests.language.user_defined\n" + read, text)
    with pytest.raises(AssertionError, match="unknown instruction 'sample_divisor'"):
        script("-c", read, text)


# -- prints and flattens ---------------------------------------------------------------------------


def test_the_printed_program_runs_by_itself() -> None:
    sch = scheduled(1)
    program = sch.trace.as_python()
    assert "tile_inner(sch, b0, lanes=v" in program
    assert "spread(sch, 2, l" in program
    module, trace = script("-c", program + PRINT).splitlines()
    assert structurally_equal(from_json(module), sch.mod)
    assert trace == sch.trace.to_json()


SCRIPT = '''
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import schedlang as sl

WIDTH = 4


def half(extent: int) -> int:
    return extent // 2


@sl.instruction
def halve(sch: sl.Schedule, block: sl.BlockRV, width: int = WIDTH) -> None:
    """Uses a helper of the script."""
    loop = sch.get_loops(block)[0]
    sch.split(loop, [half(sch.extent(loop)), None])


@sl.distribution
@dataclass(frozen=True, repr=False)
class Coin(sl.Distribution):
    kind: ClassVar[str] = "coin"

    def sample(self, rng: Any) -> int:
        return int(rng.random() < 0.5)

    def log_prob(self, d: object) -> float:
        return -math.log(2) if type(d) is int and d in (0, 1) else -math.inf

    def support(self) -> Iterator[int]:
        return iter((0, 1))


sch = sl.Schedule(sl.workloads.matmul(16, 16, 16), seed=0)
halve(sch, sch.get_block("C"))
sch.annotate(sch.get_block("C"), "coin", sch.sample(Coin()))
'''


def test_what_a_script_defines_is_printed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + PRINT + "print(sch.trace.as_python())", encoding="utf-8")
    module, trace, program = script(str(path)).split("\n", 2)
    assert '"kind":"halve"' in trace and '"kind":"coin"' in trace
    assert "def halve(" in program and "class Coin(" in program
    module_again, trace_again = script("-c", program + PRINT).splitlines()
    assert trace_again == trace
    assert structurally_equal(from_json(module_again), from_json(module))
    assert not structurally_equal(from_json(module), product().mod)


@pytest.mark.parametrize("seed", range(5))
def test_flattened_to_what_it_did(seed: int) -> None:
    sch = scheduled(seed)
    flat = sch.trace.flattened()
    assert not {"tile_inner", "spread", "outermost"} & {i.kind.name for i in flat.instructions}
    assert flat.decisions == sch.trace.decisions
    assert structurally_equal(flat.replay().mod, sch.mod)
    assert Trace.from_json(flat.to_json()) == flat
    assert flat.flattened() == flat
    assert flat.log_prob() == sch.trace.log_prob()


def test_in_tvms_forms() -> None:
    import tvm

    sch = scheduled(2)
    again = tvm.s_tir.Schedule(product().mod)
    sch.trace.to_tvm_trace().apply_to_schedule(again, remove_postproc=False)
    assert structurally_equal(again.mod, sch.mod)
    module = script("-c", sch.trace.as_tvm_python() + "print(tvm.ir.save_json(sch.mod))")
    assert structurally_equal(from_json(module.strip()), sch.mod)
