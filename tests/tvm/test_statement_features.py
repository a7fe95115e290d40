"""Features of programs: they are TVM's, depend on the program alone, and leave it as it is."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

import schedlang as sl
from schedlang.search import Random
from schedlang.tvm.analysis import work as module
from schedlang.tvm.analysis.work import COLUMNS, SKIPPED_PASSES, statement_features
from schedlang.tvm.program import structural_key
from schedlang.tvm.schedule.intrinsics import register_all

pytestmark = pytest.mark.filterwarnings("error")

_THREADS = slice(49, 57)
_ACCESSES = slice(57, 147)

# Run alone, and in a fresh process without the packages that MetaSchedule's Python part needs.
_PROGRAM = """
import sys
for name in ("psutil", "xgboost", "cloudpickle", "tornado", "torch"):
    sys.modules[name] = None
import zlib
import schedlang as sl
from schedlang.tvm.analysis.work import statement_features
workload = sl.workloads.get("C1D")
schedules = [sl.default_space("cpu").sample(workload, seed=seed).raw for seed in range(4)]
print(zlib.crc32(b"".join(f.tobytes() for f in statement_features(schedules))))
"""


def scheduled(name: str, count: int = 4) -> list[sl.Schedule]:
    search = Random(sl.default_space("cpu"), sl.workloads.get(name), seed=0)
    return [proposal.schedule for proposal in search.ask(count)]


def broken() -> sl.Schedule:
    """TVM cannot lower it: an automatic copy must be of a single buffer."""
    sch = sl.Schedule(sl.workloads.matmul(16, 16, 16))
    sch.annotate(sch.get_block("C"), "auto_copy", 1)
    return sch


@pytest.mark.parametrize("name", ["GMM", "SFM", "DEP"])
def test_they_are_those_of_tvm(name: str) -> None:
    """But for the order of the buffers of a statement, the GPU's columns on a CPU, and the passes
    that are left out.
    """
    pytest.importorskip("psutil", reason="MetaSchedule needs psutil")
    import tvm
    from tvm.s_tir import meta_schedule as ms

    register_all()  # the context imports them all, which takes 20 s without this
    schedules = scheduled(name)
    context = ms.TuneContext(target=tvm.target.Target("llvm"), num_threads=1)
    candidates = [
        ms.MeasureCandidate(tvm.s_tir.Schedule(sch.mod), args_info=[]) for sch in schedules
    ]
    extractor = ms.feature_extractor.PerStoreFeature()
    with tvm.transform.PassContext(disabled_pass=list(SKIPPED_PASSES)):
        expected = extractor.extract_from(context, candidates)
    for ours, theirs in zip(statement_features([s.raw for s in schedules]), expected, strict=True):
        assert ours is not None
        wanted = theirs.numpy().astype(np.float32)
        assert ours.shape == wanted.shape and ours.shape[1] == COLUMNS and len(ours)
        assert ours.dtype == np.float32
        for row, other in zip(ours, wanted, strict=True):
            assert _accesses(row) == _accesses(other)
        ours, wanted = ours.copy(), wanted.copy()
        assert (ours[:, _THREADS] == 1).all()
        ours[:, _THREADS] = wanted[:, _THREADS] = 0
        ours[:, _ACCESSES] = wanted[:, _ACCESSES] = 0
        np.testing.assert_array_equal(ours, wanted)


def _accesses(row: np.ndarray) -> list[list[float]]:
    return sorted(row[_ACCESSES].reshape(5, 18).tolist())


def test_the_passes_that_are_left_out_are_on_the_way_of_the_extractor() -> None:
    """Else the next TVM calls them something else, and everything is slower without a word."""
    from tvm.ir.instrument import pass_instrument

    ran: list[str] = []

    @pass_instrument
    class Note:
        def run_before_pass(self, mod: object, info: Any) -> None:
            ran.append(str(info.name))

    import tvm

    with tvm.transform.PassContext(instruments=[Note()]):
        module._extract([sch.raw for sch in scheduled("GMM", 1)])
    assert set(SKIPPED_PASSES) < set(ran)
    ran.clear()
    with tvm.transform.PassContext(instruments=[Note()], disabled_pass=list(SKIPPED_PASSES)):
        module._extract([sch.raw for sch in scheduled("GMM", 1)])
    assert ran and not set(SKIPPED_PASSES) & set(ran)


def test_what_passes_the_caller_skips_does_not_count() -> None:
    import tvm

    raws = [sch.raw for sch in scheduled("GMM", 2)]
    with tvm.transform.PassContext(disabled_pass=["s_tir.LowerInitBlock"]):
        inside = statement_features(raws)
    for left, right in zip(inside, statement_features(raws), strict=True):
        np.testing.assert_array_equal(left, right)


def test_programs_stay_as_they_are_and_may_share_a_batch() -> None:
    schedules = scheduled("C1D")
    keys = [structural_key(sch.mod) for sch in schedules]
    together = statement_features([sch.raw for sch in schedules])
    assert [structural_key(sch.mod) for sch in schedules] == keys
    for sch, features in zip(schedules, together, strict=True):
        alone = statement_features([sch.raw])[0]
        assert features is not None and alone is not None
        np.testing.assert_array_equal(features, alone)
        assert np.isfinite(features).all()


def test_more_threads_give_the_same() -> None:
    raws = [sch.raw for sch in scheduled("SFM", 6)]
    one, two = statement_features(raws, threads=1), statement_features(raws, threads=2)
    for left, right in zip(one, two, strict=True):
        assert left is not None and right is not None
        np.testing.assert_array_equal(left, right)
    with pytest.raises(ValueError, match="threads"):
        statement_features(raws, threads=0)


def test_a_program_that_cannot_be_lowered_does_not_cost_the_others_theirs() -> None:
    good = [sch.raw for sch in scheduled("GMM", 5)]
    bad = broken().raw
    expected = statement_features(good)
    found = statement_features([*good[:2], bad, *good[2:], bad])
    assert [features is None for features in found] == [False] * 2 + [True] + [False] * 3 + [True]
    for left, right in zip((f for f in found if f is not None), expected, strict=True):
        assert right is not None
        np.testing.assert_array_equal(left, right)
    assert statement_features([bad]) == [None]
    assert statement_features([]) == []


def test_features_that_are_not_finite_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    finite, infinite = np.zeros((2, COLUMNS)), np.zeros((1, COLUMNS))
    infinite[0, 150] = np.inf
    tables = [finite, infinite, None, finite[:0]]
    monkeypatch.setattr(module, "_extract", lambda _: tables)
    first, second, third, fourth = statement_features([None] * 4)
    assert first is not None and first.shape == (2, COLUMNS)
    assert second is None and third is None
    assert fourth is not None and fourth.shape == (0, COLUMNS)


def test_programs_that_store_constants_alone_have_no_rows() -> None:
    """As those whose only statement is a call of the user's own code."""
    ones = te.compute((8, 8), lambda i, j: tirx.const(1.0, "float32"), name="ones")
    sch = sl.Schedule(sl.workloads.from_te([ones]))
    assert [one.shape for one in statement_features([sch.raw]) if one is not None] == [(0, COLUMNS)]
    product = scheduled("GMM", 1)[0]
    both = statement_features([sch.raw, product.raw])
    [alone] = statement_features([product.raw])
    assert both[1] is not None and alone is not None
    np.testing.assert_array_equal(both[1], alone)


def test_names_of_buffers_do_not_count() -> None:
    """Two operands with the same name, in both orders: TVM would go by their addresses."""

    def workload(first: str, second: str) -> sl.Workload:
        one, other = te.placeholder((8, 8), name=first), te.placeholder((16, 16), name=second)
        added = te.compute((8, 8), lambda i, j: one[i, j] + other[i, j], name="sum")
        return sl.workloads.from_te([one, other, added])

    tables = [
        statement_features([sl.Schedule(workload(*names)).raw])[0]
        for names in (("A", "B"), ("B", "A"), ("A", "A"))
    ]
    assert all(table is not None for table in tables)
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])


def test_gpu_threads_are_seen() -> None:
    sch = sl.Schedule(sl.workloads.matmul(32, 64, 16))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    features = statement_features([sch.raw])[0]
    assert features is not None
    lengths = np.exp2(features[0, 50:57]) - 1
    np.testing.assert_allclose(lengths, [32, 1, 1, 64, 1, 1, 1], rtol=1e-5)


def test_a_fresh_process_without_optional_packages_finds_the_same() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    workload = sl.workloads.get("C1D")
    schedules = [sl.default_space("cpu").sample(workload, seed=seed).raw for seed in range(4)]
    tables = statement_features(schedules)
    assert all(table is not None for table in tables)
    content = b"".join(table.tobytes() for table in tables if table is not None)
    assert int(done.stdout) == zlib.crc32(content)
