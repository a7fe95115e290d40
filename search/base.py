"""What searches share: settings, draws, proposals, a generator, saved state, when to give up."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.errors import SchedlangError
from schedlang.instructions.choices import Decider
from schedlang.language.schedule import Schedule
from schedlang.measurement.clock import Clock, Stopwatch
from schedlang.search.enumerator import Completeness
from schedlang.search.proposals import Proposals, Told
from schedlang.search.state import dump_rng, dump_state, load_rng, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


def check_setting(fits: bool, name: str, value: object, wanted: str) -> None:
    """Raise a ValueError that names the setting, its value and what is wanted, unless it fits."""
    if not fits:
        raise ValueError(f"{name}={value!r}: give {wanted}")


GIVE_UP_AFTER = 200
"""Draws in a row without a new program after which a space counts as exhausted."""


ASK_AFTER = 16
"""Draws in a row without a new program after which a search asks whether it has all programs."""


class StrategyBase(Strategy):
    """Keeps proposals, outcomes and the generator of a search; a subclass gives ``ask``.

    Optional: ``learn`` from outcomes, and ``state`` and ``restore`` for what the subclass keeps
    besides. :class:`ProposingStrategy` also gives ``ask``.

    Parameters
    ----------
    space, workload: what to search.
    seed: of the generator.
    give_up_after: draws in a row without a new, valid program after which the search is finished;
        in a space of at most 64 ways, it is finished once it proposed all programs.

    Attributes
    ----------
    proposals: what was proposed, told and refused.
    rng: the generator; everything random should come from it, as it is saved and loaded.
    failed_draws: draws in a row, up to now, that gave no new program.
    most_asked: the most that was asked for at once, so far, where the search depends on it.
    stopwatch: adds up ``seconds``.
    """

    def __init__(
        self,
        space: Space,
        workload: Workload,
        seed: int = 0,
        *,
        give_up_after: int = GIVE_UP_AFTER,
    ) -> None:
        check_setting(give_up_after >= 1, "give_up_after", give_up_after, "1 or more draws")
        self.space = space
        self.workload = workload
        self.proposals = Proposals(workload)
        self.rng = random.Random(seed)
        self.give_up_after = give_up_after
        self.failed_draws = 0
        self.most_asked = 0
        self.stopwatch = Stopwatch()
        self._completeness = Completeness(self._run_key)

    def _run_key(self, decider: Decider) -> str:
        return self.space.run(self.workload, decider).program_key

    # -- what a subclass may give ----------------------------------------------------------------

    def learn(self, told: Sequence[Told]) -> None:  # noqa: B027 - optional
        """Learn from proposals that were measured, sorted by id; by default nothing."""

    def state(self) -> Mapping[str, Any]:
        """Return what to save besides proposals and generator, as JSON values."""
        return {}

    def restore(self, stored: Any) -> None:  # noqa: B027 - optional
        """Take back what ``state`` returned; proposals and generator are loaded already."""

    # -- what it can use -------------------------------------------------------------------------

    def draw(self) -> Schedule | None:
        """Draw a schedule from the prior; a draw that gives no program is a rejection, and None.

        Takes one number from ``rng``, whatever the draw gives.
        """
        seed = self.rng.getrandbits(63)
        return self.proposals.attempt(lambda: self.space.sample(self.workload, seed=seed))

    def ask_one_by_one(self, n: int, propose: Callable[[], Proposal | None]) -> list[Proposal]:
        """Call ``propose`` until it gave ``n`` proposals or the search is finished."""
        made: list[Proposal] = []
        while len(made) < n and self.finished is None:
            self.note(propose(), made)
        return made

    def note(self, proposal: Proposal | None, made: list[Proposal]) -> None:
        """Append a proposal to ``made``, or count the draw as failed if there is none."""
        if proposal is None:
            self.failed_draws += 1
        else:
            self.failed_draws = 0
            made.append(proposal)

    @property
    def used_up(self) -> bool:
        """Whether a small space has no program left that was not proposed.

        It is asked after 16 draws in a row that gave nothing new, and of at most 64 ways.
        """
        if self.failed_draws < ASK_AFTER or not self.proposals.count:
            return False
        return self._completeness.reached(lambda key: self.proposals.id_of(key) is not None)

    @property
    def gave_up(self) -> bool:
        """Whether no draw will give a new program: many in a row did not, or none is left."""
        return self._all_failed >= self.give_up_after or self.used_up

    @property
    def _all_failed(self) -> int:
        """Draws in a row that failed, those that violated a constraint included."""
        return self.failed_draws + self.proposals.violations

    # -- what another search explored ------------------------------------------------------------

    def adopt(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """Propose a program that another search made; ``None`` if it was proposed before.

        Its outcome is told here, as that of any proposal. ``program_key`` is its structural key,
        where the caller has computed it already.
        """
        return self.proposals.admit(schedule, program_key)

    # -- the contract ----------------------------------------------------------------------------

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        self.learn(self.proposals.settle(outcomes))

    @property
    def finished(self) -> str | None:
        return self.exhausted if self.gave_up else None

    @property
    def exhausted(self) -> str:
        """Why the search ends where it ``gave_up``, in one line."""
        if self.used_up:
            count = self.proposals.count
            return f"all {count} programs proposed" if count > 1 else "the only program proposed"
        if self.proposals.count:
            return (
                f"no new program in {self._all_failed} draws; "
                f"{self.proposals.count} found before them"
            )
        refused = self.rejections
        last = refused[-1].message if refused else "nothing was drawn"
        return f"no valid program in {self._all_failed} draws; the last one: {last}"

    @property
    def seconds(self) -> Mapping[str, float]:
        return self.stopwatch.seconds

    def use_clock(self, clock: Clock) -> None:
        self.stopwatch.clock = clock

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self.proposals.rejections

    def save(self) -> str:
        if not self.space.restorable:
            raise SchedlangError(
                f"the search {self.name!r} cannot save its state: a trace that is stored and read "
                f"again is none of {self.space.name!r}"
            )
        kept = {
            "proposals": self.proposals.save(self.recorded),
            "rng": dump_rng(self.rng),
            "failed_draws": self._all_failed,
            "state": self.state(),
        }
        return dump_state(self.name, kept)

    def load(self, state: str) -> None:
        load_state(self.name, state, self._load)

    def _load(self, kept: Any) -> None:
        self.proposals.load(kept["proposals"], self.recorded)
        load_rng(self.rng, kept["rng"])
        self.failed_draws = int(kept["failed_draws"])
        self.restore(kept["state"])


class ProposingStrategy(StrategyBase):
    """A search that proposes one schedule at a time; a subclass implements ``propose``.

    Each program is proposed once. The search is finished after ``give_up_after`` calls of
    ``propose`` in a row that gave no new program.
    """

    @abstractmethod
    def propose(self) -> Schedule | None:
        """Make the next schedule to propose, or ``None`` if there is none this time.

        An InvalidTrace or InstructionError becomes a rejection; other errors are let through.
        """

    def ask(self, n: int) -> list[Proposal]:
        return self.ask_one_by_one(n, self._propose)

    def _propose(self) -> Proposal | None:
        schedule = self.proposals.attempt(self.propose)
        if schedule is not None and not isinstance(schedule, Schedule):
            raise TypeError(
                f"search: {type(self).__name__}.propose returned {type(schedule).__name__}; return "
                "a Schedule, such as self.draw() or trace.replay() gives, or None"
            )
        return None if schedule is None else self.proposals.admit(schedule)
