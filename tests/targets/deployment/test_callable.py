"""What a compiled program takes, what it refuses, and that it copies nothing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm

from schedlang.targets import CompiledProgram, build_callable
from schedlang.tvm.codegen import runtime
from tests.targets.deployment import modules
from tests.targets.deployment.conftest import A, B


class Subclass(np.ndarray):
    """As ``numpy.memmap`` is one."""


class OnlyDLPack:
    """A tensor of a library that we do not know."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def torch_tensor(array: np.ndarray[Any, Any]) -> Any:
    return pytest.importorskip("torch").from_numpy(array)


CONVERSIONS = {
    "numpy": lambda array: array,
    "subclass": lambda array: array.view(Subclass),
    "torch": torch_tensor,
    "TVM": tvm.runtime.from_dlpack,
    "DLPack": OnlyDLPack,
}


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values where ``tvm.runtime.from_dlpack`` takes them."""
    placed = np.from_dlpack(tvm.runtime.empty(array.shape, str(array.dtype)))
    placed[...] = array
    return placed


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a tensor was copied")

    for name in ("copy_tensor", "empty_tensor"):
        monkeypatch.setattr(runtime, name, refuse)


@pytest.mark.parametrize("kind", CONVERSIONS)
def test_tensors_of_all_libraries_are_used_in_place(
    kernel: CompiledProgram, no_copies: None, kind: str
) -> None:
    out = aligned(np.zeros_like(A))
    kernel(*(CONVERSIONS[kind](array) for array in (aligned(A), aligned(B), out)))
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_tensors_of_different_libraries_mix(kernel: CompiledProgram) -> None:
    out = np.zeros_like(A)
    kernel(OnlyDLPack(A), torch_tensor(B.copy()), out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_inputs_may_be_read_only_and_outputs_may_not(
    kernel: CompiledProgram, no_copies: None
) -> None:
    constant, out = A.copy(), np.zeros_like(A)
    constant.flags.writeable = False
    kernel(constant, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="argument 2 is read-only, and the program writes C"):
        kernel(A, B, constant)
    np.testing.assert_array_equal(constant, A)


def test_parameters_of_torch_are_inputs(kernel: CompiledProgram) -> None:
    weight = pytest.importorskip("torch").nn.Parameter(torch_tensor(A.copy()))
    out = np.zeros_like(A)
    kernel(weight, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def negatives(array: np.ndarray[Any, Any]) -> Any:
    """The negatives of what is stored, which torch has for ``conj().imag``, and DLPack has not."""
    return pytest.importorskip("torch")._neg_view(torch_tensor(array.copy()))


def test_tensors_of_torch_that_are_negatives_of_their_memory(kernel: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    for given in (negatives(A), torch.nn.Parameter(negatives(A)), OnlyDLPack(-A)):
        out = torch.zeros(64, 64)
        kernel(given, torch_tensor(B), out)
        np.testing.assert_allclose(out, -A @ B, rtol=1e-4, atol=1e-4)
    written = negatives(A)
    with pytest.raises(ValueError, match=r"argument 2 has torch's negative bit, .* writes C; pass"):
        kernel(A, B, written)
    np.testing.assert_array_equal(written.resolve_neg(), -A)


def test_complex_tensors_are_refused(kernel: CompiledProgram) -> None:
    given = torch_tensor(A).to(pytest.importorskip("torch").complex64).conj()
    with pytest.raises(TypeError, match="argument 0 is of a type that TVM does not know; the prog"):
        kernel(given, B, np.zeros_like(A))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float16", np.float16),
        ("float64", np.float64),
        ("bool", np.bool_),
        ("uint8", np.uint8),
        ("int64", np.int64),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
    ],
)
def test_element_types(no_copies: None, dtype: str, values: Any) -> None:
    given = (np.arange(64) % 7).astype(values)
    out = np.zeros_like(given)
    call = build_callable(modules.copy(dtype))
    call(given, out)
    np.testing.assert_array_equal(out, given)
    given = given[::-1].copy()
    given.flags.writeable = False
    call(given, out)
    np.testing.assert_array_equal(out, given)


def test_tensors_without_axes() -> None:
    out = np.zeros((), np.float32)
    build_callable(modules.copy("float32", scalar=True))(np.array(3, np.float32), out)
    assert out == 3


@pytest.mark.parametrize("kind", ["numpy", "torch", "TVM", "DLPack"])
def test_an_input_that_is_also_the_output_is_copied(kind: str) -> None:
    """The program reverses: in one place it would overwrite what it has not read."""
    call, both = build_callable(modules.shuffle()), aligned(np.arange(64, dtype=np.float32))
    one = CONVERSIONS[kind](both)
    call(one, one)
    np.testing.assert_array_equal(both, np.arange(64)[::-1])


def test_an_input_that_overlaps_the_output_is_copied(no_copies: None) -> None:
    call = build_callable(modules.shuffle())
    memory = np.arange(128, dtype=np.float32)
    call(memory[:64], memory[64:])  # neighbours do not overlap
    np.testing.assert_array_equal(memory[64:], np.arange(64)[::-1])
    with pytest.raises(AssertionError, match="a tensor was copied"):
        call(memory[:64], memory[63:127])


def test_outputs_that_overlap_are_refused() -> None:
    call = build_callable(modules.several()).functions["add_to"]
    assert [one.role for one in call.signature.parameters] == ["input", "inout"]
    two = build_callable(modules.two_outputs())
    out = np.zeros(12, np.float32)
    with pytest.raises(ValueError, match="arguments 1 and 2 share memory, and the program writes"):
        two(np.ones(8, np.float32), out[:8], out[4:])


WRONG = {
    "count": ((A, B), TypeError, r"takes 3 tensors, got 2: main\(A: float32\[64, 64\], B"),
    "list": ((A, [1.0], B), TypeError, "argument 1 is a list; give a numpy array"),
    "none": ((None, A, B), TypeError, "argument 0 is a NoneType"),
    "number": ((A, B, 1.0), TypeError, "argument 2 is a float"),
    "text": ((A, B, "out"), TypeError, "argument 2 is a str"),
    "strided": ((A.T, B, A), ValueError, "argument 0 is not C-contiguous; copy it first"),
    "slice": ((A, np.ones((64, 65), "f4")[:, 1:], A), ValueError, "argument 1 is not C-contig"),
    "shape": ((A[:32], B, A), ValueError, r"argument 0 has the shape \(32, 64\); .* A: float32"),
    "axes": ((A, B, A[None]), ValueError, r"argument 2 has the shape \(1, 64, 64\)"),
    "type": ((A.astype("f8"), B, A), TypeError, "argument 0 is float64; the program takes A: fl"),
    "order": ((A.astype(">f4"), B, A), TypeError, "argument 0 is >f4; the program takes A: fl"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(kernel: CompiledProgram, name: str) -> None:
    arguments, error, message = WRONG[name]
    out = np.zeros_like(A)
    arguments = tuple(
        out if argument is A and at == 2 else argument for at, argument in enumerate(arguments)
    )
    with pytest.raises(error, match=message):
        kernel(*arguments)
    assert not out.any()


@pytest.mark.parametrize("kind", ["torch", "TVM", "DLPack"])
def test_wrong_tensors_are_refused(kernel: CompiledProgram, kind: str) -> None:
    wrong = CONVERSIONS[kind](aligned(np.zeros((64, 63), np.float32)))
    with pytest.raises(ValueError, match=r"argument 1 has the shape \(64, 63\)"):
        kernel(A, wrong, np.zeros_like(A))


def test_tensors_without_memory_are_refused(kernel: CompiledProgram) -> None:
    torch = pytest.importorskip("torch")
    for wrong in (torch.empty(64, 64, device="meta"), torch.eye(64).to_sparse()):
        with pytest.raises(TypeError, match="argument 0, a Tensor, does not give its memory: "):
            kernel(wrong, B, np.zeros_like(A))
    with pytest.raises(ValueError, match="argument 0 is not C-contiguous"):
        kernel(torch_tensor(A).T, B, np.zeros_like(A))


def test_a_tensor_at_an_offset_of_its_own_is_refused(kernel: CompiledProgram) -> None:
    """Generated code does not read DLPack's ``byte_offset``; it refuses what has one."""
    memory = tvm.runtime.empty((65, 64), "float32")
    inside = memory._create_view((64, 64), "float32", 256)
    with pytest.raises(ValueError, match="byte_offset"):
        kernel(inside, B, np.zeros_like(A))


def test_several_functions_are_called_by_name() -> None:
    program = build_callable(modules.several())
    ones, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    program.twice(ones, out)
    program["add_to"](ones, out)
    np.testing.assert_array_equal(out, 3)
    assert {"twice", "add_to"} <= set(dir(program)) and "add_to(A: float32[8]," in repr(program)
    with pytest.raises(TypeError, match="has no function main; .* add_to, twice"):
        program(ones, out)
    with pytest.raises(AttributeError, match="no function 'thrice'; there are: add_to, twice"):
        program.thrice  # noqa: B018
    with pytest.raises(KeyError, match="no function 'thrice'; there are: add_to, twice"):
        program["thrice"]


def test_sizes_that_are_not_fixed_and_numbers() -> None:
    program = build_callable(modules.any_length())
    assert str(program.main.signature) == "main(A: float32[?, 4], B: float32[?, 4], shift: float32)"
    rows, out = np.ones((5, 4), np.float32), np.zeros((5, 4), np.float32)
    program(rows, out, 2.5)
    np.testing.assert_array_equal(out, 3.5)
    program(rows, rows, 1.0)
    np.testing.assert_array_equal(rows, 2)
    with pytest.raises(ValueError, match=r"B.shape\[0\]"):
        program(rows, out[:3], 1.0)
