"""How a compiled network is called: kinds of tensors, memory, structures and errors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

import schedlang as sl
from schedlang.targets.deployment import tensor_arguments as tensors
from schedlang.tvm.codegen import runtime
from tests.networks.compiled.relax_networks import OP, layers, module, parallel, store, tensor


@pytest.fixture(scope="module")
def network() -> sl.Network:
    return sl.import_network(layers())


@pytest.fixture(scope="module")
def exe(network: sl.Network) -> sl.CompiledNetwork:
    return sl.compile_network(network)


def compiled(
    inputs: Sequence[tuple[str, tuple[int, ...], str]], compute: object
) -> sl.CompiledNetwork:
    return sl.compile_network(sl.import_network(module(inputs, compute)))  # type: ignore[arg-type]


def test_arrays(exe: sl.CompiledNetwork, network: sl.Network) -> None:
    x = tensor(8, 16)
    output = exe(x)
    assert isinstance(output, np.ndarray)
    np.testing.assert_allclose(output, network.run(x), rtol=1e-5)
    np.testing.assert_array_equal(exe(x=x), output)


@pytest.mark.parametrize("offset", [4, 20, 60])
def test_arrays_that_are_not_aligned(exe: sl.CompiledNetwork, offset: int) -> None:
    x = tensor(8, 16)
    memory = np.zeros(x.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    moved = memory[start : start + x.nbytes].view(np.float32).reshape(x.shape)
    moved[...] = x
    assert moved.ctypes.data % 64 == offset
    np.testing.assert_array_equal(exe(moved), exe(x))


def test_arrays_that_are_not_contiguous_read_only_or_of_other_order(
    exe: sl.CompiledNetwork,
) -> None:
    x = tensor(8, 16)
    expected = exe(x)
    np.testing.assert_array_equal(exe(np.asfortranarray(x)), expected)
    wide = np.zeros((16, 32), np.float32)
    wide[::2, ::2] = x
    np.testing.assert_array_equal(exe(wide[::2, ::2]), expected)
    np.testing.assert_array_equal(exe(x.astype(">f4")), expected)
    x.flags.writeable = False
    np.testing.assert_array_equal(exe(x), expected)


def test_contiguous_inputs_and_outputs_are_not_copied(exe: sl.CompiledNetwork) -> None:
    x = tensor(8, 16)
    [borrowed] = exe._borrowed([x])
    assert borrowed.data_ptr() == x.ctypes.data
    [result] = exe._run([borrowed])
    [output] = tensors.returned([result], [x])
    assert output.ctypes.data == result.data_ptr()
    assert output.flags.writeable


def test_outputs_are_not_overwritten(exe: sl.CompiledNetwork) -> None:
    first = exe(tensor(8, 16, seed=5))
    kept = first.copy()
    others = [exe(tensor(8, 16, seed=seed)) for seed in range(6, 12)]
    np.testing.assert_array_equal(first, kept)
    assert len({output.ctypes.data for output in [first, *others]}) == 7
    del exe
    gc.collect()
    np.testing.assert_array_equal(first, kept)


def test_tensors_of_tvm_and_of_others(exe: sl.CompiledNetwork) -> None:
    x = tensor(8, 16)
    output = exe(tvm.runtime.tensor(x))
    assert isinstance(output, runtime.DeviceArray)
    np.testing.assert_array_equal(output.numpy(), exe(x))

    class Other:
        """An array of another library, as the array API standard has it."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)  # type: ignore[arg-type]

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __array_namespace__(self) -> type:
            return Namespace

    class Namespace:
        @staticmethod
        def from_dlpack(value: object) -> Other:
            return Other(np.from_dlpack(value))  # type: ignore[arg-type]

    other = exe(Other(x))
    assert isinstance(other, Other)
    np.testing.assert_array_equal(other.array, exe(x))


def test_what_does_not_fit_is_named(exe: sl.CompiledNetwork) -> None:
    with pytest.raises(sl.NetworkError, match=r"input 'x': expected shape \(8, 16\) of float32, g"):
        exe(tensor(4, 16))
    with pytest.raises(sl.NetworkError, match=r"input 'x': expected .* of float64"):
        exe(tensor(8, 16, dtype="float64"))
    with pytest.raises(sl.NetworkError, match="input 'x': expected a tensor .* not a str"):
        exe("text")
    with pytest.raises(sl.NetworkError, match="takes x; got 2 by position"):
        exe(tensor(8, 16), 1)


def test_outputs_that_are_inputs_weights_views_or_the_same() -> None:
    weight = tensor(4, seed=1)

    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        doubled = OP.add(x, x)
        turned = OP.reshape(x, (3, 2))
        return [x, relax.const(weight), doubled, doubled, turned, relax.const(2.5), x]

    exe = compiled([("x", (2, 3), "float32")], compute)
    x = tensor(2, 3)
    expected = [x, weight, 2 * x, 2 * x, x.reshape(3, 2), np.float32(2.5), x]
    for _ in range(2):
        outputs = exe(x)
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(output, wanted)
        for output in outputs:  # each is memory of its own, so the others keep their values
            output[...] = 7
        assert not np.any(x == 7)
    assert exe.verify().passed
    assert exe.summary[0].name == "add", "views and copies are no tasks"


def test_a_network_without_calls_and_one_without_inputs() -> None:
    passed = compiled([("x", (2, 3), "float32")], lambda x: [x])
    x = tensor(2, 3)
    output = passed(x)
    np.testing.assert_array_equal(output, x)
    assert not np.shares_memory(output, x)
    assert len(passed.summary) == 0
    assert "tasks: none" in str(passed)
    constant = compiled([], lambda: [relax.const(x), relax.const(1)])
    np.testing.assert_array_equal(constant()[0], x)


def test_element_types_and_numbers() -> None:
    def compute(
        half: relax.Expr, places: relax.Expr, mask: relax.Expr, scale: relax.Expr
    ) -> Sequence[relax.Expr]:
        taken = OP.take(half, places, axis=0, mode="clip")
        return [
            OP.multiply(taken, OP.astype(scale, "float16")),
            OP.add(places, relax.const(1, "int64")),
            OP.logical_not(mask),
        ]

    exe = compiled(
        [
            ("half", (4, 2), "float16"),
            ("places", (3,), "int64"),
            ("mask", (5,), "bool"),
            ("scale", (), "float32"),
        ],
        compute,
    )
    half, places = tensor(4, 2, dtype="float16"), np.array([3, 0, 2])
    mask = np.array([True, False, True, True, False])
    one, two, three = exe(half, places, mask, 0.5)
    np.testing.assert_array_equal(one, half[places] * np.float16(0.5))
    np.testing.assert_array_equal(two, places + 1)
    np.testing.assert_array_equal(three, ~mask)
    assert [output.dtype.name for output in (one, two, three)] == ["float16", "int64", "bool"]
    assert exe.verify(half, places, mask, 0.5).passed


def test_an_operator_without_a_function_and_one_that_cannot_be_scheduled() -> None:
    exe = compiled([("x", (3, 5), "float32")], lambda x: [OP.sort(OP.add(x, x)), OP.argsort(x)])
    x = tensor(3, 5)
    one, two = exe(x)
    np.testing.assert_array_equal(one, np.sort(2 * x))
    np.testing.assert_array_equal(two, np.argsort(x))
    assert {one.name: one.origin for one in exe.summary} == {
        "add": "default",
        "sort_key": "default",
        "gather": "default",
        "argsort": "unscheduled",
        "argsort1": "unscheduled",
    }


def test_bfloat16() -> None:
    exe = compiled([("x", (4,), "bfloat16")], lambda x: [OP.add(x, x)])
    import ml_dtypes

    x = np.array([1, 2, 3, 0.5], ml_dtypes.bfloat16)
    output = exe(x)
    assert output.dtype == x.dtype
    np.testing.assert_array_equal(output.astype(np.float32), 2 * x.astype(np.float32))
    np.testing.assert_array_equal(exe(runtime.borrow_array(x)).shape, (4,))


def test_threads(network: sl.Network) -> None:
    """Calls from several threads, of a network with parallel loops."""
    with sl.database.Database() as database:
        for task in network.tasks:
            store(database, task, 1e-4, parallel(task))
        exe = sl.compile_network(network, database)
    inputs = [tensor(8, 16, seed=seed) for seed in range(4)]
    expected = [network.run(x) for x in inputs]
    wrong = []

    def work(place: int) -> None:
        for _ in range(30):
            if not np.allclose(exe(inputs[place]), expected[place], rtol=1e-4, atol=1e-4):
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_weights_are_kept_once(network: sl.Network, exe: sl.CompiledNetwork) -> None:
    taken = exe._built.parameters
    assert len(taken) == len(network.parameters)  # a packed weight takes the place of its own
    for name, value in network.parameters.items():
        assert taken.get(name, value) is value
        assert runtime.is_aligned(value)
        with pytest.raises(ValueError, match="read-only"):
            value[...] = 0


def test_verify_finds_a_difference(network: sl.Network) -> None:
    from dataclasses import replace

    wrong = replace(
        network, reference=lambda inputs: [network.run(*inputs) + np.float32(1)], examples=()
    )
    found = sl.compile_network(wrong).verify()
    assert not found.passed
    assert found.largest == pytest.approx(1, rel=1e-3)
    assert sl.compile_network(wrong).verify(tolerance=10).passed
