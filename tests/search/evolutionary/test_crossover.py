"""Block-based crossover: what children inherit."""

from __future__ import annotations

import random

import pytest
from tvm import te

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule, Trace
from schedlang.search.proposal_kernel import cross, draws_by_block, sketch_key
from schedlang.spaces.module import module
from schedlang.spaces.space import Space
from schedlang.workloads import as_workload
from schedlang.workloads.workload import Workload


@module
def tile(sch: Schedule, block: BlockRV) -> None:
    """Two tiles a block, and a choice."""
    name = sch.get(block).name_hint
    i, j, *_ = sch.get_loops(block)
    i0, _ = sch.split(i, sch.sample_perfect_tile(i, n=2, name=f"i of {name}"))
    sch.split(j, sch.sample_perfect_tile(j, n=2, name=f"j of {name}"))
    if sch.choose(f"noted {name}", (True, False)):
        sch.annotate(i0, "note", sch.sample_categorical([1, 2], name=f"note of {name}"))


SPACE = Space([tile])
NOTED = {"noted first": True, "noted second": True}


@pytest.fixture(scope="module")
def workload() -> Workload:
    a = te.placeholder((24, 24), name="A")
    first = te.compute((24, 24), lambda i, j: a[i, j] * 2.0, name="first")
    second = te.compute((24, 24), lambda i, j: first[j, i] + 1.0, name="second")
    return as_workload([a, second])


def member(workload: Workload, seed: int) -> Trace:
    return SPACE.sample(workload, seed=seed, choices=NOTED).trace


def test_draws_are_grouped_by_the_block_they_are_about(workload: Workload) -> None:
    groups = [sorted(sites) for sites in draws_by_block(member(workload, 0)).values()]
    about_notes = [["note of first", "note of second"]]
    tiles = [["i of first", "j of first"], ["i of second", "j of second"]]
    assert sorted(groups) == sorted(tiles + about_notes)


def test_a_child_has_whole_blocks_of_its_parents(workload: Workload) -> None:
    one, other = member(workload, 0), member(workload, 1)
    kinds = set()
    for seed in range(20):
        child = cross(one, other, random.Random(seed))
        assert child is not None
        made = child.replay().trace.decisions
        for sites in draws_by_block(one).values():
            assert {s: made[s] for s in sites} in (
                {s: one.decisions[s] for s in sites},
                {s: other.decisions[s] for s in sites},
            )
        assert made != one.decisions and made != other.decisions
        kinds.add(tuple(site for site in made if made[site] == other.decisions[site]))
    assert len(kinds) > 1


def test_parents_of_two_sketches_have_no_child(workload: Workload) -> None:
    one = member(workload, 0)
    other = SPACE.sample(workload, seed=1, choices={**NOTED, "noted first": False}).trace
    assert sketch_key(one) != sketch_key(other)
    assert cross(one, other, random.Random(0)) is None


def test_parents_that_differ_in_one_block_have_no_child(workload: Workload) -> None:
    one = member(workload, 0)
    changed = "i of first"
    other_tile = next(
        d for d in one.distributions[changed].support() if d != one.decisions[changed]
    )
    other = one.with_decisions({changed: other_tile}).replay().trace
    assert cross(one, other, random.Random(0)) is None
    assert cross(one, one, random.Random(0)) is None
