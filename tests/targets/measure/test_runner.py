from __future__ import annotations

import dataclasses
import math
import os
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import pytest
from tvm import te, tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from schedlang.measurement import Status
from schedlang.measurement.disturbance import Disturbance, Sample
from schedlang.targets import Target
from schedlang.targets.cpu import backend
from schedlang.targets.cpu.backend import CacheFlusher, CPUBackend, CPUProgram, GuardedMemory
from schedlang.targets.errors import Fault
from schedlang.targets.measure.backend import Calls
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.contention import Contention, Slowdown
from schedlang.targets.measure.timing import ProgramTiming, TimingPolicy
from schedlang.targets.worker.executor import run_header
from schedlang.targets.worker.in_process import InProcessWorker
from schedlang.targets.worker.process_state import FILES, THREADS
from schedlang.targets.worker.protocol import Request
from schedlang.tvm.codegen import CodeGenerator
from schedlang.tvm.program import to_json
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets.programs import (
    RANDOM,
    from_body,
    matmul,
    matmul_variant,
    scheduled_matmul,
)

TARGET = Target("cpu")
QUICK = TimingPolicy(min_sample_seconds=1e-5, min_repeats=1, max_repeats=2)


class Bench(InProcessWorker):
    """The worker of ``LocalCPU`` in this process; its requests are methods that raise ``Fault``."""

    # Those of the tests come and go.
    unwatched = (FILES, THREADS)

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.set_up({})
        self.bind(Binding(workload.mod, workload.args, seed=0, verifies=True))

    def set_up(self, header: dict[str, Any]) -> None:
        self._backend = CPUBackend(CodeGenerator(TARGET.tvm_target()), TARGET.cpus)

    def build(self, identity: int, program: str) -> None:
        self.on_build(
            Request({"id": identity, "discard": False, "most_size": None}, (program.encode(),))
        )

    def run(
        self,
        identity: int,
        policy: TimingPolicy,
        best: float | None,
        verify_factor: float | None,
        *,
        keep: bool = False,
    ) -> ProgramTiming:
        how = run_header(policy, best, verify_factor)
        reply = self.on_run(Request({"id": identity, "keep": keep, **how}))
        return ProgramTiming(tuple(reply["samples"]), verified=reply["verified"])

    def sample(self, identity: int, calls: int, policy: TimingPolicy) -> float:
        [(seconds, _)] = self.samples([(identity, calls)], policy, verify=True)
        return seconds

    def samples(
        self, programs: list[tuple[int, int]], policy: TimingPolicy, *, verify: bool = False
    ) -> list[Sample]:
        """Take one of each: of these ids, and numbers of calls."""
        header = {"programs": programs, "policy": asdict(policy), "verify": verify}
        return [Sample(*one) for one in self.on_sample(Request(header))["samples"]]


def bench_of(workload: Workload) -> Bench:
    """A worker's process has programs of one workload; in this one, other tests ran others.

    Their intermediate results, more than those of this workload, are in the pools as well.
    """
    bench = Bench(workload)
    bench._backend._workspaces = 256
    return bench


def set_reference_seconds(bench: Bench, seconds: float) -> None:
    assert bench._runner.reference is not None
    bench._runner.reference = dataclasses.replace(bench._runner.reference, seconds=seconds)


def outcome(bench: Bench, mod: IRModule) -> ProgramTiming:
    bench.build(1, to_json(mod))
    return bench.run(1, QUICK, None, 1.2)


def reason(bench: Bench, mod: IRModule) -> str:
    with pytest.raises(Fault) as caught:
        outcome(bench, mod)
    assert caught.value.status is Status.WRONG_RESULT
    assert not caught.value.corrupt
    return str(caught.value)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return matmul()


@pytest.fixture(scope="module")
def bench(workload: Workload) -> Bench:
    return bench_of(workload)


def test_a_right_schedule_is_timed_and_verified(workload: Workload, bench: Bench) -> None:
    mask = os.sched_getaffinity(0)
    found = outcome(bench, scheduled_matmul(workload))
    assert found.verified and min(found.samples) > 0
    assert os.sched_getaffinity(0) == mask


def test_a_wrong_product_is_found(bench: Bench) -> None:
    text = reason(bench, matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"))
    assert text.startswith("output 0 (float32)")


def test_results_that_change_from_call_to_call_are_told_from_wrong_ones(bench: Bench) -> None:
    assert "run again it gives other results" in reason(bench, from_body(RANDOM))
    steady = matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]")
    assert "run again" not in reason(bench, steady)


def test_an_unscheduled_program_that_does_not_repeat_itself_is_told(workload: Workload) -> None:
    bench = bench_of(from_prim_func(from_body(RANDOM)["main"], name="random"))
    bench.build(1, to_json(workload.mod))
    with pytest.raises(Fault, match="nor does the unscheduled program give its own") as caught:
        bench.run(1, QUICK, None, 1.2)
    assert caught.value.status is Status.WRONG_RESULT and caught.value.corrupt


def test_the_unscheduled_program_is_asked_again_until_it_repeats_itself_once(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(workload)
    calls = []
    unscheduled = bench._unscheduled_program()
    run = unscheduled.entry
    monkeypatch.setattr(unscheduled, "entry", lambda *tensors: calls.append(run(*tensors)))
    nothing = from_body("T.evaluate(0)")
    set_reference_seconds(bench, 1.5)
    reason(bench, nothing)
    assert not calls  # too long for a second time
    set_reference_seconds(bench, 0.5)
    reason(bench, nothing)
    reason(bench, nothing)
    assert len(calls) == 1
    assert outcome(bench, scheduled_matmul(workload)).verified


def test_a_row_that_is_not_written_is_found(workload: Workload, bench: Bench) -> None:
    outcome(bench, workload.mod)  # leaves the right numbers behind
    short = from_body(
        """
for i, j, k in T.grid(63, 64, 64):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    )
    assert "64 of 4096 elements differ; at [63, 0] got nan" in reason(bench, short)


def test_a_changed_input_is_found_and_harms_no_later_program(
    workload: Workload, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where memory cannot be protected; where it can, the process ends."""
    monkeypatch.setattr(GuardedMemory, "read_only", lambda memory: nullcontext())
    spoiler = matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]\n        A[0, 0] = 7.0")
    assert "argument 0 is an input" in reason(bench, spoiler)
    assert outcome(bench, workload.mod).verified


def test_nan_never_passes(bench: Bench) -> None:
    text = reason(bench, matmul_variant("C[vi, vj] = T.log(T.float32(-1) - B[vk, vj] * B[vk, vj])"))
    assert "nan" in text


def test_what_is_slower_than_the_best_is_not_verified(bench: Bench) -> None:
    wrong = to_json(matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk]"))
    bench.build(1, wrong)
    assert not bench.run(1, QUICK, 1e-9, 1.2).verified
    bench.build(2, wrong)
    with pytest.raises(Fault, match="differ"):
        bench.run(2, QUICK, 1e9, 1.2)
    bench.build(3, wrong)
    assert not bench.run(3, QUICK, None, None).verified


IN_PLACE = 'A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")'
SHIFT = """
for i in T.serial(512):
    with T.sblock("A"):
        vi = T.axis.spatial(512, i)
        A[vi] = A[vi] {operation} B[vi]
"""


def test_an_in_place_program_starts_from_the_same_values_each_time() -> None:
    bench = bench_of(from_prim_func(from_body(SHIFT.format(operation="+"), IN_PLACE)["main"]))
    assert outcome(bench, from_body(SHIFT.format(operation="+"), IN_PLACE)).verified
    assert "output 0" in reason(bench, from_body(SHIFT.format(operation="-"), IN_PLACE))


def test_every_output_is_compared() -> None:
    signature = (
        'A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), '
        'C: T.Buffer((8, 8), "int32")'
    )
    text = """
for i, j in T.grid(8, 8):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(3)
for i, j in T.grid(8, 8):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = vi * 8 + {second}
"""
    right, wrong = (from_body(text.format(second=name), signature) for name in ("vj", "vi"))
    bench = bench_of(from_prim_func(right["main"]))
    assert outcome(bench, right).verified
    assert reason(bench, wrong).startswith("output 1 (int32)")


def test_elements_that_no_block_writes_must_stay_as_they_were() -> None:
    text = """
for i, j in T.grid({rows}, 8):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    signature = 'A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")'
    bench = bench_of(from_prim_func(from_body(text.format(rows=7), signature)["main"]))
    assert outcome(bench, from_body(text.format(rows=7), signature)).verified
    assert "leaves as they were" in reason(bench, from_body(text.format(rows=8), signature))
    assert "8 of 64 elements differ" in reason(bench, from_body(text.format(rows=6), signature))


def elementwise(dtype: str, scale: int) -> IRModule:
    a = te.placeholder((16, 32), dtype, name="A")
    b = te.compute(
        (16, 32), lambda i, j: a[i, j] * tirx.const(scale, dtype) + tirx.const(1, dtype), name="B"
    )
    return IRModule({"main": te.create_prim_func([a, b])})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "uint8", "int64"])
def test_element_types(dtype: str) -> None:
    bench = bench_of(from_prim_func(elementwise(dtype, 2)["main"]))
    assert outcome(bench, elementwise(dtype, 2)).verified
    assert f"output 0 ({dtype})" in reason(bench, elementwise(dtype, 3))


def test_indices_stay_within_the_tensors_and_truth_values_are_compared() -> None:
    table = te.placeholder((100,), "float32", name="T")
    index = te.placeholder((64,), "int32", name="I")
    hits = te.compute((64,), lambda i: table[index[i]] > tirx.const(0.0, "float32"), name="H")
    misses = te.compute((64,), lambda i: table[index[i]] <= tirx.const(0.0, "float32"), name="H")
    right, wrong = (te.create_prim_func([table, index, out]) for out in (hits, misses))
    bench = bench_of(from_prim_func(right))
    assert outcome(bench, IRModule({"main": right})).verified
    assert "output 0 (bool)" in reason(bench, IRModule({"main": wrong}))


def test_a_program_that_wants_positive_numbers_gets_them() -> None:
    a = te.placeholder((64,), "float32", name="A")
    roots = te.create_prim_func([a, te.compute((64,), lambda i: te.sqrt(a[i]), name="B")])
    assert outcome(bench_of(from_prim_func(roots)), IRModule({"main": roots})).verified
    never = te.create_prim_func([a, te.compute((64,), lambda i: te.log(-a[i] - 2.0), name="B")])
    with pytest.raises(Fault, match="gives NaN on random inputs"):
        bench_of(from_prim_func(never))


def test_a_program_that_does_not_build_says_why(bench: Bench) -> None:
    with pytest.raises(Fault) as caught:
        bench.build(1, "{not json")
    assert caught.value.status is Status.BUILD_ERROR
    assert "\n" not in str(caught.value)


def test_damage_to_the_reference_itself_is_noticed(workload: Workload) -> None:
    bench = bench_of(workload)
    assert bench._runner.reference is not None
    bench._runner.reference.results[0].expected[0][0, 0] += 1
    bench.build(1, to_json(workload.mod))
    with pytest.raises(Fault) as caught:
        bench.run(1, QUICK, None, 1.2)
    assert caught.value.corrupt


def row_after(column: int, row: int = 64) -> IRModule:
    """The right product, and one element outside of ``C``."""
    return from_body(
        f"""
for i, j, k in T.grid(64, 64, 64):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
for i in T.serial(1):
    with T.sblock("D"):
        vi = T.axis.spatial(1, i)
        C[{row}, {column}] = T.float32(7)
"""
    )


@pytest.mark.parametrize(
    ("place", "row", "column"), [("after", 64, 0), ("after", 64, 63), ("before", -1, 63)]
)
def test_one_element_outside_is_found_even_without_verifying(
    workload: Workload, place: str, row: int, column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Behind reserved address space it is a crash, of this process: see tests/faults.
    monkeypatch.setattr(backend, "reserve", lambda size, around: None)
    bench = bench_of(workload)
    bench.build(1, to_json(row_after(column, row)))
    with pytest.raises(Fault, match=f"right {place} the memory of argument 2") as caught:
        bench.run(1, QUICK, None, None)
    assert caught.value.status is Status.WRONG_RESULT and caught.value.corrupt


def test_an_input_changed_without_verifying_harms_no_later_program(
    workload: Workload, bench: Bench
) -> None:
    before = bench._runner._data.tensors[0].numpy()
    spoiler = matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]\n        A[0, 0] = 7.0")
    bench.build(1, to_json(spoiler))
    assert not bench.run(1, QUICK, None, None).verified
    assert bench._runner._data.tensors[0].numpy()[0, 0] == 7
    bench.build(2, to_json(workload.mod))
    bench.run(2, QUICK, None, None)
    assert (bench._runner._data.tensors[0].numpy() == before).all()


def suspicion(bench: Bench, mod: IRModule, policy: TimingPolicy = QUICK) -> Fault:
    bench.build(1, to_json(mod))
    with pytest.raises(Fault) as caught:
        bench.run(1, policy, None, math.inf)
    return caught.value


def test_an_impossible_time_is_no_result(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(workload)
    for seconds in (0.0, -1e-6, math.nan, math.inf):

        def timed(program: CPUProgram, calls: Calls, s: float = seconds) -> float:
            program.entry(*calls.tensors)
            return s

        monkeypatch.setattr(CPUProgram, "seconds_per_call", timed)
        fault = suspicion(bench, workload.mod)
        assert fault.status is Status.SUSPICIOUS_TIME and not fault.corrupt
        assert "by the clock" in str(fault) and fault.samples


def test_a_time_above_the_roofline_is_no_result_but_wrong_numbers_are_worse(
    workload: Workload, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = dataclasses.replace(bench._binding, shortest_time=1.0)
    monkeypatch.setattr(bench._runner, "_binding", slow)
    fault = suspicion(bench, workload.mod)
    assert fault.status is Status.SUSPICIOUS_TIME and max(fault.samples) < 1.0
    assert "its arithmetic takes this machine more than 1 s" in str(fault)
    assert suspicion(bench, from_body("T.evaluate(0)")).status is Status.WRONG_RESULT


@pytest.mark.parametrize("flush_cache", [False, True])
def test_a_sample_of_finals_is_taken_when_the_program_is_warm(
    workload: Workload, monkeypatch: pytest.MonkeyPatch, flush_cache: bool
) -> None:
    bench, made = bench_of(workload), list[int]()
    monkeypatch.setattr(bench._backend, "waits", None)  # other work would make more samples

    def timed(program: CPUProgram, calls: Calls) -> float:
        program.entry(*calls.tensors)
        made.append(calls.count)
        return 1e-4

    bench.build(1, to_json(workload.mod))
    bench.run(1, QUICK, None, None, keep=True)
    monkeypatch.setattr(CPUProgram, "seconds_per_call", timed)
    policy = TimingPolicy(warm_seconds=0.008, flush_cache=flush_cache)
    assert bench.sample(1, 7, policy) == 1e-4
    assert made[-1] == 7
    assert sum(made) == (8 if flush_cache else 1 + 4 * 20 + 7)
    # The second of a round runs on a core that the first has kept busy.
    bench.build(2, to_json(scheduled_matmul(workload)))
    bench.run(2, QUICK, None, None, keep=True)
    made.clear()
    assert [one.seconds for one in bench.samples([(1, 7), (2, 7)], policy)] == [1e-4] * 2
    assert sum(made) == 2 * 8 + (0 if flush_cache else 4 * 20 + 3 * 3)


def test_with_cold_caches_a_program_must_last(
    workload: Workload, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = []
    monkeypatch.setattr(bench._backend, "waits", None)  # other work would make more samples
    monkeypatch.setattr(CacheFlusher, "flush", lambda self: flushes.append(1))
    policy = TimingPolicy(min_repeats=3, max_repeats=3, flush_cache=True)
    bench.build(1, to_json(workload.mod))
    assert len(bench.run(1, policy, None, None).samples) == 3
    # One for each sample, and none for the first call, which warms up.
    assert len(flushes) == 3
    nothing = from_body("T.evaluate(0)")
    bench.build(2, to_json(nothing))
    with pytest.raises(Fault, match="do without flush_cache") as caught:
        bench.run(2, policy, None, None)
    assert caught.value.status is Status.SUSPICIOUS_TIME


def test_a_kept_program_gives_more_samples(workload: Workload, bench: Bench) -> None:
    bench.build(1, to_json(workload.mod))
    bench.run(1, QUICK, None, None, keep=True)
    assert bench.sample(1, 3, QUICK) > 0 and bench.sample(1, 1, QUICK) > 0
    bench.on_build(
        Request({"id": 2, "discard": True, "most_size": None}, (to_json(workload.mod).encode(),))
    )
    with pytest.raises(KeyError):
        bench.sample(1, 1, QUICK)


def test_a_cast_on_the_way_loosens_the_tolerance() -> None:
    """Sums in float16, given out as float32: their order may differ by what float16 rounds."""
    a = te.placeholder((8, 256), "float16", name="A")
    k = te.reduce_axis((0, 256), name="k")
    sums = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="S")
    out = te.compute((8,), lambda i: sums[i].astype("float32"), name="O")
    workload = from_prim_func(te.create_prim_func([a, out]))
    sch = Schedule(workload.mod)
    outer, inner = sch.split(sch.get_loops(sch.get_sblock("S"))[1], [None, 16])
    sch.rfactor(inner, 0)
    assert outcome(bench_of(workload), sch.mod).verified


def test_rounding_to_integers_may_go_to_either_side() -> None:
    a = te.placeholder((512, 64), "float16", name="A")
    k = te.reduce_axis((0, 64), name="k")
    sums = te.compute((512,), lambda i: te.sum(a[i, k], axis=k), name="S")
    out = te.compute(
        (512,), lambda i: (te.round(sums[i] * tirx.const(10.0, "float16"))).astype("int8"), name="O"
    )
    workload = from_prim_func(te.create_prim_func([a, out]))
    sch = Schedule(workload.mod)
    _, inner = sch.split(sch.get_loops(sch.get_sblock("S"))[1], [None, 8])
    sch.rfactor(inner, 0)
    bench = bench_of(workload)
    assert outcome(bench, sch.mod).verified
    shifted = te.compute(
        (512,),
        lambda i: (
            te.round(sums[i] * tirx.const(10.0, "float16")) + tirx.const(20.0, "float16")
        ).astype("int8"),
    )
    wrong = IRModule({"main": te.create_prim_func([a, shifted])})
    assert "512 of 512 elements differ" in reason(bench, wrong)


def test_an_index_may_be_any_of_those_with_the_largest_value() -> None:
    signature = (
        'A: T.Buffer((16, 8), "int8"), N: T.Buffer((16, 60), "int32"), K: T.Buffer((16,), "int32"),'
        'M: T.Buffer((16,), "int8")'
    )

    def argmax(keeps: str, index: str = "vk") -> IRModule:
        return from_body(
            f"""
for i, k in T.grid(16, 60):
    with T.sblock("K"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            K[vi] = -1
            M[vi] = T.int8(-128)
        at: T.let[T.int32] = T.Select(M[vi] {keeps} A[vi, N[vi, vk] % 8], K[vi], {index})
        top: T.let[T.int8] = T.Select(
            M[vi] {keeps} A[vi, N[vi, vk] % 8], M[vi], A[vi, N[vi, vk] % 8]
        )
        K[vi] = at
        M[vi] = top
""",
            signature,
        )

    bench = bench_of(from_prim_func(argmax(">=")["main"], name="argmax"))
    assert outcome(bench, argmax(">")).verified
    assert "output 0 (int32)" in reason(bench, argmax(">=", "vk - 1"))


def test_a_program_without_a_branch_is_refused_though_no_draw_takes_it() -> None:
    def least(value: str) -> IRModule:
        return from_body(
            f"""
for i, j in T.grid(64, 64):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = {value}
"""
        )

    clipped = "T.min(A[vi, vj] * B[vi, vj], T.float32(123456))"
    bench = bench_of(from_prim_func(least(clipped)["main"], name="clipped"))
    assert outcome(bench, least(clipped)).verified
    assert "output 0 (float32)" in reason(bench, least("A[vi, vj] * B[vi, vj]"))
    assert bench._runner.unreached == ()
    square = "T.max(A[vi, vj] * A[vi, vj], T.float32(-2))"
    bench = bench_of(from_prim_func(least(square)["main"], name="square"))
    assert bench._runner.unreached == ("block 'C': no input has A[vi, vj] * A[vi, vj] < -2",)


class Signs:
    """Signs of a machine that something disturbs while some programs run."""

    def __init__(self, *slow: bool) -> None:
        self.slow = list(slow)

    def begin(self) -> None:
        return None

    def end(self) -> Slowdown | None:
        return Slowdown("slow", 2.0) if self.slow.pop(0) else None


def test_what_known_work_says_is_part_of_the_reply(workload: Workload) -> None:
    bench = Bench(workload)
    bench._backend.waits = None
    policy = TimingPolicy(1e-5, min_repeats=2, max_repeats=2, budget_seconds=math.inf)
    how = run_header(policy, 1e9, None)
    for slow, found in (([False], (2, 0)), ([True, False], (2, 2)), ([True] * 3, (0, 6))):
        bench.build(1, to_json(workload.mod))
        bench._contention = Contention([signs := Signs(*slow)])
        reply = bench.on_run(Request({"id": 1, "keep": False, **how}))
        told = Disturbance(**reply["disturbance"])
        assert (told.undisturbed, told.disturbed) == found and not signs.slow
        assert told.low <= min(reply["samples"]) and len(reply["samples"]) == max(found[0], 1)


def test_a_program_that_cannot_win_is_not_timed_again(workload: Workload) -> None:
    bench = Bench(workload)
    bench.build(1, to_json(workload.mod))
    bench._contention = Contention([Signs(True)])
    how = run_header(QUICK, 1e-12, None)
    reply = bench.on_run(Request({"id": 1, "keep": False, **how}))
    assert reply["disturbance"]["undisturbed"] == 0


def test_a_sample_of_the_finals_is_taken_again(workload: Workload) -> None:
    bench = Bench(workload)
    bench.build(1, to_json(workload.mod))
    for slow, disturbed in (([True, False], False), ([True] * 3, True)):
        bench._backend.waits = None
        bench._contention = Contention([Signs(*slow)])
        [sample] = bench.samples([(1, 1)], QUICK)
        assert sample.disturbed is disturbed
