"""Any sampled schedule of any workload computes what the unscheduled program computes."""

from __future__ import annotations

import functools
import random

import pytest

from schedlang import workloads
from schedlang.errors import InvalidTrace
from schedlang.language.schedule import Schedule, Trace, replay, resample
from schedlang.tvm.program import structural_key, structurally_equal
from schedlang.workloads.workload import Workload
from tests.properties.programs import SMALL, SPACE, assert_same_numbers, small

pytestmark = pytest.mark.slow

SAMPLES = 12
each_workload = pytest.mark.parametrize("name", SMALL)


@functools.cache
def samples(workload: Workload) -> list[Schedule]:
    return [SPACE.sample(workload, seed=seed) for seed in range(SAMPLES)]


def assert_all_right(schedules: list[Schedule], workload: Workload) -> int:
    """Runs each different program once; returns how many there are."""
    different = {structural_key(sch.mod): sch for sch in schedules}
    for sch in different.values():
        assert_same_numbers(sch.mod, workload, sch.trace)
    return len(different)


@each_workload
def test_samples_compute_the_same(name: str) -> None:
    assert assert_all_right(samples(small(name)), small(name)) > 1


@pytest.mark.parametrize("name", ["GMM", "NRM", "SFM"])
def test_samples_of_the_papers_shapes_compute_the_same(name: str) -> None:
    workload = workloads.get(name)
    assert assert_all_right(samples(workload), workload) > 1


@each_workload
def test_sampling_never_fails(name: str) -> None:
    for seed in range(SAMPLES, 60):
        sch = SPACE.sample(small(name), seed=seed)
        assert structurally_equal(sch.trace.replay().mod, sch.mod)


@each_workload
def test_stored_traces_replay_to_the_same_program(name: str) -> None:
    for sch in samples(small(name)):
        stored = sch.trace.to_json()
        loaded = Trace.from_json(stored)
        assert loaded == sch.trace
        assert loaded.to_json() == stored
        again = loaded.replay(small(name))
        assert structurally_equal(again.mod, sch.mod)
        assert again.trace == sch.trace
        assert again.changes == ()


@each_workload
def test_simpler_forms_of_a_trace_give_the_same_program(name: str) -> None:
    for sch in samples(small(name)):
        for form in (sch.trace.simplified(), sch.trace.flattened()):
            assert structurally_equal(form.replay().mod, sch.mod)
            assert form.decisions.keys() <= sch.trace.decisions.keys()


@each_workload
def test_other_decisions_compute_the_same_or_are_refused(name: str) -> None:
    valid: list[Schedule] = []
    for seed, sch in enumerate(samples(small(name))):
        rng = random.Random(seed)
        drawn = {site: d.sample(rng) for site, d in sch.trace.distributions.items()}
        decisions = {site: drawn[site] for site in sch.trace.decisions}
        other = sch.trace.with_decisions(decisions)
        try:
            valid.append(replay(other))
        except InvalidTrace as error:
            assert_explained(error, sch.trace)
    assert valid
    assert_all_right(valid, small(name))


@each_workload
def test_other_members_of_a_sketch_compute_the_same_or_are_refused(name: str) -> None:
    valid: list[Schedule] = []
    for seed, sch in enumerate(samples(small(name))):
        try:
            valid.append(resample(sch.trace, seed=seed))
        except InvalidTrace as error:
            assert_explained(error, sch.trace)
    assert valid
    assert_all_right(valid, small(name))


def assert_explained(error: InvalidTrace, trace: Trace) -> None:
    """It says which draw, with the value and the support, or which instruction and why."""
    if error.reason == "decision":
        assert error.site in trace.decisions
        assert str(error.value) in str(error)
        assert error.support in str(error)
    else:
        assert error.reason == "instruction"
        assert error.site in {instruction.kind.name for instruction in trace.instructions}
        assert error.site in str(error)
        assert str(error).rpartition(": ")[2]
