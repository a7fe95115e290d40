"""``overlap_last_tiles``: in the trace, in the program that is shown, and nowhere else."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm.script import from_source

import schedlang as sl
from schedlang.interpreters.stored_trace import same_steps
from schedlang.tvm import program
from schedlang.tvm.analysis.races import determinism
from schedlang.tvm.codegen import pipeline as cpu_pipeline
from schedlang.tvm.codegen.pipeline import default_pipeline, written_for_tvm
from schedlang.tvm.schedule.last_tiles import with_dense_tiles, with_overlapping_tiles

HEADER = "@T.prim_func(s_tir=True)\n"


def product() -> sl.Workload:
    return sl.workloads.matmul(17, 35, 11)


def tiled(*, overlap: bool) -> sl.Schedule:
    """A product whose tiles stay in registers; they divide neither its rows nor its columns."""
    sch = sl.Schedule(product())
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 9])
    j0, j1 = sch.split(j, [None, 16])
    if overlap:  # it says something of the end
        sch.overlap_last_tiles()
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(sch.cache_write(block, 0, "global"), j0)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(sch.get_loops(block)[-1])
    return sch


def samples(count: int = 8) -> list[sl.Schedule]:
    space = sl.default_space("cpu")
    found = []
    seed = 0
    while len(found) < count:
        sch = space.sample(product(), seed=seed)
        seed += 1
        if not sch.mod.script() == sch.guarded_mod.script():
            found.append(sch)
    return found


def run(mod: Any) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, dtype="float32") for s in ((17, 11), (11, 35)))
    c = np.full((17, 35), np.nan, "float32")
    sl.Target("cpu").build(mod).main(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    return c


def lowered(mod: Any, pipeline: Any) -> Any:
    """What the passes of a pipeline make of a program, its statements about alignment aside."""
    func = pipeline(tvm_bound(mod))[program.MAIN]
    return cpu_pipeline._assume_no_alignment(func, None, None).body


def tvm_bound(mod: Any) -> Any:
    import tvm

    target = sl.Target("cpu").tvm_target()
    return tvm.tirx.transform.BindTarget(target.with_host(target))(mod)


def test_it_is_in_the_trace_and_in_the_program() -> None:
    sch, guarded = tiled(overlap=True), tiled(overlap=False)
    assert "sch.overlap_last_tiles()" in str(sch.trace)
    assert "T.where" not in sch.mod.script() and "T.min(" in sch.mod.script()
    assert "T.where" in guarded.mod.script() and "T.min(" not in guarded.mod.script()
    assert program.structurally_equal(sch.trace.replay().mod, sch.mod)
    np.testing.assert_array_equal(run(sch.mod), run(guarded.mod))


@pytest.mark.parametrize("sch", [tiled(overlap=True), *samples(4)])
def test_code_generation_changes_no_loops(sch: sl.Schedule) -> None:
    """What we lower is what TVM's own pipeline lowers of the program that is shown."""
    mod = written_for_tvm(sch.mod)
    ours, theirs = (lowered(mod, one()[0]) for one in (cpu_pipeline._pipeline, default_pipeline))
    assert tvm_ffi.structural_equal(ours, theirs, map_free_vars=True)


@pytest.mark.slow
@pytest.mark.parametrize("sch", samples())
def test_samples_of_the_default_space_show_it(sch: sl.Schedule) -> None:
    run(sch.mod)
    flat = [one.kind.name for one in sch.trace.flattened().instructions]
    assert flat.count("overlap_last_tiles") == 1 and flat[-1] == "overlap_last_tiles"
    assert program.structurally_equal(sch.trace.flattened().replay().mod, sch.mod)
    # Their traces are written as they were before there was this instruction.
    assert json.loads(sch.trace.to_json())["schema"] == 1
    assert "overlap_last_tiles" not in sch.trace.to_json()
    assert sl.Trace.from_json(sch.trace.to_json()) == sch.trace


def test_a_program_without_guards_has_no_such_instruction_once_it_is_flat() -> None:
    sch = sl.default_space("cpu").sample(sl.workloads.matmul(64, 64, 64), seed=0)
    assert sch.notes.overlaps and sch.mod.script() == sch.guarded_mod.script()
    assert "overlap_last_tiles" not in str(sch.trace.flattened())


def test_reading_adds_it_to_traces_from_before() -> None:
    text = tiled(overlap=False).trace.to_json()
    stored = json.loads(text)
    assert stored["schema"] == 2
    before = json.dumps({**stored, "schema": 1}, separators=(",", ":"), sort_keys=True)
    read = sl.Trace.from_json(before, product())
    assert read.instructions[-1].kind.name == "overlap_last_tiles"
    assert program.structurally_equal(read.replay().mod, tiled(overlap=True).mod)
    assert sl.Trace.from_json(text, product()).replay().mod.script().count("T.where") > 0
    assert sl.Trace.from_json(read.to_json()) == read
    assert same_steps(before, text) and not same_steps(before, read.to_json())


def test_keys_are_those_from_before() -> None:
    """Of the program with guards, of which tiles overlapped; without overlap it is another one."""
    sch, guarded = tiled(overlap=True), tiled(overlap=False)
    assert sch.program_key == program.structural_key(guarded.mod)
    assert guarded.program_key != sch.program_key
    assert len(guarded.program_key) == 16
    fits = sl.Schedule(sl.workloads.matmul(16, 16, 16))
    fits.split(fits.get_loops(fits.get_block("C"))[0], [None, 4])
    assert fits.program_key == program.structural_key(fits.mod)


def test_copies_and_undoing() -> None:
    sch = tiled(overlap=False)
    mark, before = sch.mark(), sch.mod.script()
    sch.overlap_last_tiles()
    copied = sch.copy()
    after = sch.mod.script()
    assert after != before and copied.mod.script() == after
    sch.rollback(mark)
    assert sch.mod.script() == before and copied.mod.script() == after
    assert sch.trace.replay().mod.script() == before


def test_instructions_that_follow_see_each_loop() -> None:
    sch = tiled(overlap=True)
    loops = sch.get_loops(sch.get_block("C"))
    sch.unroll(loops[-2])
    assert "T.where" not in sch.mod.script() and "T.unroll" in sch.mod.script()
    run(sch.mod)


def test_tvm_alone_makes_it() -> None:
    sch = tiled(overlap=True)
    text = sch.trace.as_tvm_python()
    assert "TVM has no counterpart of overlap_last_tiles" in text
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert program.structurally_equal(namespace["mod"], sch.mod)
    with pytest.warns(sl.PartialTraceWarning, match="overlap_last_tiles"):
        sch.trace.to_tvm_trace()
    fits = sl.default_space("cpu").sample(sl.workloads.matmul(64, 64, 64), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits.trace.to_tvm_trace(strict=True)


@pytest.mark.parametrize("sch", [tiled(overlap=True), *samples()])
def test_threads_that_overlap_write_the_same_values(sch: sl.Schedule) -> None:
    assert determinism(sch.mod).proven and determinism(sch.guarded_mod).proven


SIGNATURE = 'A: T.Buffer((11,), "float32"), C: T.Buffer((11,), "float32")'
# What overlapping tiles of a user's own program may do that depends on which of them is last.
DEPENDS = {
    "the tile": "C[v] = A[v] + T.Cast('float32', o)",
    "the place in the tile": "C[v] = A[v] + T.Cast('float32', i)",
    "what was there": "C[v] = C[v] + A[v]",
    "what another tile may have written": "C[v] = A[v] + C[0]",
}
TILES = """
def main({signature}):
    for o in T.parallel(3):
        start: T.let[T.int32] = T.min(o * 4, 7)
        for i in range(4):
            with T.sblock("C"):
                v = T.axis.spatial(11, start + i)
                {extra}
                {store}
"""


def overlapping(store: str, extra: str = "pass") -> Any:
    text = TILES.format(signature=SIGNATURE, store=store, extra=extra)
    return program.as_main(from_source(HEADER + text.lstrip("\n"), check_well_formed=False))


def test_tiles_of_a_users_program_that_compute_the_same_are_apart() -> None:
    mod = overlapping("C[v] = A[v] * T.float32(2)")
    assert "T.min(" not in with_dense_tiles(mod).script()
    assert determinism(mod).proven


@pytest.mark.parametrize("store", DEPENDS.values(), ids=DEPENDS)
def test_tiles_that_do_not_compute_the_same_are_not(store: str) -> None:
    mod = overlapping(store)
    assert "T.min(" in with_dense_tiles(mod).script()
    assert not determinism(mod).proven


def test_a_tile_that_is_gone_keeps_the_program() -> None:
    mod = tiled(overlap=False).mod
    assert with_dense_tiles(mod).same_as(mod)
    fits = sl.Schedule(sl.workloads.matmul(16, 16, 16)).mod
    assert with_overlapping_tiles(fits).same_as(fits)
