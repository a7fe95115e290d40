"""Programs with weights packed ahead: fresh for every draw, compared, and not in what is timed."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tvm.ir import IRModule

from schedlang.codec import decode, encode
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Status
from schedlang.targets import Target
from schedlang.targets.cpu.backend import CPUBackend
from schedlang.targets.errors import Fault
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.calls import PackedProgram, split_program
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.executor import Work
from schedlang.targets.worker.protocol import Reply
from schedlang.tuning.records import as_measurement, as_record, blank_record, packed_ahead
from schedlang.tvm.codegen import CodeGenerator
from schedlang.tvm.packing import with_weights
from schedlang.workloads import from_prim_func, matmul
from schedlang.workloads.workload import Workload

TARGET = Target("cpu")
QUICK = TimingPolicy(min_sample_seconds=1e-5, min_repeats=1, max_repeats=2)
SIZE = 16


def workload() -> Workload:
    return from_prim_func(with_weights(matmul(SIZE, SIZE, SIZE).func, [1]), "weighted")


def packed(weighted: Workload) -> IRModule:
    """Return the product with its weight transposed at the root."""
    sch = Schedule(weighted)
    copy = sch.cache_read(sch.get_block("C"), 1, "global")
    sch.transform_layout(copy, ("write", 0), lambda i, j: [j, i])
    return sch.mod


class Bench:
    """A runner of one workload whose candidates' functions count their calls."""

    def __init__(self, weighted: Workload) -> None:
        self.backend = CPUBackend(CodeGenerator(TARGET.tvm_target()), TARGET.cpus)
        binding = Binding(weighted.mod, weighted.args, seed=0, verifies=True)
        self.runner = CandidateRunner(self.backend, binding)
        self.runner.learn(self.backend.compile(weighted.mod))
        self.packs = 0

    def program(self, mod: IRModule, alter: Callable[..., Any] | None = None) -> PackedProgram:
        """Compile; ``alter`` is called with each packing's function and the tensors."""
        program = self.backend.compile_packed(mod)
        assert isinstance(program, PackedProgram)
        [function] = program._functions

        def counted(*tensors: Any) -> None:
            self.packs += 1
            (alter or (lambda pack, *given: pack(*given)))(function, *tensors)

        program._functions = (counted,)
        return program

    def refused(self, program: PackedProgram) -> str:
        with pytest.raises(Fault) as caught:
            self.runner.run(program, QUICK, None, 1.2)
        assert caught.value.status is Status.WRONG_RESULT
        return str(caught.value)


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(workload())


def test_weights_are_packed_once_for_each_draw_that_is_put_in_place(bench: Bench) -> None:
    bench.packs = 0
    program = bench.program(packed(workload()))
    found = bench.runner.run(program, QUICK, None, 1.2)
    assert found.verified
    assert bench.runner.reference is not None
    draws = len(bench.runner.reference.results)
    assert draws > 2
    # The first call, the timed calls on the first draw, and one for each draw.
    assert draws <= bench.packs <= draws + 2
    before = bench.packs
    for _ in range(3):
        assert bench.runner.sample(program, 5, QUICK).seconds > 0
    assert bench.packs <= before + 1


def test_stale_weights_are_found(bench: Bench) -> None:
    done: list[bool] = []

    def only_once(pack: Callable[..., None], *tensors: Any) -> None:
        if not done:
            pack(*tensors)
        done.append(True)

    assert "differ" in bench.refused(bench.program(packed(workload()), only_once))


def test_elements_that_are_not_packed_are_found(bench: Bench) -> None:
    assert "differ" in bench.refused(bench.program(packed(workload()), lambda *_: None))


def test_a_program_that_writes_next_to_a_packed_tensor_is_wrong(bench: Bench) -> None:
    program = bench.program(packed(workload()))
    bench.runner.run(program, QUICK, None, None)
    [memory] = program._memory
    start = memory.look().__array_interface__["data"][0]
    ctypes.memset(start - 4, 1, 4)
    assert "right before the memory of packed tensor 0" in bench.refused(program)


def test_a_program_without_weights_is_compiled_whole(bench: Bench) -> None:
    plain = matmul(SIZE, SIZE, SIZE)
    assert split_program(packed(plain)) is None
    assert not isinstance(bench.backend.compile_packed(packed(plain)), PackedProgram)


def test_a_plan_is_written_and_read() -> None:
    found = split_program(packed(workload()))
    assert found is not None
    mod, plan = found
    assert {var.name_hint for var in mod.functions} == {"main", plan.packed[0].function}
    assert decode(type(plan), json.loads(json.dumps(encode(plan)))) == plan


def test_large_packed_tensors_are_given_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.targets.measure.calls._KEPT_ELEMENTS", 1)
    one, other = (bench.program(packed(workload())) for _ in range(2))
    for program in (one, other, one):
        assert bench.runner.run(program, QUICK, None, 1.2).verified
    assert one._memory and not other._memory


def test_records_say_so() -> None:
    weighted = workload()
    work = Work(Candidate(0, packed(weighted)), 0)
    header = {"ok": True, "samples": [1e-3], "verified": True}
    proposal: Any = SimpleNamespace(trace=Schedule(weighted).trace, program_key="", id=0)
    blank = blank_record(weighted, TARGET, "random", 0)
    for ahead in (False, True):
        measurement = work.measurement(Reply({**header, "packed_ahead": ahead}))
        record = as_record(blank, proposal, measurement)
        assert packed_ahead(record) == ahead == as_measurement(record, 0).packed_ahead
        assert record.provenance.get("weights", "") == ("packed ahead" if ahead else "")
