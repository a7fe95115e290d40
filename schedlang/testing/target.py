"""The contract of a target: subclass, give the fixture, and yours is checked like ours.

class TestMine(TargetContract):
    @pytest.fixture
    def target(self):
        return sl.Target("mine")  # its kind has a line in schedlang.targets.kinds.KINDS

What needs the machine is skipped where ``check_present`` says that this is another one.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from schedlang.errors import TargetError
from schedlang.measurement import Candidate
from schedlang.spaces.space import Space
from schedlang.targets import (
    Target,
    as_target,
    build_callable,
    export_library,
    load as load_library,
)
from schedlang.targets.kinds import KINDS, class_of, code_generator, load
from schedlang.workloads.operators import matmul
from schedlang.workloads.workload import Workload

SIDE = 32


def check_product(program: Callable[..., object]) -> None:
    """Fail unless a program computes the product of two matrices."""
    rng = np.random.default_rng(0)
    a, b = (rng.random((SIDE, SIDE), "float32") for _ in "ab")
    out = np.empty((SIDE, SIDE), "float32")
    program(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4)


class TargetContract:
    """Subclass and override ``target``."""

    @pytest.fixture
    def target(self) -> Target:
        """The target under test."""
        raise NotImplementedError

    @pytest.fixture
    def workload(self) -> Workload:
        """What is built and measured: the product of two small matrices."""
        return matmul(SIDE, SIDE, SIDE)

    @pytest.fixture
    def present(self, target: Target) -> Target:
        """The target, where this machine can run programs for it."""
        try:
            target.check_present()
        except TargetError as error:
            pytest.skip(f"needs the machine: {error}")
        return target

    def test_its_kind_is_in_the_table(self, target: Target) -> None:
        assert isinstance(target, Target)
        assert type(target) is load(target.kind)

    def test_its_names_lead_to_its_kind(self, target: Target) -> None:
        assert class_of(target.kind) is type(target)
        for name in type(target).names():
            assert type(as_target(name)) is type(target), name

    def test_another_name_is_refused(self, target: Target) -> None:
        with pytest.raises(TargetError, match="no such"):
            Target(f"{target.kind}/no such")

    def test_it_is_a_value(self, target: Target) -> None:
        for again in (copy.deepcopy(target), pickle.loads(pickle.dumps(target))):
            assert again == target and again.key == target.key
            assert len({again, target}) == 1
        assert as_target(target) is target

    def test_its_key_leads_back_to_it(self, target: Target) -> None:
        found = Target.from_key(target.key)
        assert type(found) is type(target)
        assert type(found.nearest_here()) is type(target)

    def test_its_relatives_are_other_machines(self, target: Target) -> None:
        assert target.relatives([target.key, "no such kind/of machine", ""]) == []
        distance = target.distance(target)
        assert distance is None or not any(distance)

    def test_its_key_is_one_line_of_text(self, target: Target) -> None:
        assert isinstance(target.key, str) and target.key
        assert target.key.splitlines() == [target.key]
        assert target.key in target.describe()

    def test_what_records_say_of_it_is_text(self, target: Target) -> None:
        for name, value in target.provenance().items():
            assert isinstance(name, str) and isinstance(value, str), name

    def test_its_space_has_programs(self, target: Target, workload: Workload) -> None:
        space = target.default_space()
        assert isinstance(space, Space)
        assert space.sample(workload, seed=0).trace.replay(workload)

    def test_its_code_generator_is_made_from_json(self, target: Target, workload: Workload) -> None:
        spec = json.loads(json.dumps(target.spec()))
        assert spec["kind"] == target.kind and spec["kind"] in KINDS
        assert code_generator(spec).compile(workload.mod) is not None

    def test_what_it_builds_computes(self, present: Target, workload: Workload) -> None:
        scheduled = present.default_space().sample(workload, seed=0).mod
        for mod in (workload.mod, scheduled):
            check_product(build_callable(mod, present))

    def test_it_writes_libraries(self, present: Target, workload: Workload, tmp_path: Path) -> None:
        path = export_library(workload.mod, present, tmp_path / "program.so")
        check_product(load_library(path))

    def test_it_measures(self, present: Target, workload: Workload) -> None:
        with present.measurer(workload, verify="all", seed=0) as measurer:
            found = list(measurer.measure([Candidate(7, workload.mod)]))
            assert [(one.id, one.ok) for one in found] == [(7, True)], found
            assert found[0].latency > 0
            assert measurer.reference_latency > 0
