"""What searches share: settings, draws, proposals, a generator, saved state, when to give up."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.distributions.base import Decision
from schedlang.errors import InstructionError, InvalidTrace, SchedlangError
from schedlang.instructions.choices import Decider, StandingChoices
from schedlang.language.schedule import Schedule
from schedlang.measurement.clock import Clock, Stopwatch
from schedlang.search.proposals import Proposals, Told
from schedlang.search.state import dump_rng, dump_state, load_rng, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

# -- Run a space in all ways, in order: one run for each sequence of decisions --------------------

# Evenly spaced values are taken from the first values of a support, at most this many.
_REACH = 100_000
MOST_WAYS = 64
"""Ways through a space up to which a search asks whether it has proposed all programs."""


@dataclass
class OpenSite:
    """A site that the present run has met.

    Attributes
    ----------
    value: of the present run; ``position`` is its number among the values of the site.
    rest: the values that follow.
    rejoined: whether a run has seen what follows when the choices from here on are rolled back.
    """

    value: Decision
    rest: Iterator[Decision]
    position: int = 0
    rejoined: bool = False


class Enumerator:
    """A decider that takes the next sequence of decisions at each run; the last site changes first.

    A site's support may depend on earlier decisions, so it is opened when the program meets it.
    The program goes on alike after choices that are rolled back together, so that part is run once.

    Parameters
    ----------
    points: maximum number of values of each draw, evenly spaced in its support; ``None`` takes all.
    """

    def __init__(self, points: int | None) -> None:
        self._points = points
        self._sites: list[OpenSite] = []
        self._changed = -1
        self._met = 0
        self._repeated: int | None = None
        self._standing = StandingChoices()
        self._stored: list[tuple[int, bool]] = []

    # -- the decider -----------------------------------------------------------------------------

    def decide(self, site: str, distribution: Distribution) -> Any:
        return self._take(distribution, self._points)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        self._standing.meet(self._met)
        number = self._take(distribution, None)
        assert isinstance(number, int)
        return number

    def undone(self, count: int) -> None:
        """Note whether what follows was run before."""
        first = self._standing.roll_back(count)
        if first is None:
            return
        site = self._sites[first]
        if site.rejoined and first <= self._changed < self._met and self._repeated is None:
            self._repeated = self._met
        site.rejoined = True

    def _take(self, distribution: Distribution, points: int | None) -> Decision:
        if self._met == len(self._sites):
            values = spaced(distribution, points)
            at = len(self._sites)
            position = self._stored[at][0] if at < len(self._stored) else 0
            value = next(islice(values, position, None))
            self._sites.append(OpenSite(value, values, position))
        value = self._sites[self._met].value
        self._met += 1
        return value

    # -- runs ------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Go on to the next sequence after a run; ``False`` when there is none."""
        if self._repeated is not None:
            del self._sites[self._repeated :]
        while self._sites:
            last = self._sites[-1]
            value = next(last.rest, None)
            if value is not None:
                last.value = value
                last.position += 1
                self._begin(len(self._sites) - 1)
                return True
            self._sites.pop()
        return False

    def _begin(self, changed: int) -> None:
        self._changed = changed
        self._met = 0
        self._repeated = None
        self._standing = StandingChoices()

    def save(self) -> list[Any]:
        """Return where each site stands before a run, as JSON values."""
        return [[site.position, site.rejoined] for site in self._sites]

    def load(self, stored: Sequence[Any], run: Callable[[], object]) -> None:
        """Continue with what ``save`` returned; ``run`` runs the program, to open the sites."""
        self._stored = [(int(position), bool(rejoined)) for position, rejoined in stored]
        run()
        del self._sites[len(stored) :]
        for site, (_, rejoined) in zip(self._sites, self._stored, strict=True):
            site.rejoined = rejoined
        self._stored = []
        self._begin(len(stored) - 1)


def spaced(distribution: Distribution, points: int | None) -> Iterator[Decision]:
    """Yield at most ``points`` values of a support, in order, evenly spaced from first to last.

    Of a support with more than 100,000 values, the first 100,000 count. ``None`` gives all.
    """
    if points is None:
        return iter(distribution.support())
    size = min(distribution.size(), _REACH)
    if size <= points:
        return islice(distribution.support(), size)
    step = max(points - 1, 1)
    numbers = {k * (size - 1) // step for k in range(points)}
    last = max(numbers) + 1
    values = enumerate(islice(distribution.support(), last))
    return (value for number, value in values if number in numbers)


class Completeness:
    """Whether all programs of a space are known: it runs the space in order, at most 64 times.

    It stops at the first program that is not known, and goes on from there once that one is, so
    that asking again costs little.

    Parameters
    ----------
    run: runs the program of the space with a decider, and returns its structural key.
    """

    def __init__(self, run: Callable[[Enumerator], str]) -> None:
        self._run = run
        self._enumerator = Enumerator(None)
        self._left = MOST_WAYS
        self._key: str | None = None
        self._ended = False

    def reached(self, known: Callable[[str], bool]) -> bool:
        """Return whether each program of the space is ``known`` by its structural key."""
        while not self._ended and self._left:
            if self._key is None:
                with suppress(InvalidTrace, InstructionError):  # no program
                    self._key = self._run(self._enumerator)
            if self._key is not None and not known(self._key):
                return False
            self._key = None
            self._left -= 1
            self._ended = not self._enumerator.advance()
        return self._ended


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
