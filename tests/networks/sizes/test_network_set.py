"""Networks of one model at several sizes: what they share, and what cannot be put together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import schedlang as sl
from schedlang.networks.network_tasks import representatives
from schedlang.networks.sizes import SharedArrays, differing, labels
from tests.networks.sizes.models import dense, imported, network_set


def test_networks_share_their_weights() -> None:
    found = network_set(4, 9, 2)
    assert found.sizes == ("4", "9", "2") and len(found) == 3
    assert [one.name for one in found] == ["dense 4", "dense 9", "dense 2"]
    for one, other in itertools.combinations(found, 2):
        for name, value in one.parameters.items():
            assert np.shares_memory(value, other.parameters[name])
            assert not value.flags.writeable
    assert found.nbytes == sum(value.nbytes for value in found[0].parameters.values())
    assert len(found.tasks) == sum(len(one.tasks) for one in found)
    assert "network dense at 3 sizes" in str(found) and "x [9, 24]" in str(found)
    assert found.verify().passed
    assert [one.name for one in found.verify().outputs][1] == "9: output 0"


def test_what_is_not_one_model_is_refused() -> None:
    first = sl.import_network(dense(4))
    refused = [
        ([], "the list of networks is empty"),
        ([first, 3], "item 1 of the networks must be a network, not an int"),
        (first, "NetworkSet takes a list of networks, not a Network"),
        ([first, sl.import_network(dense(4))], r"networks 0 and 1 take the same shapes \(x \[4"),
        ([first, sl.import_network(dense(5, "float16"))], "'x' has elements of float16, not flo"),
        ([first, sl.import_network(dense(5, name="y"))], "of the inputs, 'y' stands where 'x'"),
    ]
    for networks, said in refused:
        with pytest.raises(sl.NetworkError, match=said):
            sl.NetworkSet(networks)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0], "1 for 2 sizes"),
        ([1.0, -1.0], "-1.0 is not how often"),
        ([1.0, float("nan")], "nan is not how often"),
        ([0, 0], "no size is ever called"),
    ],
)
def test_wrong_weights(weights: list[float], said: str) -> None:
    with pytest.raises(sl.NetworkError, match=said):
        network_set(4, 5, weights=weights)


def test_examples_need_a_model_whose_sizes_are_free() -> None:
    x = np.zeros((4, 24), "float32")
    with pytest.raises(sl.NetworkError, match=r"a Relax module has shapes .*sl.NetworkSet\(\["):
        sl.import_network(dense(4), [(x,), (x[:2],)])
    with pytest.raises(sl.NetworkError, match="weights say how often each of several sizes"):
        sl.import_network(dense(4), weights=[1.0])  # type: ignore[call-overload]
    assert sl.import_network(dense(4), [x]).name == "relax", "a list of tensors is one example"


def test_labels_are_the_extents_that_differ() -> None:
    assert labels([((1, 16), (1, 16)), ((1, 32), (1, 32))]) == ("16", "32")
    assert labels([((1, 16),), ((4, 16),), ((4, 32),)]) == ("1x16", "4x16", "4x32")
    assert labels([((2, 3),)]) == ("2x3",) and labels([((),)]) == ("1",)
    assert differing([((1, 16), (16,)), ((1, 32), (8,))]) == [(16, 16), (32, 8)]


def test_arrays_with_the_same_bytes_are_one() -> None:
    arrays = SharedArrays()
    one = np.arange(12, dtype="float32")
    first = arrays.shared({"a": one, "strided": one[::2], "none": one[:0]})
    assert first["a"] is one or np.shares_memory(first["a"], one)
    again = arrays.shared({"b": one.reshape(3, 4).copy(), "other": one + 1, "half": one[:6].copy()})
    assert np.shares_memory(again["b"], one) and again["b"].shape == (3, 4)
    assert not np.shares_memory(again["other"], one)
    np.testing.assert_array_equal(again["half"], one[:6])
    kind = arrays.shared({"c": one.view("int32")})["c"]
    assert kind.dtype == np.int32, "the same bytes of another type are another value"


def test_representatives_are_near_to_all() -> None:
    lengths = [(length,) for length in (16, 17, 32, 64, 100, 128, 250, 256)]
    equal = [1.0] * len(lengths)
    [middle] = representatives(lengths, equal, 1)
    assert lengths[middle] in ((64,), (100,))
    three = [lengths[place][0] for place in representatives(lengths, equal, 3)]
    assert three[0] == 16 and 64 <= three[1] <= 128 and three[2] == 256, "17 and 250 divide badly"
    assert representatives([(16,), (64,)], [1.0] * 2, 20) == (0, 1)
    often = [0.0] * 6 + [1.0, 0.0]
    assert representatives(lengths, often, 1) == (6,), "256 is never called"
    assert representatives([(1, 64), (8, 64), (8, 65)], [1.0] * 3, 2) == (0, 1)


def test_a_set_of_one_size() -> None:
    [only] = imported(3)
    found = sl.NetworkSet([only])
    assert found.sizes == ("3x24",) and found[0].tasks
    assert repr(found) == "<NetworkSet dense at 3x24>"
