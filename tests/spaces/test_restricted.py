"""Parts of spaces: their size, and that no search, replay or mutation leaves them."""

from __future__ import annotations

import random
from typing import Any

import pytest

import schedlang as sl
from schedlang.distributions import Thinned
from schedlang.errors import InvalidTrace, SpaceError
from schedlang.search.proposal_kernel import ProposalKernel, carry_out, cross
from schedlang.spaces.mutation import carry_over
from schedlang.testing.spaces import BROKEN, HOPELESS, ORDINARY, TINY
from schedlang.tuning.identity import identity
from schedlang.tuning.surveys import enumerated
from tests.spaces.partial_spaces import (
    MORE_SPACES,
    SPACES,
    WORKLOAD,
    afterwards,
    keys_of,
    never,
    searched,
    two_tiles,
)
from tests.spaces.programs import convolution


@pytest.fixture(scope="module", params=SPACES)
def part(request: pytest.FixtureRequest) -> sl.Space:
    return SPACES[request.param].restricted(WORKLOAD, 40, seed=1)


@pytest.fixture(scope="module")
def inside(part: sl.Space) -> set[str]:
    return set(keys_of(part))


# -- staying inside -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "search"),
    [("two_tiles", "coordinate_descent"), ("two_tiles", "evolutionary"), ("own", "tree_search")]
    + [("refuses", "evolutionary")],
)
def test_no_search_leaves_it(name: str, search: str) -> None:
    part = SPACES[name].restricted(WORKLOAD, 40, seed=1)
    _, keys = searched(part, search, 20)
    assert len(keys) > 3 and set(keys) <= set(keys_of(part))


def test_a_grid_has_all_of_it(part: sl.Space, inside: set[str]) -> None:
    strategy, keys = searched(part, "grid", 1000)
    assert set(keys) == inside and len(keys) == len(inside)
    assert strategy.finished is not None


def test_no_mutation_leaves_it(part: sl.Space, inside: set[str]) -> None:
    rng, kernel = random.Random(3), ProposalKernel(jump=0.3)
    sch = _drawn(part, rng)
    found, moved = set(), 0
    for _ in range(60):
        [mutation] = kernel.pick(sch.trace, rng, 1)
        assert mutation is not None
        try:
            after = carry_out(part, (sch.trace, mutation, rng.getrandbits(32)))
        except (InvalidTrace, sl.InstructionError):
            continue
        moved += after.trace != sch.trace
        sch = after
        found.add(sch.program_key)
    assert moved > 5 and found <= inside


def test_no_crossover_leaves_it() -> None:
    @sl.module
    def tile_two(sch: sl.Schedule, block: sl.BlockRV) -> None:
        if sch.get(block).name_hint not in ("bias_add", "relu"):
            raise sl.NotApplicable("another block")
        for loop in sch.get_loops(block)[-2:]:
            sch.split(loop, sch.sample_perfect_tile(loop, n=2))

    workload = convolution()
    part = sl.Space([tile_two]).restricted(workload, 60, seed=1)
    inside = set(keys_of(part, workload))
    rng, children = random.Random(4), 0
    for _ in range(30):
        one, other = (part.sample(workload, seed=rng.getrandbits(63)).trace for _ in range(2))
        if (child := cross(one, other, rng)) is not None:
            children += child not in (one, other)
            assert child.replay(misfit="repair").program_key in inside
    assert children > 3


def test_no_replay_leaves_it(part: sl.Space, inside: set[str]) -> None:
    rng, keys = random.Random(5), set[str]()
    for seed in range(15):
        trace = sl.Trace.from_json(_drawn(part, rng).trace.to_json(), WORKLOAD)
        assert trace.replay().trace == trace
        site = rng.choice(list(trace.decisions))
        changed = trace.with_decisions({site: (1, 64)})
        for misfit in ("repair", "resample"):
            try:
                keys.add(changed.replay(misfit=misfit, seed=seed).program_key)
            except InvalidTrace as error:
                assert error.reason == "instruction"
        try:
            keys.add(sl.resample(trace, seed=seed).program_key)
        except InvalidTrace as error:
            assert error.reason == "instruction"
    assert keys and keys <= inside


def test_a_schedule_of_another_shape_is_carried_into_it(part: sl.Space, inside: set[str]) -> None:
    if part.modules == SPACES["refuses"].modules:
        pytest.skip("its splits fit one shape")
    for seed in range(10):
        other = part.sample(sl.workloads.matmul(96, 32, 64), seed=seed)
        assert carry_over(other.trace, WORKLOAD, part).program_key in inside


@pytest.mark.parametrize("name", sorted(MORE_SPACES.keys() - SPACES.keys()))
def test_draws_of_any_program_stay_in_it(name: str) -> None:
    part = MORE_SPACES[name].restricted(WORKLOAD, 30, seed=2)
    inside = set(keys_of(part))
    rng = random.Random(6)
    assert {_drawn(part, rng).program_key for _ in range(40)} <= inside


# -- which part -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [25, 100])
def test_its_size_is_near_what_is_asked(size: int) -> None:
    ways, keys = enumerated(ORDINARY.restricted(WORKLOAD, size, seed=1), WORKLOAD)
    assert size / 4 < len(keys) <= len(ways) <= 1.5 * size


def test_it_has_a_way_for_each_sketch_at_least() -> None:
    assert len(keys_of(ORDINARY.restricted(WORKLOAD, 1))) == 2
    assert len(keys_of(ORDINARY.restricted(WORKLOAD, 1, sketches=1))) == 1


def test_it_is_a_part_and_the_whole_where_that_is_small() -> None:
    some = keys_of(SPACES["two_tiles"].restricted(WORKLOAD, 20, seed=1))
    whole = keys_of(SPACES["two_tiles"])
    assert set(some) < set(whole)
    assert keys_of(SPACES["two_tiles"].restricted(WORKLOAD, 10**9)) == whole
    assert keys_of(TINY.restricted(WORKLOAD, 10**9, sketches=8)) == keys_of(TINY)


def test_sketches_are_limited_and_seeds_choose() -> None:
    def sketches(seed: int, count: int) -> list[str]:
        part = SPACES["undone_first"].restricted(WORKLOAD, 20, seed, count)
        return sorted(str(one.choices) for one in part.sketches(WORKLOAD))

    assert len(sketches(0, 1)) == 1
    assert 1 < len(sketches(0, 3)) < len(sketches(0, 9))
    assert len({str(sketches(seed, 1)) for seed in range(4)}) > 1
    assert sketches(5, 3) == sketches(5, 3)


def test_every_draw_says_how_it_was_thinned() -> None:
    part = ORDINARY.restricted(WORKLOAD, 40, seed=1)
    drawn = part.sample(WORKLOAD, seed=0).trace.distributions
    assert drawn and all(isinstance(one, Thinned) for one in drawn.values())
    assert len({one.exponent for one in drawn.values() if isinstance(one, Thinned)}) == 1


def test_options_of_no_probability_are_in_no_part() -> None:
    part = sl.Space([afterwards]).restricted(WORKLOAD, 1000, sketches=6)
    assert {dict(one.choices)["option"] for one in part.sketches(WORKLOAD)} == {"b", "c"}


def test_what_follows_undone_choices_is_met_whichever_they_were() -> None:
    """A grid runs what follows once, so a part must not depend on which option was undone."""

    @sl.module
    def undone_twice(sch: sl.Schedule, block: sl.BlockRV) -> None:
        if sch.choose("way", ("bad", "worse", "good")) != "good":
            raise sl.NotApplicable("it is not good")

    @sl.module
    def four(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.annotate(block, "four", sch.choose("four", (1, 2, 3, 4)))

    for seed in range(6):
        part = sl.Space([undone_twice, four]).restricted(WORKLOAD, 20, seed, sketches=4)
        rng, inside = random.Random(seed), set(keys_of(part))
        assert {_drawn(part, rng).program_key for _ in range(60)} == inside
        assert len(part.sketches(WORKLOAD)) >= 4


def test_a_module_that_never_applies_leaves_one_program() -> None:
    part = sl.Space([never]).restricted(WORKLOAD, 10)
    [only] = set(keys_of(part))
    assert only == sl.Schedule(WORKLOAD).program_key


def test_on_another_workload_it_is_a_part_too() -> None:
    part, other = SPACES["two_tiles"].restricted(WORKLOAD, 20, seed=1), sl.workloads.matmul(8, 8, 8)
    some = enumerated(part, other)[1]
    assert set(some) < set(enumerated(SPACES["two_tiles"], other)[1])


# -- its identity, and what is refused ------------------------------------------------------------


def test_runs_on_different_parts_are_different_runs() -> None:
    parts = [
        ORDINARY,
        ORDINARY.restricted(WORKLOAD, 40, seed=1),
        ORDINARY.restricted(WORKLOAD, 400, seed=1),
        ORDINARY.restricted(WORKLOAD, 40, seed=2),
        ORDINARY.restricted(WORKLOAD, 40, seed=1, sketches=1),
    ]
    assert len({identity(one) for one in parts}) == len(parts)
    assert identity(parts[1]) == identity(ORDINARY.restricted(WORKLOAD, 40, seed=1))
    other = sl.Space([two_tiles]).restricted(WORKLOAD, 40, seed=1)
    strategy = searched(other, "random", 1)[0]
    with pytest.raises(ValueError, match="which is another"):
        sl.tune(WORKLOAD, space=parts[1], search=strategy, trials=1, progress=False)


def test_what_is_composed_of_it_is_whole() -> None:
    part = SPACES["two_tiles"].restricted(WORKLOAD, 5, seed=1)
    assert len(part + afterwards) == 2 and not (part + afterwards).part
    assert set(keys_of(part[:])) == set(keys_of(SPACES["two_tiles"]))
    assert "restricted to" in repr(part)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0}, "size=0"),
        ({"size": 2.5}, "size=2.5"),
        ({"size": True}, "size=True"),
        ({"sketches": 0}, "sketches=0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 1.0}, "seed=1.0"),
        ({"seed": 2**64}, "seed="),
    ],
    ids=str,
)
def test_wrong_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        ORDINARY.restricted(WORKLOAD, **given)


def test_what_cannot_be_restricted() -> None:
    part = ORDINARY.restricted(WORKLOAD, 5)
    with pytest.raises(SpaceError, match="restricted already"):
        part.restricted(WORKLOAD, 5)
    with pytest.raises(SpaceError, match="no draw from this space gives a program; the last one"):
        HOPELESS.restricted(WORKLOAD, 5)
    with pytest.raises(ZeroDivisionError):
        BROKEN.restricted(WORKLOAD, 5)


def _drawn(part: sl.Space, rng: random.Random) -> sl.Schedule:
    """Draw until the draw is a program."""
    while True:
        try:
            return part.sample(WORKLOAD, seed=rng.getrandbits(63))
        except sl.InstructionError:
            continue
