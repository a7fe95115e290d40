"""Libraries for C: what they need, what they refuse, and what ``load`` makes of them."""

from __future__ import annotations

import ctypes
import re
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (numpy knows its types then)
import numpy as np
import pytest
from tvm import te
from tvm.ir import IRModule
from tvm.script import from_source

import schedlang as sl
from schedlang import host
from schedlang.targets import BuildError, CError, CPUTarget, LibraryError, Target, export_c
from schedlang.targets.cpu import features
from schedlang.targets.deployment.signature import identifiers
from tests.targets.deployment import modules
from tests.targets.deployment.conftest import A, B
from tests.targets.odd_names import GROUPS
from tests.targets.programs import from_body

# What the compiler puts into every shared library, and the loader may leave undefined.
WEAK = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}


def undefined(path: Path) -> set[str]:
    """The symbols that a library wants of others, as ``nm`` lists them."""
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", path], check=True, capture_output=True, text=True
    )
    return {line.split()[-1] for line in done.stdout.splitlines()}


def needed(path: Path) -> set[str]:
    """The libraries that a library is linked with."""
    done = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if "(NEEDED)" in line]
    return {line.partition("[")[2].rstrip("]") for line in lines}


def test_it_needs_the_c_library_and_nothing_else(gemm: Path) -> None:
    wanted = undefined(gemm)
    assert wanted and all("@GLIBC_" in one for one in wanted - WEAK)
    names = {name.partition(".so")[0] for name in needed(gemm)}
    assert names <= {"libc", "libm", "libpthread", "ld-linux-x86-64"}


def test_it_shows_its_entries_and_the_run_time(gemm: Path) -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", gemm], check=True, capture_output=True, text=True
    )
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert {"gemm", "gemm_tensors", "schedlang_error"} <= names
    assert all(name.startswith(("gemm", "schedlang_")) for name in names)


def test_python_without_tvm_calls_it(gemm: Path, run_script: Any) -> None:
    code = """if True:
        import ctypes, sys
        import numpy as np
        gemm = ctypes.CDLL(sys.argv[1]).gemm
        a, b = (np.random.rand(64, 64).astype(np.float32) for _ in "ab")
        c = np.zeros_like(a)
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in (a, b, c)]
        print(gemm(*pointers), np.allclose(c, a @ b, atol=1e-4), "tvm" in sys.modules)
    """
    assert run_script(code, gemm).split() == ["0", "True", "False"]


def test_cffi_reads_the_header(gemm: Path) -> None:
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    done = subprocess.run(
        ["cc", "-E", "-P", gemm.with_suffix(".h")], check=True, capture_output=True, text=True
    )
    declarations = done.stdout[done.stdout.index("enum schedlang_status") :]
    ffi.cdef(declarations)
    library = ffi.dlopen(str(gemm))
    out = np.zeros_like(A)
    pointers = [ffi.cast("float *", one.ctypes.data) for one in (A, B, out)]
    assert library.gemm(*pointers) == library.SCHEDLANG_OK
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_load_takes_it(gemm: Path) -> None:
    program = sl.load(gemm)
    out = np.zeros_like(A)
    program(A, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)
    with pytest.raises(TypeError, match="argument 0 is float64"):
        program(A.astype(np.float64), B, out)
    with pytest.raises(ValueError, match=r"argument 1 has the shape \(32, 64\)"):
        program(A, B[:32], out)
    for threads in (1, 3, 2):
        out[:] = 0
        sl.load(gemm, threads=threads)(A, B, out)
        np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_unaligned_arrays_are_taken(gemm: Path) -> None:
    memory = np.zeros(64 * 64 + 1, np.float32)
    out = memory[1:].reshape(64, 64)
    sl.load(gemm)(A, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_load_of_several_functions(several: Path) -> None:
    program = sl.load(several)
    ones, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    program.twice(ones, out)
    program["add_to"](ones, out)
    np.testing.assert_array_equal(out, 3)


def test_a_new_library_takes_the_place_of_one_in_use(tmp_path: Path) -> None:
    path = tmp_path / "kernel.so"
    values, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    first = sl.load(export_c(modules.shuffle(), "cpu", path))
    second = sl.load(export_c(modules.copy("float32"), "cpu", path))
    second(values, out)
    np.testing.assert_array_equal(out, values)
    first(values, out)
    np.testing.assert_array_equal(out, values[::-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool", "float8_e4m3fn"]
)
def test_element_types(dtype: str, tmp_path: Path) -> None:
    program = sl.load(export_c(modules.copy(dtype), "cpu", tmp_path / "copy.so"))
    values = (np.arange(64) % 3).astype(dtype)
    out = np.zeros(64, dtype)
    program(values, out)
    assert out.tobytes() == values.tobytes()
    header = (tmp_path / "copy.h").read_text()
    assert f"A: {dtype}[64]" in header


def test_numbers_besides_tensors(tmp_path: Path) -> None:
    mod = IRModule({"main": from_source(NUMBERS)})
    program = sl.load(export_c(mod, "cpu", tmp_path / "numbers.so"))
    out = np.zeros(8, np.float32)
    program(np.ones(8, np.float32), 2.5, -3, out)
    np.testing.assert_array_equal(out, -0.5)
    header = (tmp_path / "numbers.h").read_text()
    assert "int numbers(const float *A, float scale, int32_t shift, float *B);" in header
    assert "numbers_tensors" not in header


NUMBERS = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32"), scale: T.float32, shift: T.int32,
         B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * scale + T.Cast("float32", shift)
"""


def test_large_scratch_memory(tmp_path: Path) -> None:
    """Intermediate results that no register holds are allocated, in the threads too."""
    x = te.placeholder((256, 512), name="x")
    y = te.compute((256, 512), lambda i, j: te.exp(x[i, j]), name="y")
    z = te.compute((256, 512), lambda i, j: y[i, 511 - j] + y[255 - i, j], name="z")
    workload = sl.workloads.from_te([x, z], name="scratch")
    program = sl.load(export_c(workload.mod, "cpu", tmp_path / "scratch.so"))
    values = np.random.default_rng(0).uniform(-1, 1, (256, 512)).astype(np.float32)
    expected = np.exp(values)
    for _ in range(3):
        out = np.zeros_like(values)
        program(values, out)
        np.testing.assert_allclose(out, expected[:, ::-1] + expected[::-1], rtol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "C2D", "TBG", "NRM"])
def test_operators_give_what_the_reference_gives(name: str, tmp_path: Path) -> None:
    workload = sl.workloads.get(name, **SMALL[name])
    schedule = sl.default_space("cpu").sample(workload, seed=1)
    program = sl.load(export_c(schedule.mod, "cpu", tmp_path / f"{name.lower()}.so"))
    rng = np.random.default_rng(0)
    parameters = program.main.signature.parameters
    arrays = [rng.uniform(-1, 1, one.shape).astype(one.dtype) for one in parameters]
    program(*arrays)
    built = [one.copy() for one in arrays]
    Target("cpu").build(workload.mod)(*built)
    for mine, right in zip(arrays, built, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4)


SMALL: dict[str, dict[str, int]] = {
    "softmax": {},
    "C2D": {"height": 8, "width": 8, "in_channels": 4, "out_channels": 8, "kernel_size": 3},
    "TBG": {},
    "NRM": {},
}


@pytest.mark.parametrize("group", ["odd", "keywords", "cuda"])
def test_tensors_may_have_any_name(group: str, tmp_path: Path) -> None:
    names = [name for name in GROUPS[group] if name.isprintable()]
    inputs = [te.placeholder((4,), "float32", name=name) for name in names]
    last = te.compute((4,), lambda i: inputs[0][i] + inputs[-1][i], name="D")
    workload = sl.workloads.from_te([*inputs, last])
    program = sl.load(export_c(workload.mod, "cpu", tmp_path / "names.so"))
    out = np.zeros(4, np.float32)
    program(*[np.ones(4, np.float32) for _ in names], out)
    np.testing.assert_array_equal(out, 2)
    for compiler in (["cc", "-std=c99", "-pedantic"], ["c++", "-x", "c++"]):
        subprocess.run(
            [*compiler, "-Wall", "-Werror", "-fsyntax-only", tmp_path / "names.h"], check=True
        )


def test_names_stay_where_c_allows_them(tmp_path: Path) -> None:
    """A parameter may hide a function or a type; types that others need, it may not."""
    names = ("cos", "cos_t", "size_t", "int64_t", "M_PI")
    inputs = [te.placeholder((4,), "float32", name=name) for name in names]
    last = te.compute((4,), lambda i: inputs[0][i] + inputs[-1][i], name="out")
    export_c(sl.workloads.from_te([*inputs, last]).mod, "cpu", tmp_path / "names.so")
    expected = "*cos, const float *cos_t, const float *size_t, const float *xint64_t_x"
    assert f"(const float {expected}, const float *xM_PI_x, float *" in (
        tmp_path / "names.h"
    ).read_text(encoding="utf-8")


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("kernel.dll", "must end with one of .so, .a, .o"),
        ("missing/kernel.so", "there is no folder"),
        ("int.so", "'int' cannot be the name of a function in C"),
        ("my-kernel.so", "'my-kernel' cannot be the name"),
        ("schedlang_x.so", "begins like the functions that all libraries have"),
        ("exp.so", "'exp' is a function of the C library"),
        ("read.so", "'read' is a function of the C library"),
    ],
)
def test_paths_that_cannot_be(file: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=message):
        export_c(modules.shuffle(), "cpu", tmp_path / file)
    assert not list(tmp_path.iterdir())


def test_a_name_may_differ_from_that_of_the_file(tmp_path: Path) -> None:
    path = export_c(modules.shuffle(), "cpu", tmp_path / "my-kernel.so", name="turn")
    assert "int turn(const float *A, float *B);" in (tmp_path / "my-kernel.h").read_text()
    assert sl.load(path).main


def test_programs_that_c_cannot_call(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"the extents of A: float32\[\?, 4\] in main are not"):
        export_c(modules.any_length(), "cpu", tmp_path / "any.so")
    with pytest.raises(LibraryError, match=r"C has no type for the elements of A: int4\[64\]"):
        export_c(modules.copy("int4"), "cpu", tmp_path / "four.so")
    apart = from_body(
        "C[0, 0] = A[0, 1]",
        "A: T.Buffer((64, 64), strides=(128, 1)), C: T.Buffer((64, 64))",
    )
    with pytest.raises(LibraryError, match="A has strides or an offset, which C has not"):
        export_c(apart, "cpu", tmp_path / "apart.so")
    call = 'T.evaluate(T.call_packed("tests.no_such_function", A[0, 0]))'
    with pytest.raises(BuildError, match=r"needs TVM's run time \(.*TVMFFI"):
        export_c(from_body(call), "cpu", tmp_path / "packed.so")
    with pytest.raises(LibraryError, match="programs for CPUs, and this is cuda"):
        export_c(modules.shuffle(), Target("cuda", arch="sm_90"), tmp_path / "gpu.so")
    assert not list(tmp_path.iterdir())


def test_names_that_would_meet(tmp_path: Path) -> None:
    program = sl.load(export_c(modules.copy("float32"), "cpu", tmp_path / "features.so"))
    out = np.zeros(64, np.float32)
    program(np.ones(64, np.float32), out)
    np.testing.assert_array_equal(out, 1)
    mod = modules.several()
    twice, add = (mod[name] for name in ("twice", "add_to"))
    functions = {"add": twice, "add_tensors": add}
    named = {name: func.with_attr("global_symbol", name) for name, func in functions.items()}
    with pytest.raises(LibraryError, match="two functions would be called both_add_tensors in C"):
        export_c(IRModule(named), "cpu", tmp_path / "both.so")


def test_identifiers() -> None:
    assert identifiers(["int_1", "int"], ["int"]) == ["int_1", "int_2"]
    assert identifiers(["A_2", "A", "_A", "A"], []) == ["A_2", "A", "A_1", "A_3"]
    assert identifiers(["", "1x", "ü", "a.b"], []) == ["x", "x1x", "x_1", "a_b"]


def test_a_header_of_the_user_s_is_kept(tmp_path: Path) -> None:
    header = tmp_path / "turn.h"
    header.write_text("/* mine */")
    with pytest.raises(LibraryError, match="is a file that schedlang has not written"):
        export_c(modules.shuffle(), "cpu", tmp_path / "turn.so")
    assert header.read_text() == "/* mine */"
    header.unlink()
    header.mkdir()
    with pytest.raises(LibraryError, match="this is a folder"):
        export_c(modules.shuffle(), "cpu", tmp_path / "turn.so")


def test_the_library_knows_all_features_that_targets_record() -> None:
    """What it does not know counts as present."""
    text = files("schedlang.targets.deployment").joinpath("runtime.c").read_text()
    known = set(re.findall(r'\{"([\w.-]+) ", ', text))
    assert known == features.KNOWN


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert export_c(modules.shuffle(), "cpu", "turn.so") == Path("turn.so")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["turn.h", "turn.so"]
    done = subprocess.run(["readelf", "-d", "turn.so"], check=True, capture_output=True, text=True)
    assert "soname: [turn.so]" in done.stdout


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match="there is no C compiler no-such-cc"):
        export_c(modules.shuffle(), "cpu", tmp_path / "a.so", compiler="no-such-cc")
    with pytest.raises(BuildError, match="false failed: exit status 1"):
        export_c(modules.shuffle(), "cpu", tmp_path / "a.so", compiler="false")
    assert export_c(modules.shuffle(), "cpu", tmp_path / "a.o", compiler="cc -m64").exists()
    for one in tmp_path.iterdir():
        one.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="install gcc or clang"):
        export_c(modules.shuffle(), "cpu", tmp_path / "a.so")
    assert not list(tmp_path.iterdir())


def test_another_machine_is_refused_before_its_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU is asked by the library itself, where no schedlang looks at it before."""
    missing = set(features._KERNEL_NAMES[host.architecture()]) - features.host_features()
    if not missing:
        pytest.skip("this machine has all features that libraries ask for")
    lacking = min(missing)
    deployment = CPUTarget.deployment
    monkeypatch.setattr(
        CPUTarget,
        "deployment",
        lambda self: deployment(self) | {"features": [lacking]},
    )
    path = export_c(modules.shuffle(), "cpu", tmp_path / "other.so")
    library = ctypes.CDLL(str(path))
    library.schedlang_error.restype = ctypes.c_char_p
    values = np.zeros(128, np.float32)
    status = library.other(
        ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(values[64:].ctypes.data)
    )
    assert status == 8
    assert f"this machine lacks {lacking}".encode() in library.schedlang_error()


def test_a_failure_has_its_status(gemm: Path) -> None:
    program = sl.load(gemm)
    with pytest.raises(CError, match="arguments 2 and 0 share memory") as caught:
        program.main.entry(*[one for one in map(sl_tensor, (A, B, A))])
    assert caught.value.status == 7


def sl_tensor(array: np.ndarray) -> Any:
    from schedlang.tvm.codegen.runtime import borrow_array

    return borrow_array(array)
