"""Sets of shapes as libraries: for TVM, and for C."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang.targets.deployment.c_functions import CError
from schedlang.targets.deployment.signature import signatures_of
from schedlang.tvm.codegen import runtime
from tests.shapes.products import TARGET, check

_PROGRAM = """
#include <stdio.h>
#include "dense.h"

static float a[60 * 32], b[32 * 48], out[61 * 48];

int main(void) {
  for (int i = 0; i < 60 * 32; ++i) a[i] = (float)(i % 7);
  for (int i = 0; i < 32 * 48; ++i) b[i] = (float)(i % 5);
  for (int rows = 1; rows <= 60; ++rows) {
    for (int i = 0; i < 61 * 48; ++i) out[i] = -1;
    if (dense_range_0(rows, a, b, out)) return puts(schedlang_error()), 1;
    for (int i = 0; i < rows * 48; ++i) {
      float sum = 0;
      for (int k = 0; k < 32; ++k) sum += a[i / 48 * 32 + k] * b[k * 48 + i % 48];
      if (sum != out[i]) return printf("rows %d, element %d\\n", rows, i), 1;
    }
    for (int i = rows * 48; i < 61 * 48; ++i)
      if (out[i] != -1) return printf("rows %d: written behind the end\\n", rows), 1;
  }
  printf("%d %s\\n", dense_range_0(61, a, b, out), schedlang_error());
  printf("%d ", dense_range_0(0, a, b, out));
  printf("%d ", dense_range_0(2, a, b, a + 63));
  printf("%d\\n", dense_range_0(2, a, b, out));
  return 0;
}
"""


@pytest.fixture(scope="module", params=["export_library", "export_c"])
def library(
    request: pytest.FixtureRequest, found: sl.ShapeSet, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """The set as a library, loaded."""
    path = tmp_path_factory.mktemp("library") / "dense.so"
    return sl.load(getattr(found, request.param)(path))


@pytest.mark.slow
def test_a_library_has_a_function_for_each_shape_and_range(library: Any) -> None:
    assert set(library.functions) == {
        "dense_range_0",
        "dense_rows_5_width_31",
        "dense_rows_7_width_31",
    }
    for rows in (1, 3, 4, 37, 60):
        check(library.functions["dense_range_0"], rows, 48)
    check(library.functions["dense_rows_5_width_31"], 5, 31)


@pytest.mark.parametrize(("rows", "width"), [(1, 48), (3, 48), (60, 48), (5, 31), (7, 31)])
def test_a_library_is_called_for_any_shape(library: Any, rows: int, width: int) -> None:
    check(library, rows, width)


@pytest.mark.parametrize(("rows", "width"), [(61, 48), (6, 31), (5, 47)])
def test_other_shapes_are_refused(library: Any, rows: int, width: int) -> None:
    with pytest.raises(ValueError, match="no size for tensors.* for rows=1 to 60, width=48"):
        check(library, rows, width)


@pytest.mark.parametrize("rows", [61, 75])
def test_the_function_of_a_range_refuses_extents_outside(library: Any, rows: int) -> None:
    with pytest.raises((ValueError, CError), match="it serves rows=1 to 60, width=48"):
        check(library.functions["dense_range_0"], rows, 48)


def test_shapes_that_do_not_fit_each_other_are_refused(library: Any) -> None:
    a, b = np.zeros((9, 32), "float32"), np.zeros((32, 48), "float32")
    with pytest.raises((ValueError, CError)):
        library.functions["dense_range_0"](a, b, np.zeros((8, 48), "float32"))
    with pytest.raises(ValueError, match="no size"):
        library(a, b, np.zeros((8, 48), "float32"))


def test_an_input_in_the_memory_of_an_output(library: Any) -> None:
    memory = np.ones((60, 32), "float32")
    b = np.ones((32, 48), "float32")
    out = memory.reshape(-1)[: 20 * 48].reshape(20, 48)
    library(memory[:20], b, out)
    assert (out == 32).all()


def test_c_calls_it(found: sl.ShapeSet, tmp_path: Path) -> None:
    library = found.export_c(tmp_path / "dense.a")
    source = tmp_path / "program.c"
    source.write_text(_PROGRAM)
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", str(source)]
    command += [str(library), f"-I{tmp_path}", "-pthread", "-lm", "-ldl"]
    command += ["-fsanitize=undefined", "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "4 dense_range_0: it serves rows=1 to 60, width=48, and not rows=61",
        "4 7 0",
    ]


@pytest.mark.slow
def test_shapes_of_several_extents_and_quotients(tmp_path: Path) -> None:
    def pairs(rows: int, width: int) -> Any:
        a = te.placeholder((rows + 1, width), name="A")
        half = (width + 1) // 2
        return [
            a,
            te.compute(
                (rows, half),
                lambda i, j: te.if_then_else(
                    j * 2 + 1 < width, a[i, j * 2] + a[i + 1, j * 2 + 1], a[i, j * 2]
                ),
                name="B",
            ),
        ]

    found = sl.tune_shapes(
        pairs, {"rows": (1, 20), "width": (2, 40)}, TARGET, trials=4, finals=0, progress=False
    )
    libraries = [sl.load(found.export_c(tmp_path / "c.so")), found]
    libraries.append(sl.load(found.export_library(tmp_path / "tvm.so")))
    for rows, width in ((1, 2), (1, 3), (20, 40), (20, 39), (7, 11), (13, 38)):
        a = np.random.default_rng(rows).standard_normal((rows + 1, width)).astype("float32")
        wanted = a[:-1, ::2].copy()
        wanted[:, : width // 2] += a[1:, 1::2]
        for library in libraries:
            out = np.full_like(wanted, np.nan)
            library(a, out)
            np.testing.assert_array_equal(out, wanted)


def test_shapes_that_fit_several_extents_are_refused(tmp_path: Path) -> None:
    def scaled(rows: int, factor: int) -> Any:
        a = te.placeholder((rows, 8), name="A")
        return [a, te.compute((rows, 8), lambda i, j: a[i, j] * float(factor), name="B")]

    shapes = [{"rows": 4, "factor": 2}, {"rows": 4, "factor": 3}, {"rows": 5, "factor": 3}]
    found = sl.tune_shapes(scaled, shapes, TARGET, trials=2, finals=0, progress=False)
    a, out = np.ones((4, 8), "float32"), np.zeros((4, 8), "float32")
    for library in (
        sl.load(found.export_c(tmp_path / "c.so")),
        sl.load(found.export_library(tmp_path / "tvm.so")),
    ):
        with pytest.raises((ValueError, CError), match="fit several: call"):
            library(a, out)
        library["scaled_rows_4_factor_3"](a, out)
        assert (out == 3).all()
    folder = tmp_path / "plain"
    folder.mkdir()
    found.export_c(folder / "scaled.a")
    program = folder / "program.c"
    program.write_text(
        """
        #include <stdio.h>
        #include "scaled.h"
        int main(void) {
          static float a[40], b[40];
          int64_t four[] = {4, 8}, five[] = {5, 8}, six[] = {6, 8};
          int64_t *shapes[] = {four, five, six};
          for (int i = 0; i < 3; ++i) {
            schedlang_tensor one = {a, {1, 0}, 2, {2, 32, 1}, shapes[i], 0, 0}, two = one;
            two.data = b;
            const schedlang_tensor *both[] = {&one, &two};
            int status = scaled_tensors(both, 2);
            printf("%d %s\\n", status, status ? schedlang_error() : "");
          }
          printf("%d\\n", scaled_tensors(0, 2));
          return 0;
        }
        """
    )
    command = ["cc", "-std=c11", str(program), str(folder / "scaled.a"), f"-I{folder}"]
    command += ["-pthread", "-lm", "-ldl", "-o", str(folder / "program")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    done = subprocess.run([folder / "program"], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "4 scaled: tensors of these shapes fit several: call scaled_rows_4_factor_2 or "
        "scaled_rows_4_factor_3 by its name",
        "0 ",
        "4 scaled: none has the shapes of the tensors; there are scaled_rows_4_factor_2, "
        "scaled_rows_4_factor_3, scaled_rows_5_factor_3",
        "1",
    ]


@pytest.mark.slow
def test_the_function_of_a_single_shape_is_taken_before_that_of_its_range() -> None:
    def dense(batch: int) -> Any:
        return sl.workloads.matmul(batch, 16, 16)

    def alike(zeta: int) -> Any:
        return sl.workloads.matmul(zeta, 16, 16)

    for template, name in ((dense, "batch"), (alike, "zeta")):
        shapes = [{name: (1, 40)}, {name: 24}]
        found = sl.tune_shapes(template, shapes, TARGET, trials=2, exact=0, finals=0)
        names = [one.name for one in signatures_of(found.mod)]
        assert names == [f"{template.__name__}_{name}_24", f"{template.__name__}_range_0"]


@pytest.mark.slow
def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    def f(range: int) -> Any:
        return sl.workloads.matmul(range, 8, 8)

    shapes = [{"range": (1, 40)}, {"range": 60}]
    found = sl.tune_shapes(f, shapes, TARGET, trials=2, exact=0, finals=0)
    point = dataclasses.replace(found.points[0], extents={"range": 0})
    clashing = dataclasses.replace(found, points=(point,))
    with pytest.raises(sl.WorkloadError, match="have one name; call no extent range"):
        clashing.export_library(tmp_path / "f.so")


def test_a_null_tensor_is_named_in_c(found: sl.ShapeSet, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(found.export_c(tmp_path / "dense.so")))
    library.schedlang_error.restype = ctypes.c_char_p
    a, b = (runtime.borrow(np.zeros(shape, "float32")) for shape in ((9, 32), (32, 48)))
    tensors = (ctypes.c_void_p * 3)(runtime.dlpack_address(a), runtime.dlpack_address(b), None)
    assert library.dense_range_0_tensors(tensors, 3) == 1
    assert b"argument 2 is null; it takes C" in library.schedlang_error()
    assert library.dense_range_0_tensors(tensors, 2) == 2
    assert library.dense_tensors(tensors, 3) == 4
