"""Which shapes of a set are tuned in earnest, and how many trials all of them have."""

from __future__ import annotations

import pytest

from schedlang import workloads
from schedlang.networks.network_tasks import isolated
from schedlang.shapes.extents import as_shapes
from schedlang.shapes.plan import Programs, plan
from schedlang.workloads.construct import Template

LAYERS = [{"inputs": c, "outputs": k} for c in (64, 128, 256) for k in (64, 128, 256, 512)]
IMAGE = {"inputs": 3, "outputs": 32}


def programs(shapes: list[dict[str, int]]) -> Programs:
    def layer(inputs: int, outputs: int) -> object:
        return workloads.conv2d(14, 14, inputs, outputs, 3, 1, 1)

    return Programs(Template(layer), as_shapes(shapes, 64))


def test_a_size_that_is_like_no_other_is_isolated() -> None:
    sizes = [[*one.values()] for one in LAYERS]
    assert isolated(sizes) == ()
    assert isolated([*sizes[:5], [3, 32], *sizes[5:]]) == (5,)
    assert isolated([[1, 1], [4096, 4096]]) == (), "two are no family to be apart from"
    assert isolated([[8, 8]] * 6) == ()


def test_several_are_isolated_the_farthest_first() -> None:
    sizes = [[*one.values()] for one in LAYERS]
    assert isolated([[1, 1 << 16], *sizes, [1 << 20, 1]]) == (len(sizes) + 1, 0)


def test_an_isolated_shape_is_tuned_in_earnest_beside_representatives() -> None:
    many = [*LAYERS, {"inputs": 128, "outputs": 384}, IMAGE]
    first, total, room = plan(programs(many), 16, 0.6)
    assert many.index(IMAGE) in first
    assert len(first) >= 3
    assert total >= len(first) * 16 and room >= 4


def test_a_small_budget_is_for_the_representative() -> None:
    many = [*LAYERS, IMAGE]
    first, _, _ = plan(programs(many), 64, 0.1)
    assert len(first) == 1 and many.index(IMAGE) not in first


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_measurements_are_the_share_or_as_few_as_all_shapes_need(share: float) -> None:
    first, total, room = plan(programs(LAYERS), 64, share)
    least = len(first) * 64 + 4 * (len(LAYERS) - len(first))
    unscheduled = 1.5 * len(LAYERS)
    within = total + room + unscheduled <= share * (64 * len(LAYERS) + unscheduled)
    assert within or total == least
