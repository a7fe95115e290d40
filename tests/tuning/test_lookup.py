"""``best`` and ``apply``: what a database has for a program."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

import schedlang as sl
from schedlang.database import Database
from schedlang.errors import DatabaseError
from schedlang.targets import build_callable
from schedlang.tvm.program import structural_key
from schedlang.workloads import from_te

# So large that any schedule beats none, whatever else the machine does.
N = 128


def matmul(name: str = "C", *, swapped: bool = False, subtract: bool = False) -> sl.Workload:
    """C = A B + D, or with a minus; the arguments in another order when ``swapped``."""
    a = te.placeholder((N, N), "float32", f"{name}_A")
    b = te.placeholder((N, N), "float32", f"{name}_B")
    d = te.placeholder((N, N), "float32", f"{name}_D")
    k = te.reduce_axis((0, N), "k")
    c = te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name)
    if subtract:
        e = te.compute((N, N), lambda i, j: c[i, j] - d[i, j], name=f"{name}_out")
    elif swapped:
        e = te.compute((N, N), lambda i, j: d[i, j] + c[i, j], name=f"{name}_out")
    else:
        e = te.compute((N, N), lambda i, j: c[i, j] + d[i, j], name=f"{name}_out")
    return from_te([d, b, a, e] if swapped else [a, b, d, e], name)


@pytest.fixture(scope="module")
def tuned() -> Iterator[tuple[Database, sl.TuneResult]]:
    with Database() as database:
        result = sl.tune(matmul(), trials=6, database=database, progress=False)
        yield database, result


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random((N, N)).astype("float32") for _ in range(3)]


def test_the_best_of_a_workload(tuned: tuple[Database, sl.TuneResult]) -> None:
    database, result = tuned
    found = sl.best(matmul(), "cpu", database)
    assert found is not None
    assert found.kind == "same"
    assert found.notes == ()
    assert found.record in result.records
    assert found.record == result.best.record
    assert structural_key(found.mod) == structural_key(found.schedule.mod)
    a, b, d = inputs()
    out = np.empty((N, N), "float32")
    found.build()(a, b, d, out)
    np.testing.assert_allclose(out, a @ b + d, rtol=1e-4)


def test_names_do_not_count(tuned: tuple[Database, sl.TuneResult]) -> None:
    found = sl.best(matmul("other"), "cpu", tuned[0])
    assert found is not None
    assert found.kind == "same"


def test_a_program_with_the_same_exact_key(tuned: tuple[Database, sl.TuneResult]) -> None:
    database, _ = tuned
    workload = matmul("P", swapped=True)
    assert workload.key != matmul().key
    found = sl.best(workload, "cpu", database)
    assert found is not None
    assert found.kind == "exact"
    assert found.notes == ("tuned as 'C', which computes the same",)
    a, b, d = inputs()
    out = np.empty((N, N), "float32")
    found.build()(d, b, a, out)
    np.testing.assert_allclose(out, a @ b + d, rtol=1e-4)


@pytest.mark.slow
def test_a_similar_program_is_verified_measured_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    sl.tune(matmul(), trials=6, database=path, progress=False)
    workload = matmul("M", subtract=True)
    assert sl.best(workload, "cpu", path, similar=False) is None
    found = sl.best(workload, "cpu", path)
    assert found is not None
    # Which is the fastest is a matter of luck.
    assert found.kind in ("family", "default")
    assert "the schedule of the similar program 'C'" in found.notes[0]
    assert ", verified and raced here against " in found.notes[0]
    assert found.record.verified
    assert found.record.search == "transfer"
    a, b, d = inputs()
    out = np.empty((N, N), "float32")
    found.build()(a, b, d, out)
    np.testing.assert_allclose(out, a @ b - d, rtol=1e-3, atol=1e-4)
    again = sl.best(workload, "cpu", path)
    assert again is not None
    assert again.kind == "same", "it has a record of its own now"
    assert again.record == found.record


def test_the_database_may_come_before_the_target_or_behind_it(
    tuned: tuple[Database, sl.TuneResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = tuned
    path, here = tmp_path / "tune.db", sl.Target("cpu")
    sl.tune(matmul(), trials=2, database=path, progress=False)
    found = sl.best(matmul(), database=database, target="cpu")
    assert found is not None
    for places in [(database,), (database, "cpu"), (database, here), ("cpu", database)]:
        again = sl.best(matmul(), *places)
        assert again is not None and again.record == found.record
    found = sl.best(matmul(), database=path)
    assert found is not None
    for place in (path, str(path)):
        for places in [(place,), (place, "cpu"), ("cpu", place), (here, place), (place, here)]:
            again = sl.best(matmul(), *places)
            assert again is not None and again.record.samples == found.record.samples
        assert sl.best(matmul(), here, database=place) is not None
        assert sl.best(matmul(), place, target="cpu") is not None
        with pytest.raises(sl.errors.TargetError, match="'cpuu'"):
            sl.best(matmul(), "cpuu", place)
    with pytest.raises(DatabaseError, match="give the database to look in"):
        sl.best(matmul(), "cpu")
    with pytest.raises(TypeError, match="is that a database or a target"):
        sl.best(matmul(), "cpu", "cpu")
    with pytest.raises(TypeError, match="multiple values for argument 'target'"):
        sl.best(matmul(), database, "cpu", target="cpu")  # type: ignore[misc]
    path.rename(tmp_path / "cpu")
    monkeypatch.chdir(tmp_path)
    for places in [("cpu",), ("cpu", "x86/avx2")]:
        with pytest.raises(TypeError, match="write database= and target="):
            sl.best(matmul(), *places)
    assert sl.best(matmul(), database="cpu") is not None


def test_nothing_is_found(tuned: tuple[Database, sl.TuneResult], tmp_path: Path) -> None:
    database, _ = tuned
    assert sl.best(sl.workloads.get("SFM", m=8, n=8), "cpu", database) is None
    assert sl.best(matmul(), sl.Target("cpu", cores=1), database, similar=False) is None
    for missing in (tmp_path / "none.db", str(tmp_path / "no folder" / "none.db")):
        with pytest.raises(DatabaseError, match="there is no such file to read; tune") as info:
            sl.best(matmul(), "cpu", missing)
        assert f"tune(..., database={str(missing)!r}) makes it" in str(info.value)
        assert "read_only" not in str(info.value)
    with pytest.raises(DatabaseError, match="there is no such file to read; tune"):
        sl.apply(matmul(), tmp_path / "none.db")
    with pytest.raises(DatabaseError, match="give the database to look in"):
        sl.best(matmul())


def test_apply_replaces_what_it_has_and_names_the_rest(
    tuned: tuple[Database, sl.TuneResult],
) -> None:
    database, _ = tuned
    softmax = sl.workloads.get("SFM", m=8, n=8)
    mod = tvm.IRModule(
        {
            "mine": matmul().func.with_attr("global_symbol", "mine"),
            "swapped": matmul(swapped=True).func.with_attr("global_symbol", "swapped"),
            "soft": softmax.func.with_attr("global_symbol", "soft"),
        }
    )
    with pytest.warns(
        sl.UntunedWarning, match="what has no record on cpu/.* stays unscheduled: soft$"
    ):
        applied = sl.apply(mod, database)
    assert {var.name_hint for var in applied.functions} == {"mine", "swapped", "soft"}
    assert structural_key(tvm.IRModule({"main": applied["soft"]})) == structural_key(
        tvm.IRModule({"main": mod["soft"]})
    )
    a, b, d = inputs()
    for name, args in (("mine", (a, b, d)), ("swapped", (d, b, a))):
        assert applied[name].attrs["global_symbol"] == name
        one = tvm.IRModule({"main": applied[name].with_attr("global_symbol", "main")})
        assert structural_key(one) != structural_key(tvm.IRModule({"main": mod[name]}))
        out = np.empty((N, N), "float32")
        build_callable(one)(*args, out)
        np.testing.assert_allclose(out, a @ b + d, rtol=1e-4)
    with pytest.raises(DatabaseError, match="no record on .* for: soft$"):
        sl.apply(mod, database, strict=True)


def test_apply_is_silent_when_all_is_tuned(tuned: tuple[Database, sl.TuneResult]) -> None:
    database, _ = tuned
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        applied = sl.apply(matmul(), database)
    assert not said and structural_key(applied) != matmul().key


def test_wrong_and_unverified_records_are_never_used(tmp_path: Path) -> None:
    with Database(tmp_path / "tune.db") as database:
        sl.tune(matmul(), trials=3, database=database, verify=False, progress=False)
        assert database.count() == 3 + 1
        found = sl.best(matmul(), "cpu", database)
        assert found is not None and found.unscheduled and found.record.latency == found.latency
        assert found.notes == ("there are faster records that were not verified",)
        with pytest.warns(sl.UntunedWarning, match="main stays unscheduled: there are faster rec"):
            sl.apply(matmul().mod, database)
