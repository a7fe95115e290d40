"""The contract of a search: subclass, give the fixture, and yours is checked like ours.

class TestMine(StrategyContract):
    @pytest.fixture
    def make_strategy(self):
        return MyStrategy  # called as make_strategy(space, workload, seed)

Nothing is compiled or run: outcomes are made up from the proposed trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from schedlang.errors import SchedlangError
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurement, Status
from schedlang.measurement.disturbance import Disturbance
from schedlang.search import Outcome, Proposal, Recorded, Strategy
from schedlang.spaces.space import Space
from schedlang.testing.spaces import BROKEN, FRAGILE, HOPELESS, ORDINARY, TINY, small_workload
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload

MakeStrategy = Callable[[Space, Workload, int], Strategy]

FAILURES = [status for status in Status if status is not Status.OK]


def made_up_outcome(proposal: Proposal) -> Outcome:
    """Make up the outcome of a proposal from its trace alone.

    About one in four fails, and of one in six other work on the machine leaves doubt.
    """
    drawn = zlib.crc32(proposal.trace.to_json().encode())
    if drawn % 4 == 0:
        status = FAILURES[drawn // 4 % len(FAILURES)]
        return Outcome(proposal.id, Measurement(proposal.id, status, message="made up"))
    latency = (1 + drawn % 997) * 1e-6
    samples = (latency, 1.01 * latency, 0.99 * latency)
    doubt = Disturbance(2, 9, latency / 2, latency) if drawn % 6 == 1 else None
    measured = Measurement(proposal.id, Status.OK, samples, verified=True, disturbance=doubt)
    return Outcome(proposal.id, measured)


def drive(strategy: Strategy, rounds: int, n: int) -> list[Proposal]:
    """Ask and tell for some rounds; return all proposals.

    Outcomes come a round late and in reverse, one of them even later. Fails if the strategy has
    nothing pending, proposes nothing, and is not finished.
    """
    proposals: list[Proposal] = []
    pending: list[Proposal] = []
    for number in range(rounds):
        asked = strategy.ask(n)
        assert len(asked) <= n
        if not asked and not pending:
            assert strategy.finished, (
                "it proposes nothing, has nothing pending, and is not finished"
            )
            break
        kept = pending[:1] if number < rounds - 1 else []
        strategy.tell([made_up_outcome(p) for p in reversed(pending[len(kept) :])])
        pending = kept + asked
        proposals += asked
    strategy.tell([made_up_outcome(p) for p in pending])
    return proposals


def finish(strategy: Strategy, n: int = 8, most: int = 1000) -> list[Proposal]:
    """Ask and tell until the strategy is finished; fails after ``most`` rounds."""
    proposals: list[Proposal] = []
    for _ in range(most):
        if strategy.finished is not None:
            return proposals
        asked = strategy.ask(n)
        strategy.tell([made_up_outcome(p) for p in asked])
        proposals += asked
    pytest.fail(f"not finished after {most} rounds of asking for {n}")


def described(proposals: Sequence[Proposal]) -> list[list[Any]]:
    """Describe proposals by what two runs must agree on."""
    return [[proposal.id, proposal.trace.to_json()] for proposal in proposals]


class StrategyContract:
    """What every search promises, on spaces and outcomes that it has never seen."""

    seeded: ClassVar[bool] = True
    """Whether another seed gives other proposals; ``False`` for a search that draws nothing."""
    saves: ClassVar[bool] = True
    """Whether it saves its state; ``False`` for a search without ``save`` and ``load``."""
    rounds: ClassVar[int] = 4
    """Rounds of five proposals in a fresh process; more for a search that learns late."""

    @pytest.fixture
    def make_strategy(self) -> MakeStrategy:
        """Make a fresh strategy of a space, a workload and a seed."""
        pytest.fail(f"{type(self).__name__} must define the fixture `make_strategy`")

    @pytest.fixture
    def workload(self) -> Workload:
        """Make the workload of the suite's spaces."""
        return small_workload()

    # -- asking ----------------------------------------------------------------------------------

    def test_it_has_a_name(self, make_strategy: MakeStrategy, workload: Workload) -> None:
        name = make_strategy(ORDINARY, workload, 0).name
        assert isinstance(name, str) and name

    def test_ids_grow_and_ask_gives_at_most_n(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(ORDINARY, workload, 0)
        assert strategy.finished is None
        assert list(strategy.ask(0)) == []
        ids: list[int] = []
        for n in (1, 3, 8, 1):
            asked = strategy.ask(n)
            assert len(asked) <= n
            ids += [proposal.id for proposal in asked]
            strategy.tell([made_up_outcome(proposal) for proposal in asked])
        assert all(type(number) is int for number in ids)
        assert ids == sorted(set(ids)) and ids

    @pytest.mark.parametrize("space", [ORDINARY, TINY, FRAGILE], ids=lambda space: space.name)
    def test_proposals_replay(
        self, make_strategy: MakeStrategy, workload: Workload, space: Space
    ) -> None:
        for proposal in drive(make_strategy(space, workload, 0), rounds=3, n=6):
            replayed = Trace.from_json(proposal.trace.to_json(), workload).replay()
            assert structural_key(replayed.mod) == structural_key(proposal.schedule.mod)
            assert replayed.trace == proposal.trace

    @pytest.mark.parametrize("space", [ORDINARY, TINY, FRAGILE], ids=lambda space: space.name)
    def test_no_program_is_proposed_twice(
        self, make_strategy: MakeStrategy, workload: Workload, space: Space
    ) -> None:
        proposals = drive(make_strategy(space, workload, 0), rounds=6, n=8)
        keys = [structural_key(proposal.schedule.mod) for proposal in proposals]
        assert len(keys) == len(set(keys)) > 0
        assert [proposal.program_key for proposal in proposals] == keys

    # -- telling ---------------------------------------------------------------------------------

    def test_outcomes_come_in_parts_late_and_in_any_order(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(ORDINARY, workload, 0)
        first = strategy.ask(4)
        second = strategy.ask(4)
        strategy.tell([])
        strategy.tell([made_up_outcome(proposal) for proposal in second[:1]])
        strategy.tell([made_up_outcome(proposal) for proposal in reversed(first[1:])])
        third = strategy.ask(4)
        late = [*second[1:], *first[:1], *third]
        strategy.tell([made_up_outcome(proposal) for proposal in late])
        assert strategy.ask(1) or strategy.finished

    @pytest.mark.parametrize("status", FAILURES, ids=str)
    def test_a_run_of_failures_does_not_end_it(
        self, make_strategy: MakeStrategy, workload: Workload, status: Status
    ) -> None:
        strategy = make_strategy(ORDINARY, workload, 0)
        for _ in range(3):
            asked = strategy.ask(4)
            failed = [Measurement(p.id, status, message="made up") for p in asked]
            strategy.tell([Outcome(measurement.id, measurement) for measurement in failed])
        assert strategy.ask(4) and strategy.finished is None

    def test_an_outcome_of_nothing_pending_is_refused(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(ORDINARY, workload, 0)
        asked = strategy.ask(3)
        assert asked
        outcomes = [made_up_outcome(proposal) for proposal in asked]
        unknown = Outcome(asked[-1].id + 1, Measurement(asked[-1].id + 1, Status.CRASHED))
        for wrong in ([*outcomes, unknown], [*outcomes, outcomes[0]]):
            with pytest.raises(ValueError, match=str(wrong[-1].id)):
                strategy.tell(wrong)
        strategy.tell(outcomes)  # nothing of the refused calls was learned
        with pytest.raises(ValueError, match=str(outcomes[0].id)):
            strategy.tell(outcomes[:1])

    # -- the same again --------------------------------------------------------------------------

    def test_the_same_seed_and_outcomes_give_the_same_proposals(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        one, other = (make_strategy(ORDINARY, workload, 3) for _ in range(2))
        random.seed(1)
        first = described(drive(one, rounds=4, n=5))
        random.seed(2)
        assert described(drive(other, rounds=4, n=5)) == first

    @pytest.mark.parametrize("rounds", [0, 1, 3])
    def test_a_saved_search_goes_on_as_the_one_that_was_saved(
        self, make_strategy: MakeStrategy, workload: Workload, rounds: int
    ) -> None:
        """With proposals pending, whose outcomes the loaded one is told too."""
        if not self.saves:
            pytest.skip("it does not save its state")
        one, other = (make_strategy(ORDINARY, workload, 3) for _ in range(2))
        drive(one, rounds=rounds, n=5)
        pending = one.ask(3)
        state = one.save()
        assert isinstance(state, str) and one.save() == state
        json.loads(state)
        other.load(state)
        assert other.save() == state
        assert list(other.rejections) == list(one.rejections)
        assert other.screened == one.screened
        for strategy in (one, other):
            strategy.tell([made_up_outcome(proposal) for proposal in pending[:2]])
        ours, theirs = (described(drive(s, rounds=3, n=5)) for s in (one, other))
        assert ours == theirs and ours
        with pytest.raises(ValueError, match=str(pending[0].id)):
            other.tell([made_up_outcome(pending[0])])

    def test_a_search_saved_beside_records_goes_on_as_the_one_that_was_saved(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        """As ``tune`` saves it: what the records of the run have may be left out."""
        if not self.saves:
            pytest.skip("it does not save its state")
        one, other, damaged = (make_strategy(ORDINARY, workload, 3) for _ in range(3))
        told: list[tuple[Proposal, Outcome]] = []
        for _ in range(4):
            asked = one.ask(5)
            outcomes = [made_up_outcome(proposal) for proposal in asked]
            one.tell(outcomes)
            told += zip(asked, outcomes, strict=True)
        recorded = {
            proposal.id: Recorded(
                proposal.trace.to_json(), proposal.program_key, outcome.measurement
            )
            for proposal, outcome in told[1:]  # another run may have found the first differently
        }
        one.ask(2)
        whole = one.save()
        with one.beside(recorded):
            state = one.save()
        assert one.save() == whole
        with other.beside(recorded):
            other.load(state)
        assert other.save() == whole
        if state != whole:
            with pytest.raises(SchedlangError):
                damaged.load(state)

    def test_what_is_no_state_is_refused(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        if not self.saves:
            pytest.skip("it does not save its state")
        saved = json.loads(make_strategy(ORDINARY, workload, 0).save())
        others = ["", "[]", "{}", "null", "{", json.dumps({**saved, "search": "another"})]
        others.append(json.dumps({k: v for k, v in saved.items() if k in ("search", "version")}))
        for text in others:
            with pytest.raises(SchedlangError):
                make_strategy(ORDINARY, workload, 0).load(text)

    def test_the_order_of_outcomes_told_together_does_not_matter(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        """Measurers give them in the order in which they finish, which is chance."""
        one, other = (make_strategy(ORDINARY, workload, 3) for _ in range(2))
        for _ in range(3):
            asked, same = one.ask(6), other.ask(6)
            assert described(asked) == described(same)
            one.tell([made_up_outcome(proposal) for proposal in asked])
            other.tell([made_up_outcome(proposal) for proposal in reversed(same)])

    def test_what_it_reports_is_one_line(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(ORDINARY, workload, 0)
        for _ in range(3):
            assert isinstance(strategy.report, str) and "\n" not in strategy.report
            assert isinstance(strategy.screened, int) and strategy.screened >= 0
            assert all(seconds >= 0 for seconds in strategy.seconds.values())
            strategy.tell([made_up_outcome(proposal) for proposal in strategy.ask(6)])

    def test_a_fresh_process_gives_the_same_proposals(
        self,
        make_strategy: MakeStrategy,
        workload: Workload,
        request: pytest.FixtureRequest,
        tmp_path: Path,
    ) -> None:
        ours = described(drive(make_strategy(ORDINARY, workload, 3), rounds=self.rounds, n=5))
        check_in_fresh_process(ours, request, tmp_path)

    def test_another_seed_gives_other_proposals(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        if not self.seeded:
            pytest.skip("it draws nothing")
        one, other = (
            {p.trace for p in drive(make_strategy(ORDINARY, workload, seed), rounds=2, n=8)}
            for seed in (0, 1)
        )
        assert one != other

    def test_the_global_generators_are_left_alone(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        before = random.getstate(), json.dumps(np.random.get_state(), default=np.ndarray.tolist)
        drive(make_strategy(ORDINARY, workload, 0), rounds=2, n=4)
        after = random.getstate(), json.dumps(np.random.get_state(), default=np.ndarray.tolist)
        assert before == after

    # -- the end, and what goes wrong ------------------------------------------------------------

    def test_a_tiny_space_ends_with_a_reason(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(TINY, workload, 0)
        assert finish(strategy)
        reason = strategy.finished
        assert isinstance(reason, str) and reason and "\n" not in reason
        assert list(strategy.ask(5)) == []
        assert strategy.finished == reason

    def test_a_space_without_a_valid_program_ends_with_a_reason(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(HOPELESS, workload, 0)
        assert finish(strategy) == []
        assert strategy.finished and "\n" not in strategy.finished
        assert strategy.rejections

    def test_rejections_are_kept_with_their_reasons(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        strategy = make_strategy(FRAGILE, workload, 0)
        seen: list[Any] = []
        for _ in range(4):
            asked = strategy.ask(4)
            grown = list(strategy.rejections)
            strategy.tell([made_up_outcome(proposal) for proposal in asked])
            assert grown[: len(seen)] == seen
            seen = list(strategy.rejections)
            assert seen[: len(grown)] == grown
        for rejection in seen:
            assert rejection.reason and rejection.message and "\n" not in rejection.message
            assert rejection.where or rejection.reason == "duplicate"

    def test_a_mistake_in_a_module_is_shown(
        self, make_strategy: MakeStrategy, workload: Workload
    ) -> None:
        with pytest.raises(ZeroDivisionError, match="a mistake in the module"):
            make_strategy(BROKEN, workload, 0).ask(1)


# -- The present test again in a fresh process, where hashes of text differ -----------------------

RESULTS = "SCHEDLANG_RESULTS"
"""Set in the fresh process: the folder to which its tests write their results."""

# The folder with the results of a fresh process, for each group of tests that ran in one.
_Folders = dict[tuple[str, str, str], Path]
_FOLDERS = pytest.StashKey[_Folders]()


def check_in_fresh_process(
    result: Any,
    request: pytest.FixtureRequest,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Fail unless the present test computes the same result in a fresh process.

    ``result`` consists of JSON values. All tests of a file that have this one's name, of which only
    classes and parameters differ, share a fresh process; there this function only writes results.
    """
    name = f"{hashlib.sha256(request.node.nodeid.encode()).hexdigest()}.json"
    if RESULTS in os.environ:
        Path(os.environ[RESULTS], name).write_text(json.dumps(result))
        return
    test = getattr(request.node, "originalname", "") or request.node.name
    found = request.config.stash.setdefault(_FOLDERS, {})
    group = str(request.path), test, json.dumps(dict(environment or {}), sort_keys=True)
    said = ""
    if group not in found or not (found[group] / name).exists():
        found[group] = folder
        tests = [
            one.nodeid
            for one in request.session.items
            if one.path == request.path and getattr(one, "originalname", "") == test
        ]
        said = _run_in_fresh_process(
            request.config, tests or [request.node.nodeid], folder, environment
        )
    path = found[group] / name
    assert path.exists(), said
    assert json.loads(path.read_text()) == result


def _run_in_fresh_process(
    config: pytest.Config,
    tests: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None,
) -> str:
    """Run tests, which write their results to a folder; return what pytest prints."""
    command = [sys.executable, "-m", "pytest", *tests, f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    changed = {
        RESULTS: str(folder),
        "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *sys.path])),
    }
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=config.rootpath,
        env={**inherited, **changed, **(environment or {})},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
