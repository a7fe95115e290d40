from __future__ import annotations

import math

import pytest

from schedlang.distributions import Distribution, RegisterTile
from schedlang.errors import DistributionError
from schedlang.testing.distributions import DistributionContract

PRODUCT = ((0,), (1,))


class TestRegisterTile(DistributionContract):
    @pytest.fixture(
        params=[
            RegisterTile((1,), (), 8, 16),
            RegisterTile((7, 13), PRODUCT, 16, 32),
            RegisterTile((128, 128), PRODUCT, 16, 32),
            RegisterTile((128, 128), PRODUCT, 16, 32, uniform=True),
            RegisterTile((1, 112, 112, 64), ((0, 1, 2), (3,)), 16, 32),
            RegisterTile((24, 60), (), 4, 8),
            RegisterTile((7, 35), PRODUCT, 16, 32),
            RegisterTile((1, 109, 109, 64), ((0, 1, 2), (3,)), 16, 32),
            RegisterTile((1, 8, 8, 64), ((0, 1, 2), (3,)), 16, 32, strides=(1, 2, 2, 1)),
            RegisterTile((112, 112, 16), ((0, 1), (2,)), 16, 32, strides=(2, 2, 1)),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


def test_the_likeliest_tiles_fill_the_registers_and_the_lanes() -> None:
    tile = RegisterTile((512, 512), PRODUCT, 16, 32)
    rows, width = tile.origin()
    assert width % 16 == 0
    assert 16 <= rows * width // 16 <= 30
    assert tile.log_prob((8, 32)) > tile.log_prob((8, 8)) + math.log(4)
    assert tile.log_prob((8, 32)) > tile.log_prob((2, 32)) + math.log(2)


def test_tiles_that_spill_are_rare_and_not_forbidden() -> None:
    tile = RegisterTile((512, 512), PRODUCT, 16, 32)
    assert tile.permits((16, 64))
    assert tile.log_prob((16, 64)) < tile.log_prob((8, 32)) - math.log(10)


def test_a_loop_that_all_operands_depend_on_is_no_reason_to_tile() -> None:
    """A batch: each of its elements has its own operands, so that its tile reuses nothing."""
    tile = RegisterTile((16, 64, 64), ((0, 1), (0, 2)), 16, 32)
    assert tile.log_prob((1, 8, 32)) > tile.log_prob((8, 1, 32))


def test_tiles_that_their_strides_divide_count_the_work_that_is_left() -> None:
    """Of 8 x 8 rows modulo 2 x 2, 16 have work to do at a time; of 7 x 7, all 49."""
    operands = ((0, 1), (2,))
    plain = RegisterTile((8, 8, 64), operands, 16, 32)
    strided = RegisterTile((8, 8, 64), operands, 16, 32, strides=(2, 2, 1))
    small = RegisterTile((4, 4, 64), operands, 16, 32)
    assert strided.permits((8, 8, 32)) and not plain.permits((8, 8, 32))
    ratio = strided.log_prob((8, 4, 32)) - strided.log_prob((8, 8, 16))
    assert ratio == pytest.approx(small.log_prob((4, 2, 32)) - small.log_prob((4, 4, 16)))
    assert all(factor % 2 == 0 for factor in strided.origin()[:2])
    # One row and one column: the conditions stay, and four times the work is done.
    ratio = strided.log_prob((1, 1, 64)) - strided.log_prob((2, 2, 64))
    assert ratio == pytest.approx(4 * math.log(1 / 4))


def test_a_multiple_of_the_stride_is_next_to_the_next_multiple() -> None:
    """Not only to 7, which would do four times the work."""
    tile = RegisterTile((112, 64), PRODUCT, 16, 32, strides=(4, 1))
    assert {(7, 16), (14, 16), (4, 16), (16, 16)} <= set(tile.neighbours((8, 16)))
    assert (4, 16) not in tile.neighbours((7, 16)) or (7, 16) in tile.neighbours((4, 16))


def test_strides_of_one_are_none() -> None:
    assert RegisterTile((8, 8), (), 8, 16, strides=(1, 1)) == RegisterTile((8, 8), (), 8, 16)


def test_whole_vectors_need_not_divide_an_odd_width() -> None:
    tile = RegisterTile((8, 771), PRODUCT, 16, 32)
    widths = {width for _, width in tile.support()}
    assert {16, 32, 48, 128} <= widths and {20, 40} & widths == set()
    assert tile.origin()[1] % 16 == 0
    assert {(8, 32), (8, 64)} <= set(tile.neighbours((8, 48)))


def test_widths_of_whole_vectors_are_divided() -> None:
    assert all(768 % width == 0 for _, width in RegisterTile((8, 768), PRODUCT, 16, 32).support())
    # Narrower than a vector.
    assert all(12 % width == 0 for _, width in RegisterTile((8, 12), PRODUCT, 16, 32).support())


def test_a_prime_extent_has_tiles_that_do_not_divide_it() -> None:
    tile = RegisterTile((109, 64), PRODUCT, 16, 32)
    assert tile.permits((7, 64)) and tile.origin()[0] in range(4, 15)
    assert not RegisterTile((112, 64), PRODUCT, 16, 32).permits((5, 64))
    assert not RegisterTile((64, 109), PRODUCT, 16, 32).permits((8, 8))


def test_without_a_prior_all_are_equally_likely() -> None:
    tile = RegisterTile((64, 64), PRODUCT, 16, 32, uniform=True)
    probabilities = {tile.log_prob(d) for d in tile.support()}
    assert len(probabilities) == 1


@pytest.mark.parametrize(
    ("given", "repaired"), [((5, 31), (4, 32)), ((1000, 1000), (64, 16)), ((8,), (8, 1))]
)
def test_repair_stays_near(given: tuple[int, ...], repaired: tuple[int, ...]) -> None:
    tile = RegisterTile((64, 64), PRODUCT, 16, 32)
    fixed = tile.repair(given)
    assert tile.permits(fixed)
    distance = sum(abs(math.log(a / b)) for a, b in zip(fixed, given, strict=False))
    assert distance <= sum(abs(math.log(a / b)) for a, b in zip(repaired, given, strict=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), 8, 16), "extents=.*1 to 16 extents"),
        (((0, 4), (), 8, 16), "extents=0"),
        (((4, 4), ((2,),), 8, 16), "operands=.*loop positions, 0 to 1"),
        (((4, 4), [[0]], 8, 16), "operands="),
        (((4, 4), (), 0, 16), "lanes=0"),
        (((4, 4), (), 8, 0), "registers=0"),
        (((4, 4), (), 8, 16, 1), "uniform=1.*True or False"),
        (((4, 4), (), 8, 16, False, (2,)), "strides=.*one per loop"),
        (((4, 4), (), 8, 16, False, (1, 2)), "strides=.*1 for the last loop"),
        (((4, 4), (), 8, 16, False, (0, 1)), "strides=0"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(DistributionError, match=message):
        RegisterTile(*arguments)  # type: ignore[arg-type]
