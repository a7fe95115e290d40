"""Walking a recorded space gives what running the space itself gives, without TVM."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import InvalidTrace, SpaceError
from schedlang.instructions.choices import Decider, Draw, Path
from schedlang.lab import RecordedSpace
from schedlang.search.base import Enumerator
from schedlang.spaces.mutation import by_site, revise
from tests.lab.made_up_space import made_up
from tests.spaces.partial_spaces import (
    MORE_SPACES,
    SPACES,
    WORKLOAD,
    afterwards,
    by_value,
    keys_of,
    never,
    searched,
    undone_first,
    undone_pairs,
)

REFUSED = (InvalidTrace, sl.InstructionError)
DEFAULT = "the default space"
"""It is of this machine: its parts differ from one machine to the next."""


@pytest.fixture(scope="module", params=[*MORE_SPACES, DEFAULT])
def part(request: pytest.FixtureRequest) -> sl.Space:
    space = sl.default_space() if request.param == DEFAULT else MORE_SPACES[request.param]
    return space.restricted(WORKLOAD, 40, seed=1, sketches=8)


@pytest.fixture(scope="module")
def recorded(part: sl.Space) -> RecordedSpace:
    return made_up(part, WORKLOAD, [sl.Status.RUN_ERROR])


def ran(space: sl.Space, decider: Decider) -> tuple[str, sl.Trace] | str:
    """Run a space; return the program's key and its trace, or that it was refused."""
    try:
        sch = space.run(WORKLOAD, decider)
    except REFUSED:
        return "refused"
    return sch.program_key, sch.trace


@pytest.mark.slow
def test_equal_seeds_draw_the_same(part: sl.Space, recorded: RecordedSpace) -> None:
    for seed in range(40):
        known = ran(part, Draw(random.Random(seed)))
        assert ran(recorded.space, Draw(random.Random(seed))) == known


def test_given_answers_are_taken(part: sl.Space, recorded: RecordedSpace) -> None:
    sch = next(iter(part.iterate_sketches(WORKLOAD))).trace
    given: dict[str, Any] = {"decisions": sch.decisions, "choices": sch.choices, "seed": 0}
    known = part.sample(WORKLOAD, **given).trace
    assert recorded.space.sample(WORKLOAD, **given).trace == known
    assert known.decisions | sch.decisions == known.decisions
    with pytest.raises(SpaceError, match="no site 'nowhere' was met"):
        recorded.space.sample(WORKLOAD, **given | {"decisions": {**sch.decisions, "nowhere": 1}})


def test_the_sketches_are_the_same(part: sl.Space, recorded: RecordedSpace) -> None:
    def paths(space: sl.Space) -> list[Any]:
        taken, waiting = list[Any](), list[tuple[int, ...]]([()])
        while waiting:
            decider = Path(waiting.pop(0), random.Random(0))
            taken.append((ran(space, decider), decider.taken, decider.choices()))
            known = len(decider.prefix)
            for depth, others in enumerate(decider.alternatives):
                numbers = [number for _, _, number in decider.taken[:depth]]
                waiting += [(*numbers, other) for other in others if depth >= known]
        return taken

    assert paths(recorded.space) == paths(part)
    known = [one.choices for one in part.sketches(WORKLOAD)]
    assert [one.choices for one in recorded.space.sketches(WORKLOAD)] == known


def test_all_ways_are_the_same(part: sl.Space, recorded: RecordedSpace) -> None:
    def all_ways(space: sl.Space) -> list[Any]:
        decider, found, going = Enumerator(None), [], True
        while going:
            found.append(ran(space, decider))
            going = decider.advance()
        return found

    assert all_ways(recorded.space) == all_ways(part)
    assert set(keys_of(recorded.space)) == set(recorded.numbers)


def test_running_again_with_other_answers_is_the_same(
    part: sl.Space, recorded: RecordedSpace
) -> None:
    def revised(space: sl.Space) -> list[Any]:
        rng, trace, found = random.Random(7), _first(space), []
        for seed in range(40):
            wanted = _wanted(trace, rng)
            known = _outcome(lambda: revise(trace, wanted, random.Random(seed), space=space))  # noqa: B023
            found.append(known)
            if not isinstance(known, str):
                trace = known[1]
        return found

    assert revised(recorded.space) == revised(part)


@pytest.mark.parametrize("name", SPACES)
def test_replays_with_other_decisions_are_the_same(name: str) -> None:
    part = SPACES[name].restricted(WORKLOAD, 30, seed=1)

    def replayed(space: sl.Space) -> list[Any]:
        rng, trace, found = random.Random(8), _first(space), []
        for seed in range(30):
            wanted = _wanted(trace, rng, draws_only=True)
            made: list[Callable[[], sl.Schedule]] = [
                lambda: revise(trace, wanted, random.Random(seed)),  # noqa: B023
                lambda: revise(trace, wanted, None),  # noqa: B023
                lambda: trace.with_decisions(wanted).replay(),  # noqa: B023
                lambda: trace.with_decisions(wanted).replay(misfit="repair"),  # noqa: B023
                lambda: trace.with_decisions(wanted).replay(misfit="resample", seed=seed),  # noqa: B023
                lambda: sl.resample(trace, seed=seed),  # noqa: B023
            ]
            found += (new := [_outcome(one) for one in made])
            trace = next((one[1] for one in new if not isinstance(one, str)), trace)
        return found

    known = replayed(part)
    assert replayed(made_up(part, WORKLOAD, []).space) == known
    assert len({one[0] for one in known}) > 1


@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("two_tiles", "coordinate_descent"),
        ("two_tiles", "evolutionary"),
        ("refuses", "evolutionary"),
        ("ordinary", "tree_search"),
    ],
)
def test_searches_propose_the_same(name: str, search: str) -> None:
    part = SPACES[name].restricted(WORKLOAD, 30, seed=2)
    strategy, keys = searched(part, search, 16)
    other, others = searched(made_up(part, WORKLOAD, []).space, search, 16)
    assert others == keys
    reasons = [one.reason for one in strategy.rejections]
    assert [one.reason for one in other.rejections] == reasons


# -- what differs ---------------------------------------------------------------------------------


def test_a_replay_decides_again_by_what_is_drawn() -> None:
    """A replay of the space itself keeps what the program did with another value."""
    space = sl.Space([by_value])
    walked = made_up(space, WORKLOAD, []).space
    given = {"number": 3, "size": 20}
    trace = walked.sample(WORKLOAD, decisions=given).trace
    assert revise(trace, {"number": 1}, None).trace.decisions == {"number": 1}
    plain = space.sample(WORKLOAD, decisions=given).trace
    assert revise(plain, {"number": 1}, None).trace.decisions == {"number": 1, "size": 20}


def test_what_never_stays_is_not_met() -> None:
    walked = made_up(sl.Space([never, afterwards]), WORKLOAD, []).space
    decider = Path((), random.Random(0))
    walked.run(WORKLOAD, decider)
    assert [site for site, _, _ in decider.taken] == ["option"]


def test_names_that_others_use_after_a_rollback_are_found_or_refused() -> None:
    @sl.module
    def same_names(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.annotate(block, "way", sch.choose("way", ("bad", "good", "better")))

    with pytest.raises(SpaceError, match="programs of matmul would not be found"):
        sl.survey(WORKLOAD, space=sl.Space([undone_first, same_names]))


@pytest.mark.parametrize(
    "modules", [[], [undone_pairs], [undone_first, undone_pairs, undone_first.renamed("again")]]
)
def test_small_and_odd_spaces_are_found_whole(modules: Sequence[sl.Module]) -> None:
    space = sl.Space(modules)
    recorded = made_up(space, WORKLOAD, [])
    assert set(keys_of(recorded.space)) == set(keys_of(space))


# -- errors ---------------------------------------------------------------------------------------


def test_errors_of_a_walk() -> None:
    recorded = made_up(sl.Space([by_value]), WORKLOAD, [])
    with pytest.raises(SpaceError, match="was recorded, and cannot run on"):
        recorded.space.sample(sl.workloads.matmul(8, 8, 8))
    with pytest.raises(SpaceError, match="restricted already"):
        recorded.space.restricted(WORKLOAD, 5)
    not_permitted: list[Any] = [5, True, 1.0, "x", {}, [1], [{}]]
    for wrong in not_permitted:
        with pytest.raises(InvalidTrace, match="not in the support") as error:
            recorded.space.sample(WORKLOAD, decisions={"number": wrong})
        assert error.value.reason == "decision" and error.value.site == "number"
    with pytest.raises(SpaceError, match="'number' is a draw"):
        recorded.space.sample(WORKLOAD, choices={"number": 1})


def test_a_way_without_a_program_is_refused() -> None:
    space = sl.Space(SPACES["refuses"].modules)
    walked = made_up(space, WORKLOAD, []).space
    with pytest.raises(InvalidTrace, match="factor=3: no program when") as error:
        walked.sample(WORKLOAD, decisions={"factor": 3})
    assert error.value.reason == "instruction"


def _first(space: sl.Space) -> sl.Trace:
    rng = random.Random(0)
    while isinstance(known := ran(space, Draw(rng)), str):
        pass
    return known[1]


def _outcome(make: Callable[[], sl.Schedule]) -> tuple[Any, ...] | str:
    try:
        sch = make()
    except REFUSED:
        return "refused"
    changes = [(one.site, one.recorded, one.used) for one in sch.changes]
    return sch.program_key, sch.trace, changes


def _wanted(trace: sl.Trace, rng: random.Random, draws_only: bool = False) -> dict[str, Any]:
    """Draw another answer at one or two sites."""
    sites = by_site(trace)
    names = list(trace.decisions) if draws_only else list(sites)
    some = rng.sample(names, min(rng.randint(1, 2), len(names)))
    distributions = {site: sites[site].distribution for site in some}
    return {site: one.sample(rng) for site, one in distributions.items() if one is not None}
