"""Wrong parameters: the message names the distribution, the argument, its value and the remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from schedlang.distributions import (
    Categorical,
    ComputeLocation,
    ImperfectTile,
    IntRange,
    PartitionedTile,
    PerfectTile,
    Permutation,
    Subset,
    distribution_from_json,
)
from schedlang.errors import DistributionError

WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: PerfectTile(0, 2), "PerfectTile(extent=0): must be an int from 1 to 2147483647"),
    (lambda: PerfectTile(2**31, 2), "PerfectTile(extent=2147483648): must be an int"),
    (lambda: PerfectTile(True, 2), "PerfectTile(extent=True): must be an int"),
    (lambda: PerfectTile(8, 17), "PerfectTile(n=17): must be an int from 1 to 16"),
    (
        lambda: PerfectTile(8, 2, max_innermost_factor=-1),
        "PerfectTile(max_innermost_factor=-1): must be an int of at least 1, or None",
    ),
    (
        lambda: PerfectTile(8, 1, max_innermost_factor=4),
        "PerfectTile(max_innermost_factor=4): one factor must be the whole extent 8; "
        "raise the bound or use n=2",
    ),
    (
        lambda: PerfectTile(8, 2, weights={2: {4: 1.0}}),
        "PerfectTile(weights={2: {4: 1.0}}): level 2 must be an int from -2 to 1",
    ),
    (
        lambda: PerfectTile(8, 2, weights={1: {4: 2.0}, -1: {4: 3.0}}),
        "PerfectTile(weights={1: {4: 2.0}, -1: {4: 3.0}}): level 1 occurs twice",
    ),
    (
        lambda: PerfectTile(8, 2, weights={1: {4: -2.0}}),
        "PerfectTile(weights[1][4]=-2.0): a weight must be finite and not negative",
    ),
    (
        lambda: PerfectTile(8, 2, weights={1: {4: math.inf}}),
        "PerfectTile(weights[1][4]=inf): a weight must be finite and not negative",
    ),
    (
        lambda: PerfectTile(8, 2, weights={1: {0: 2.0}}),
        "PerfectTile(weights={1: {0: 2.0}}): factor 0 must be an int of at least 1",
    ),
    (
        lambda: PerfectTile(3, 2, weights={1: {1: 0.0, 3: 0.0}}),
        "PerfectTile(weights=((1, ((1, 0.0), (3, 0.0))),)): every tile of 3 has a factor of "
        "weight 0",
    ),
    (
        lambda: PerfectTile(4, 2, weights="x"),  # type: ignore[arg-type]
        "PerfectTile(weights='x'): must map levels to factors to weights",
    ),
    (
        lambda: PartitionedTile(10, 2, 1, 4),
        "PartitionedTile(innerpart_factor=4): must divide the extent 10; pad the loop or choose "
        "another factor",
    ),
    (
        lambda: PartitionedTile(16, 2, 2, 4),
        "PartitionedTile(partition_pos=2): must be an int from 0 to 1",
    ),
    (lambda: ImperfectTile(8, 1), "ImperfectTile(n=1): must be an int from 2 to 16"),
    (
        lambda: ImperfectTile(8, 2, max_waste=-0.5),
        "ImperfectTile(max_waste=-0.5): a weight must be finite and not negative",
    ),
    (
        lambda: ImperfectTile(8, 2, max_waste=25),
        "ImperfectTile(max_waste=25): must be a fraction of the extent, 0 to 1",
    ),
    (
        lambda: ImperfectTile(8, 2, max_innermost_factor=0),
        "ImperfectTile(max_innermost_factor=0): must be an int of at least 1, or None",
    ),
    (
        lambda: ImperfectTile(8, 2, waste_penalty=-1),
        "ImperfectTile(waste_penalty=-1): must be an int from 0 to 64",
    ),
    (
        lambda: ImperfectTile(3, 2, weights={1: {1: 0.0, 3: 0.0}}),
        "ImperfectTile(weights=((1, ((1, 0.0), (3, 0.0))),)): every tile of 3 has a factor of "
        "weight 0",
    ),
    (lambda: Categorical(()), "Categorical(candidates=()): must hold at least one value"),
    (
        lambda: Categorical((1, 2, 1)),
        "Categorical(candidates=(1, 2, 1)): must be distinct, but 1 occurs twice",
    ),
    (
        lambda: Categorical((1, True)),
        "Categorical(candidates=(1, True)): must hold 64-bit ints only, not True",
    ),
    (
        lambda: Categorical((1, 2), (1.0,)),
        "Categorical(probs=(1.0,)): must hold 2 weights, one for each candidate",
    ),
    (
        lambda: Categorical((1, 2), (0, 0)),
        "Categorical(probs=(0, 0)): must hold at least one weight above 0",
    ),
    (
        lambda: Categorical((1, 2), (math.nan, 1)),
        "Categorical(probs=nan): a weight must be finite and not negative",
    ),
    (
        lambda: Categorical(range(10**9)),  # type: ignore[arg-type]
        "Categorical(candidates=range(0, 1000000000)): must hold at most 65536 values",
    ),
    (
        lambda: ComputeLocation((-3, 0)),
        "ComputeLocation(candidates=(-3, 0)): -3 is not a location; -2 is inline, -1 root, 0 and "
        "up are loops",
    ),
    (lambda: IntRange(0, 4, 0), "IntRange(step=0): must not be 0"),
    (lambda: IntRange(4, 4), "IntRange(stop=4): range(4, 4, 1) is empty"),
    (lambda: Permutation(0), "Permutation(n=0): must be an int from 1 to 1024"),
    (lambda: Subset((1, 2), 3), "Subset(min_size=3): must be an int from 0 to 2"),
    (lambda: Subset((1, 2), 2, 1), "Subset(max_size=1): is below min_size=2"),
    (
        lambda: PerfectTile(512, 4, 64).neighbours((1, 1)),
        "PerfectTile(512, n=4, max_innermost_factor=64): (1, 1) is not in the support",
    ),
    (
        lambda: distribution_from_json({"kind": "perfect_tile", "n": 2}),
        "PerfectTile: field 'extent' is missing",
    ),
    (
        lambda: distribution_from_json({"kind": "perfect_tile", "extent": 8.0, "n": 2}),
        "PerfectTile.extent: 8.0 is not of type int",
    ),
    (
        lambda: distribution_from_json({"kind": "int_range", "start": 0, "stop": 4, "stride": 2}),
        "IntRange: unknown field 'stride'",
    ),
    (
        lambda: distribution_from_json({"kind": "categorical", "candidates": [0] * 70_000}),
        "cannot be a stored value",
    ),
    (lambda: distribution_from_json([1]), "a stored distribution must be an object, not [1]"),
    (lambda: distribution_from_json({"kind": "os.system"}), "is not a known distribution"),
]


@pytest.mark.parametrize(("construct", "message"), WRONG, ids=[message for _, message in WRONG])
def test_message(construct: Callable[[], Any], message: str) -> None:
    with pytest.raises(DistributionError, match=re.escape(message)):
        construct()


def test_text_is_a_short_call() -> None:
    assert str(PerfectTile(512, 4, 64)) == "PerfectTile(512, n=4, max_innermost_factor=64)"
    assert repr(IntRange(0, 8)) == "IntRange(0, stop=8)"
    assert str(Categorical(tuple(range(100)))) == (
        "Categorical((0, 1, 2, 3, 4, 5, 6, 7, ... 100 in all))"
    )
