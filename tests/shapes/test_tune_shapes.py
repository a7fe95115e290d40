"""``tune_shapes``: from shapes to a callable that is right for each of them."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang.workloads.construct import Template
from tests.shapes.products import SHAPES, TARGET, check, dense, tuned


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 17, 31, 53, 59, 60])
def test_every_extent_of_a_range_is_right(found: sl.ShapeSet, rows: int) -> None:
    check(found, rows, 48)


def test_single_shapes_have_programs_of_their_own(found: sl.ShapeSet) -> None:
    check(found, 5, 31)
    check(found, 7, 31, {"rows": 7, "width": 31})
    assert found.serving(rows=5, width=31).trials >= 6  # type: ignore[union-attr]
    assert {one.origin for one in found.points} <= {"tuned", "carried over"}


def test_small_extents_have_kernels_of_their_own(found: sl.ShapeSet) -> None:
    [one] = found.ranges
    alone = [kernel for kernel in one.kernels if kernel.alone]
    assert {kernel.extents["rows"] for kernel in alone} == {1, 2, 3}
    for rows in (1, 2, 3):
        assert one.kernels[one.tree.find({"rows": rows, "width": 48})].extents["rows"] == rows


def test_what_it_lost_is_told(found: sl.ShapeSet) -> None:
    [one] = found.ranges
    assert (one.losses >= 1.0).all()
    assert one.loss == pytest.approx(np.exp(np.log(one.losses).mean()))
    assert len(one.regret) == len(one.samples)
    probes = {1, 2, 59, 60, 13, 31}
    assert probes <= {extents["rows"] for extents in one.verified}
    shown = str(found)
    assert "rows=1 to 3: 3 kernels, each for one value" in shown
    assert "left out of measuring" in shown


@pytest.mark.parametrize(("rows", "width"), [(61, 48), (5, 32), (1, 31)])
def test_other_shapes_are_refused_by_name(found: sl.ShapeSet, rows: int, width: int) -> None:
    with pytest.raises(sl.WorkloadError, match="rows=1 to 60, width=48; rows=5, width=31"):
        check(found, rows, width)
    with pytest.raises(sl.WorkloadError, match=f"rows={rows}"):
        found.serving(rows=rows, width=width)


def test_wrong_calls(found: sl.ShapeSet) -> None:
    with pytest.raises(TypeError, match="give the extents rows, width"):
        found.serving(rows=3)
    with pytest.raises(sl.WorkloadError, match="no kernel was made"):
        found(np.zeros((4, 32), "float32"), np.zeros((33, 48), "float32"), np.zeros((4, 48)))
    with pytest.raises(TypeError, match="float32"):
        found(np.zeros((4, 32)), np.zeros((32, 48)), np.zeros((4, 48)))


@pytest.mark.slow
def test_the_same_call_measures_kernels_only(file: Path, found: sl.ShapeSet) -> None:
    before = {one.extents["rows"]: one.trace for one in found.points}
    with sl.open_database(file) as database:
        count = len(database.query())
    again = tuned(file, SHAPES)
    with sl.open_database(file) as database:
        assert len(database.query()) == count
    assert {one.extents["rows"]: one.trace for one in again.points} == before


def test_the_choice_is_readable_python(found: sl.ShapeSet) -> None:
    names: dict[str, Any] = {}
    exec(found.as_python(), names)
    [one] = found.ranges
    for rows in range(1, 61):
        assert names["dense_range_0"](rows) == one.tree.find({"rows": rows, "width": 48})


def test_a_file_keeps_it(found: sl.ShapeSet, tmp_path: Path) -> None:
    path = found.save(tmp_path / "dense.json")
    read = sl.ShapeSet.load(path, dense, TARGET)
    assert str(read).splitlines()[1:] == str(found).splitlines()[1:]
    for rows, width in ((1, 48), (33, 48), (60, 48), (7, 31)):
        check(read, rows, width)


def test_a_file_that_was_changed_is_refused(found: sl.ShapeSet, tmp_path: Path) -> None:
    path = found.save(tmp_path / "dense.json")
    text = path.read_text()
    path.write_text(text.replace('"rows",\n', '"cols",\n', 1))
    with pytest.raises(sl.TraceFormatError, match="was changed after it was written"):
        sl.ShapeSet.load(path, dense, TARGET)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(sl.TraceFormatError, match="damaged"):
        sl.ShapeSet.load(path, dense, TARGET)
    path.write_text("{}")
    with pytest.raises(sl.TraceFormatError, match="no set of shapes"):
        sl.ShapeSet.load(path, dense, TARGET)
    path.write_text(text)
    with pytest.raises(sl.WorkloadError, match="another program than the one that was tuned"):
        sl.ShapeSet.load(path, lambda rows, width: sl.workloads.matmul(rows, width, 40), TARGET)
    with pytest.raises(sl.TargetError, match="it was tuned on"):
        sl.ShapeSet.load(path, dense, sl.Target("cpu", cores=1))


# -- what goes wrong ----------------------------------------------------------------------------


def test_a_template_that_fails_for_some_extents() -> None:
    def picky(rows: int) -> Any:
        if rows == 6:
            raise RuntimeError("six is not allowed")
        return sl.workloads.matmul(rows, 16, 16)

    found = sl.tune_shapes(
        picky, [{"rows": 4}, {"rows": 6}], TARGET, trials=2, finals=0, progress=False
    )
    assert [one.extents["rows"] for one in found.points] == [4]
    assert "six is not allowed" in found.failed["rows=6"]
    assert "failed: rows=6" in str(found)
    with pytest.raises(sl.WorkloadError, match="for none of the shapes.*six is not allowed"):
        sl.tune_shapes(picky, {"rows": 6}, TARGET, trials=2, progress=False)


def test_a_program_that_tvm_refuses_at_one_shape() -> None:
    def picky(rows: int) -> Any:
        a = te.placeholder((rows,), name="A")
        b = te.compute((rows,), lambda i: a[i] * 2.0, name="B")
        return [b] if rows == 6 else [a, b]

    shapes = [{"rows": 4}, {"rows": 6}]
    found = sl.tune_shapes(picky, shapes, TARGET, trials=2, finals=0, progress=False)
    assert [one.extents["rows"] for one in found.points] == [4]
    assert "makes no program" in found.failed["rows=6"]


def test_a_template_must_depend_on_its_extents_alone() -> None:
    counter = itertools.count(8)

    def fickle(rows: int) -> Any:
        return sl.workloads.matmul(rows, next(counter), 16)

    with pytest.raises(sl.WorkloadError, match="returned two programs in two calls"):
        sl.tune_shapes(fickle, {"rows": 6}, TARGET, trials=2, progress=False)


def test_a_range_of_different_programs_is_refused() -> None:
    def even_or_odd(rows: int) -> Any:
        a = te.placeholder((rows, 8), name="A")
        if rows % 2:
            return [a, te.compute((rows, 8), lambda i, j: a[i, j] * 2.0, name="B")]
        return [a, te.compute((rows, 8), lambda i, j: a[i, j] + a[i, 7 - j] * 2.0, name="B")]

    with pytest.raises(sl.WorkloadError, match="list single shapes"):
        sl.tune_shapes(even_or_odd, {"rows": (1, 40)}, TARGET, trials=2, progress=False)


def test_a_rule_that_some_extents_break_is_found() -> None:
    def stepped(rows: int) -> Any:
        return sl.workloads.matmul(rows, 16, 24 if rows == 37 else 16)

    with pytest.raises(sl.WorkloadError, match="the program for rows=37 is not the one"):
        sl.tune_shapes(stepped, {"rows": (1, 90)}, TARGET, trials=2, progress=False)


def test_a_range_whose_tensors_are_too_large_is_refused() -> None:
    with pytest.raises(sl.WorkloadError, match="a tensor of 68,719,476,704 elements"):
        tuned(None, {"rows": (1, 2**31 - 1), "width": 16})


def test_shapes_that_tensors_do_not_tell_apart_need_names() -> None:
    def shifted(size: int, by: int) -> Any:
        a = te.placeholder((size,), name="A")
        return [a, te.compute((size,), lambda i: a[(i + by) % size], name="B")]

    shapes = [{"size": 8, "by": 1}, {"size": 8, "by": 3}]
    found = sl.tune_shapes(shifted, shapes, TARGET, trials=2, finals=0, progress=False)
    a, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    with pytest.raises(sl.WorkloadError, match="fit several extents"):
        found(a, out)
    found(a, out, size=8, by=3)
    np.testing.assert_array_equal(out, np.roll(a, -3))


def test_shapes_with_one_program_are_tuned_once() -> None:
    def padded(rows: int, unused: int) -> Any:
        return sl.workloads.matmul(rows, 16, 16)

    shapes = [{"rows": 4, "unused": 1}, {"rows": 4, "unused": 2}]
    found = sl.tune_shapes(padded, shapes, TARGET, trials=4, finals=0, progress=False)
    one, other = found.points
    assert (one.trace, one.latency) == (other.trace, other.latency)
    assert found.measured == one.trials


@pytest.mark.slow
def test_an_extent_that_the_shape_exceeds() -> None:
    def pooled(n: int) -> Any:
        a = te.placeholder((n + 3, 4), name="A")
        k = te.reduce_axis((0, 4), name="k")
        shape = (n // 2, 4)
        return [a, te.compute(shape, lambda i, j: te.sum(a[i * 2 + k, j], axis=k), name="B")]

    found = sl.tune_shapes(
        pooled, {"n": (2, 40)}, TARGET, trials=4, finals=0, exact=6, progress=False
    )
    for n in (2, 3, 5, 6, 7, 8, 9, 23, 40):
        a = np.random.default_rng(n).standard_normal((n + 3, 4), dtype="float32")
        out = np.full((n // 2 + 4, 4), np.nan, "float32")
        found(a, out[: n // 2])
        expected = np.stack([a[2 * i : 2 * i + 4].sum(axis=0) for i in range(n // 2)])
        np.testing.assert_allclose(out[: n // 2], expected, rtol=1e-4, atol=1e-5)
        assert np.isnan(out[n // 2 :]).all()


def test_all_shapes_of_a_small_range_are_served() -> None:
    found = tuned(None, {"rows": (1, 8), "width": 16}, trials=1)
    assert sorted(one.extents["rows"] for one in found.points) == [*range(1, 9)]


def test_names_must_fit_the_tensors(found: sl.ShapeSet) -> None:
    tensors = [np.zeros(shape, "float32") for shape in ((9, 32), (32, 48), (9, 48))]
    with pytest.raises(sl.WorkloadError, match="are not those of rows=8, width=48"):
        found(*tensors, rows=8, width=48)


def test_a_shape_with_another_program_is_found_when_it_is_asked_for(found: sl.ShapeSet) -> None:
    def changed(rows: int, width: int) -> Any:
        return sl.workloads.matmul(rows, width, 40 if rows == 53 else 32)

    other = dataclasses.replace(found, template=Template(changed))
    check(other, 52, 48)
    with pytest.raises(sl.WorkloadError, match=r"dense|changed.*is not the program"):
        check(other, 53, 48)


@pytest.mark.parametrize(
    ("name", "value"),
    [("trials", 0), ("kernels", 0), ("exact", -1), ("share", 0), ("share", 1.5), ("loss", -1)],
)
def test_wrong_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}={value}"):
        tuned(None, {"rows": 4, "width": 16}, **{name: value})


def test_shapes_that_are_not_reached_have_default_schedules() -> None:
    found = tuned(None, [{"rows": n, "width": 16} for n in (4, 5, 6)], seconds=1e-3)
    assert [one.origin for one in found.points] == ["default schedule"] * 3
    check(found, 5, 16)
    assert "not measured" in str(found)


def test_a_template_is_a_function() -> None:
    with pytest.raises(TypeError, match="a template is a function"):
        sl.tune_shapes(7, {"rows": 4}, TARGET)  # type: ignore[arg-type]


def test_jit_takes_a_set_where_other_settings_have_their_defaults() -> None:
    def product(rows: int, width: int = 16) -> Any:
        return sl.workloads.matmul(rows, width, 16)

    found = sl.tune_shapes(product, {"rows": 6}, TARGET, trials=2, finals=0, progress=False)
    assert found.find({"rows": 6, "width": 16}) is found.kernel(rows=6)
    assert found.find({"rows": 6}) is found.kernel(rows=6)
    for other in ({"rows": 6, "width": 17}, {"rows": 6, "width": 16.0}, {"rows": 7}, {}):
        assert found.find(other) is None
    call = sl.jit(product, shapes=found, cache=False)
    assert "shapes" in call.explain(rows=6) and "default" in call.explain(rows=6, width=17)


def test_a_search_that_was_made_for_one_workload_is_refused() -> None:
    made = sl.search.Random(sl.default_space(), sl.workloads.as_workload(dense(4, 16)))
    shapes = [{"rows": 4, "width": 16}, {"rows": 5, "width": 16}]
    with pytest.raises(ValueError, match="this 'random' was made for one workload"):
        tuned(None, shapes, search=made)
