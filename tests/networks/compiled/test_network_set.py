"""One executable for several sizes: dispatch, shared memory, threads, and the C library."""

from __future__ import annotations

import ctypes
import itertools
import threading
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.targets.errors import LibraryError
from schedlang.tvm.codegen import runtime
from tests.networks.compiled.relax_networks import TARGET, store
from tests.networks.sizes.models import inputs, network_set

BATCHES = (4, 9, 2)


@pytest.fixture(scope="module")
def networks() -> sl.NetworkSet:
    return network_set(*BATCHES)


@pytest.fixture(scope="module")
def exe(networks: sl.NetworkSet) -> sl.CompiledNetworkSet:
    return sl.compile_network(networks, progress=False)


def test_the_shapes_say_which_network_runs(
    exe: sl.CompiledNetworkSet, networks: sl.NetworkSet
) -> None:
    for batch, network in zip(BATCHES, networks, strict=True):
        x = inputs(batch)
        np.testing.assert_allclose(exe(x), network.run(x), rtol=1e-5, atol=1e-6)
        assert exe.of(x).network is network
        assert exe.of(x=x) is exe.of(x[::1]), "by name, too"
    assert exe.verify().passed and len(exe.verify().outputs) == 3
    strided = np.repeat(inputs(4), 2, axis=0)[::2]
    np.testing.assert_array_equal(exe(strided), exe(inputs(4)))


def test_another_size_is_refused_with_those_there_are(exe: sl.CompiledNetworkSet) -> None:
    with pytest.raises(sl.NetworkError, match=r"no network for x \[5, 24\].*x \[4, 24\]; x \[9"):
        exe(inputs(5))
    with pytest.raises(sl.NetworkError, match="not padded"):
        exe(inputs(1))
    with pytest.raises(sl.NetworkError, match="no network for x \\[\\]"):
        exe(3.0)
    with pytest.raises(sl.NetworkError, match="input 'x': expected a tensor"):
        exe("words")
    with pytest.raises(sl.NetworkError, match="of float32, got"):
        exe(inputs(4).astype("float64"))


def test_one_memory_for_the_weights(exe: sl.CompiledNetworkSet) -> None:
    """Default schedules may pack a weight; where sizes pack it alike, it is one array."""
    distinct: list[np.ndarray] = []
    for array in (weight for one in exe for weight in one.weights):
        if not any(np.shares_memory(array, other) for other in distinct):
            assert not any(
                other.nbytes == array.nbytes and other.tobytes() == array.tobytes()
                for other in distinct
            )
            distinct.append(array)
    assert exe.nbytes == sum(one.nbytes for one in distinct)


def test_threads_call_different_sizes(exe: sl.CompiledNetworkSet) -> None:
    wrong: list[object] = []
    rights = {batch: exe(inputs(batch)) for batch in BATCHES}

    def call(batch: int) -> None:
        try:
            for _ in range(30):
                np.testing.assert_array_equal(exe(inputs(batch)), rights[batch])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(batch,)) for batch in BATCHES * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    locks = {id(one._lock) for one in exe}
    assert len(locks) == 1, "each size uses all cores"


def test_a_tensor_whose_shape_is_a_list_has_its_size(exe: sl.CompiledNetworkSet) -> None:
    class Tensor:
        """What has a shape, and is no array of numpy."""

        shape = [9, 24]

        def __array__(self, *given: object, **options: object) -> np.ndarray:
            return inputs(9)

    assert exe.of(Tensor()) is exe.of(inputs(9)) is exe[BATCHES.index(9)]


def test_what_is_printed(exe: sl.CompiledNetworkSet) -> None:
    exe.load()
    assert len(exe.time_call(repeats=1)) == 3 == len(exe.summaries)
    lines = str(exe).splitlines()
    assert lines[0].startswith("network dense at 3 sizes for cpu/") and "MiB of weights" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["size", *map(str, BATCHES)]
    assert repr(exe) == "<CompiledNetworkSet dense at 4, 9, 2>"
    assert exe[1] is list(exe)[1] and len(exe[:2]) == 2


def test_a_size_without_records_gets_the_programs_of_another(networks: sl.NetworkSet) -> None:
    database = sl.Database()
    for task in networks[0].tasks:
        store(database, task, 1e-6, sl.default_schedule(task.workload))
    with pytest.warns(sl.UntunedWarning, match="at dense 9"):
        found = sl.compile_network(networks, database, TARGET)
    origins = [{task.origin for task in summary} for summary in found.summaries]
    assert origins == [{"tuned"}, {"carried"}, {"carried"}]
    assert found.verify().passed
    assert "carried" in str(found)


def test_one_c_library_for_all_sizes(exe: sl.CompiledNetworkSet, tmp_path: Path) -> None:
    path = exe.export_c(tmp_path / "sizes.so")
    header = (tmp_path / "sizes.h").read_text()
    assert "int sizes_tensors(" in header and "int sizes_at_9(const float *x" in header
    assert "sizes_at_4, sizes_at_9, sizes_at_2." in header
    loaded = sl.load(path)
    for batch in BATCHES:
        x, made, again = inputs(batch), *np.zeros((2, batch, 24), "float32")
        loaded(x, made)
        loaded[f"at_{batch}"](x, again)
        np.testing.assert_array_equal(made, exe(x))
        np.testing.assert_array_equal(again, made)
    with pytest.raises(
        ValueError, match=r"no size for tensors \[5, 24\], \[5, 24\]; there are: at"
    ):
        loaded(inputs(5), inputs(5))
    for suffix in (".a", ".o"):
        assert exe.export_c(tmp_path / f"linked{suffix}", name="linked").stat().st_size > 0
    one = exe[0].export_c(tmp_path / "one.so")
    assert path.stat().st_size < 3 * one.stat().st_size


def test_the_c_library_chooses_by_the_tensors(exe: sl.CompiledNetworkSet, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(exe.export_c(tmp_path / "chosen.so")))
    library.schedlang_error.restype = ctypes.c_char_p

    def call(*arrays: np.ndarray) -> int:
        tensors = [runtime.borrow(array) for array in arrays]
        addresses = (ctypes.c_void_p * len(tensors))(*map(runtime.dlpack_address, tensors))
        return int(library.chosen_tensors(addresses, len(tensors)))

    x, made = inputs(9), np.zeros((9, 24), "float32")
    assert call(x, made) == 0
    np.testing.assert_array_equal(made, exe(x))
    assert call(inputs(5), made) == 4
    assert library.schedlang_error() == (
        b"chosen: no size has the shapes of the inputs; there are chosen_at_4, chosen_at_9, "
        b"chosen_at_2"
    )
    assert call(inputs(4), made) == 4 and b"chosen_at_4: argument 1" in library.schedlang_error()
    assert call(x) == 2 and b"takes 2 tensors, and got 1" in library.schedlang_error()
    assert library.chosen_tensors(None, 2) == 1


def test_weights_are_in_the_c_library_once(exe: sl.CompiledNetworkSet, tmp_path: Path) -> None:
    data = exe.export_c(tmp_path / "once.so").read_bytes()
    for array in {weight.ctypes.data: weight for one in exe for weight in one.weights}.values():
        assert data.count(array.tobytes()) == 1


def test_a_library_for_tvms_machine_holds_one_size(
    exe: sl.CompiledNetworkSet, tmp_path: Path
) -> None:
    with pytest.raises(sl.NetworkError, match="holds one size.*export_c"):
        exe.export_library(tmp_path / "sizes.so")
    assert exe[2].export_library(tmp_path / "one.so").exists()
    with pytest.raises(LibraryError, match="must end with one of"):
        exe.export_c(tmp_path / "sizes.dll")


def test_weights_differ_where_packings_do() -> None:
    """Two sizes of one set never read each other's packed weights."""
    networks = network_set(1, 64)
    exe = sl.compile_network(networks, progress=False)
    for batch, seed in itertools.product((1, 64), (1, 2)):
        x = inputs(batch, seed)
        right = networks[0 if batch == 1 else 1].run(x)
        np.testing.assert_allclose(exe(x), right, rtol=1e-4, atol=1e-6)
