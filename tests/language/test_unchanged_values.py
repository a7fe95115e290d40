"""A schedule changes its own program only: no workload, no copy, no program that it gave away.

TVM changes statements in place where a program is nested: loops around several statements, blocks
in blocks, whether written so or made by blockize, tensorize, decompose_reduction and caches.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tvm.s_tir import Schedule as TVMSchedule

import schedlang as sl
from schedlang.database import Database
from schedlang.errors import InstructionError
from schedlang.language.schedule import Schedule
from schedlang.metaschedule import as_tvm_database
from schedlang.tvm import metaschedule as tvm_metaschedule, program
from schedlang.tvm.codegen.cuda import bound
from schedlang.tvm.program import block_names
from schedlang.tvm.schedule import get_module
from schedlang.workloads import from_script, matmul
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import biased_matmul, elementwise
from tests.language.primitives.tensors import CASES
from tests.metaschedule.records import TARGET, record_of

BUFFERS = ", ".join(f'{name}: T.Buffer((16, 16), "float32")' for name in "ABC")


def nested() -> Workload:
    """B = 2 A by a block in each row's block."""
    return _program("""
    for i in range(16):
        with T.sblock("outer"):
            vi = T.axis.spatial(16, i)
            for j in range(16):
                with T.sblock("inner"):
                    vj = T.axis.spatial(16, j)
                    C[vi, vj] = A[vi, vj] * B[vi, vj]
""")


def sequence() -> Workload:
    """Two nests below one loop; no block is inside another."""
    return _program("""
    for i in range(16):
        for j in range(16):
            for k in range(1):
                with T.sblock("first"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(16):
            for k in range(1):
                with T.sblock("second"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)
""")


def thrice_nested() -> Workload:
    """Blocks in blocks in blocks, two of them side by side, below a condition."""
    return _program("""
    for i in range(4):
        with T.sblock("rows"):
            vi = T.axis.spatial(4, i)
            for j in range(4):
                with T.sblock("tile"):
                    vj = T.axis.spatial(4, j)
                    for p in range(4):
                        for q in range(4):
                            with T.sblock("first"):
                                vp, vq = T.axis.remap("SS", [p, q])
                                B[vi * 4 + vp, vj * 4 + vq] = A[vi * 4 + vp, vj * 4 + vq]
                        for q in range(4):
                            with T.sblock("second"):
                                vp, vq = T.axis.remap("SS", [p, q])
                                C[vi * 4 + vp, vj * 4 + vq] = B[vi * 4 + vp, vj * 4 + vq]
""")


def _program(body: str) -> Workload:
    return from_script(f"@T.prim_func(s_tir=True)\ndef main({BUFFERS}):{body}", "nested")


# -- one case of each kind -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "outer", "inner"),
    [(nested, ("outer", 0), ("inner", 0)), (sequence, ("first", 0), ("first", 2))],
)
def test_a_workload_does_not_change(
    make: Callable[[], Workload], outer: tuple[str, int], inner: tuple[str, int]
) -> None:
    workload = make()
    before = workload.script()
    sch = Schedule(workload)
    for block, position in (outer, inner):
        sch.unroll(sch.get_loops(block)[position])
    assert workload.script() == before == Schedule(workload).mod.script()
    assert sch.trace.replay().mod.script() == sch.mod.script()
    assert sch.trace.flattened().replay().mod.script() == sch.mod.script()
    scope: dict[str, Any] = {}
    exec(sch.trace.as_tvm_python(), scope)
    assert program.structurally_equal(scope["sch"].mod, sch.mod)
    theirs = TVMSchedule(workload.mod)
    sch.trace.to_tvm_trace(strict=True).apply_to_schedule(theirs, remove_postproc=False)
    assert program.structurally_equal(theirs.mod, sch.mod)
    assert workload.script() == before


def test_a_function_that_a_workload_was_made_of_does_not_change() -> None:
    function = nested().func
    before = function.script()
    sch = Schedule(sl.workloads.from_prim_func(function))
    sch.unroll(sch.get_loops("outer")[0])
    sch.unroll(sch.get_loops("inner")[0])
    assert function.script() == before


def test_copies_are_independent_both_ways() -> None:
    workload = matmul(16, 16, 16)
    for first_is_copy in (False, True):
        sch = Schedule(workload)
        block = sch.get_block("C")
        loops = sch.get_loops(block)
        sch.blockize(loops[1])
        other = sch.copy()
        one, two = (other, sch) if first_is_copy else (sch, other)
        before = two.mod.script()
        for loop in loops:
            one.unroll(loop)
        assert two.mod.script() == before
        assert "T.unroll" not in before and "T.unroll" in one.mod.script()


def test_what_a_schedule_gave_away_does_not_change() -> None:
    sch = Schedule(nested())
    outer, inner = sch.get_loops("outer")[0], sch.get_loops("inner")[0]
    sch.annotate(inner, "note", 1)  # now nothing is the workload's
    given, statement = sch.mod, sch.get(outer)
    before = given.script(), str(statement)
    sch.unroll(outer)
    sch.unroll(inner)
    assert (given.script(), str(statement)) == before


def test_what_a_macro_sees_does_not_change() -> None:
    seen: list[Any] = []

    @sl.instruction
    def look_then_unroll(sch: sl.Schedule, outer: sl.LoopRV, inner: sl.LoopRV) -> None:
        """for i: for j  ->  unrolled i: unrolled j"""
        sch.annotate(inner, "note", 1)
        seen.append((sch.mod, sch.mod.script()))
        sch.unroll(outer)

    sch = Schedule(nested())
    outer, inner = sch.get_loops("outer")[0], sch.get_loops("inner")[0]
    look_then_unroll(sch, outer, inner)
    sch.unroll(inner)
    ((mod, before),) = seen
    assert mod.script() == before


def test_what_a_pass_of_tvm_schedules_does_not_change() -> None:
    """TVM's passes apply a record's trace to the very module that they asked for."""
    workload = nested()
    sch = Schedule(workload)
    sch.unroll(sch.get_loops("outer")[0])
    sch.unroll(sch.get_loops("inner")[0])
    database = Database()
    database.put_workload(workload.key, workload.name, program.to_json(workload.mod))
    database.append([record_of(workload, sch.trace, 1e-6)])
    mod = program.from_json(program.to_json(workload.mod))  # shares nothing with the workload
    before = mod.script()
    trace = sch.trace.to_tvm_trace()
    tvm_metaschedule.apply_trace(trace, mod)
    assert mod.script() == before
    view = as_tvm_database(database, TARGET)
    record = view.query_tuning_record(mod, TARGET.tvm_target(), "main")
    assert record is not None
    theirs = TVMSchedule(record.workload.mod)
    record.trace.apply_to_schedule(theirs, remove_postproc=False)
    assert "T.unroll" in theirs.mod.script()
    assert mod.script() == before


def test_a_program_that_gets_default_threads_does_not_change() -> None:
    """TVM's pass that binds the blocks without threads is a schedule, too."""
    sch = Schedule(nested())
    sch.blockize(sch.get_loops("outer")[0])
    sch.cache_read("outer_o", 0, "global")
    sch.cache_write("inner", 0, "global")
    mod = program.from_json(program.to_json(sch.mod))
    before = mod.script()
    made = bound(mod, sl.Target("cuda", arch="sm_80").tvm_target())
    assert "threadIdx.x" in made.script()
    assert mod.script() == before


# -- random sequences ------------------------------------------------------------------------------


def _step(sch: Schedule, rng: random.Random) -> None:
    """Try one random instruction; what does not apply is left out."""
    block = rng.choice(block_names(get_module(sch.raw)))
    with suppress(InstructionError):
        loops = sch.get_loops(block)
        loop = rng.choice(loops) if loops else None
        kind = rng.choice(_BLOCK_STEPS if loop is None or rng.random() < 0.4 else _LOOP_STEPS)
        kind(sch, block, loop, rng)


def _compute_at(sch: Schedule, block: str, loop: Any, rng: random.Random) -> None:
    other = rng.choice(block_names(get_module(sch.raw)))
    rng.choice([sch.compute_at, sch.reverse_compute_at])(other, loop)


def _tensorize(sch: Schedule, block: str, loop: Any, rng: random.Random) -> None:
    with suppress(ValueError):  # the loops are others by now
        next(case for case in CASES if case.name == "tensorize").apply(sch)


def _cache(sch: Schedule, primitive: Callable[..., Any], block: str) -> None:
    if "tensorize" not in str(sch.trace):  # TVM's tables are wrong behind it, and it may crash
        primitive(block, 0, "global")


_LOOP_STEPS: list[Callable[..., Any]] = [
    lambda sch, block, loop, rng: sch.unroll(loop),
    lambda sch, block, loop, rng: sch.parallel(loop),
    lambda sch, block, loop, rng: sch.annotate(loop, f"note{rng.random()}", 1),
    lambda sch, block, loop, rng: sch.split(loop, [None, rng.choice([2, 3, 4])]),
    lambda sch, block, loop, rng: sch.fuse(*sch.get_loops(block)[:2]),
    lambda sch, block, loop, rng: sch.reorder(*reversed(sch.get_loops(block)[-2:])),
    lambda sch, block, loop, rng: sch.blockize(loop),
    lambda sch, block, loop, rng: sch.decompose_reduction(block, loop),
    lambda sch, block, loop, rng: sch.add_unit_loop(loop),
    _compute_at,
    _tensorize,
]
_BLOCK_STEPS: list[Callable[..., Any]] = [
    lambda sch, block, loop, rng: sch.annotate(block, f"note{rng.random()}", 1),
    lambda sch, block, loop, rng: _cache(sch, sch.cache_read, block),
    lambda sch, block, loop, rng: _cache(sch, sch.cache_write, block),
    lambda sch, block, loop, rng: sch.storage_align(block, 0, 0, 16, 1),
    lambda sch, block, loop, rng: sch.add_unit_loop(block),
    lambda sch, block, loop, rng: sch.transform_layout(block, ("write", 0), lambda i, j: (j, i)),
]


@pytest.mark.slow
@pytest.mark.parametrize("make", [nested, sequence, thrice_nested, elementwise, biased_matmul])
def test_random_steps_change_their_own_schedule_only(make: Callable[[], Workload]) -> None:
    """Steps on a schedule and its copies in turns; what each other one is, and was, stays."""
    for seed in range(12):
        rng = random.Random(seed)
        workload = Workload(program.from_json(program.to_json(make().mod)), "fresh")
        schedules = [Schedule(workload)]
        given = [(workload.mod, program.structural_key(workload.mod))]
        for _ in range(14):
            if rng.random() < 0.2:
                schedules.append(rng.choice(schedules).copy())
            chosen = rng.choice(schedules)
            others = [(one, _key(one)) for one in schedules if one is not chosen]
            if rng.random() < 0.3:
                given.append((chosen.mod, _key(chosen)))
            if rng.random() < 0.1:
                given.append((chosen.trace.replay(workload).mod, _key(chosen)))
            _step(chosen, rng)
            assert all(_key(one) == key for one, key in others), chosen.trace
        assert all(program.structural_key(mod) == key for mod, key in given)
        for one in schedules:
            assert program.structural_key(one.trace.replay().mod) == _key(one), one.trace


def _key(sch: Schedule) -> str:
    """Return the key of a schedule's program, without a call that protects it."""
    return program.structural_key(get_module(sch.raw))
