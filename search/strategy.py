"""The contract of a search: ask for candidates, tell their outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from schedlang.errors import SchedlangError
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Measurement
from schedlang.measurement.clock import Clock
from schedlang.search.cost_model import CostModel

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


@dataclass(frozen=True)
class Proposal:
    """A candidate that a strategy wants measured; its schedule is already applied.

    Attributes
    ----------
    program_key: structural key of the program. Computed here when it is not given.
    """

    id: int
    schedule: Schedule
    program_key: str = ""

    def __post_init__(self) -> None:
        if not self.program_key:
            object.__setattr__(self, "program_key", self.schedule.program_key)

    @property
    def trace(self) -> Trace:
        """How the program is made."""
        return self.schedule.trace


@dataclass(frozen=True)
class Outcome:
    """The measurement of a proposal, matched by the proposal's id; failures are told too."""

    id: int
    measurement: Measurement


class Recorded(NamedTuple):
    """A proposal that was measured, as a record has it: its trace as JSON, and its program's key.

    The measurement has the proposal's id.
    """

    trace_json: str
    program_key: str
    measurement: Measurement


NOTHING_RECORDED: Mapping[int, Recorded] = MappingProxyType({})


@dataclass(frozen=True)
class Rejection:
    """A trace that could not become a candidate, and why.

    Attributes
    ----------
    reason: a word to count by: ``decision``, ``instruction`` or ``duplicate``.
    where: what caused it: module, instruction or site, and block, such as
        ``tile: split at block C``.
    message: one line.
    module, instruction, block: ``where`` in parts, each empty where it is not known. The second is
        the site of a decision that was refused.
    """

    reason: str
    where: str
    message: str
    module: str = ""
    instruction: str = ""
    block: str = ""


Estimate: TypeAlias = "Callable[[TensorProgram], float]"
"""Returns a latency in seconds of a program that was not measured; infinite where none is known."""


class Strategy(ABC):
    """A search over the traces of one space on one workload.

    Outcomes come in any order and in any number at a time, while other proposals are pending.
    The same seed and the same outcomes give the same proposals in every process.
    ``schedlang.testing.strategy`` has the contract as a test suite. ``ProposingStrategy`` does what
    is the same in every search: a class that derives from it says only what to propose.

    All of ours keep their ``space`` and ``workload`` in attributes of these names. ``tune`` refuses
    a strategy that was made for others.

    Attributes
    ----------
    name: a short name; records have it.
    used_by_tune: whether a run of ``tune`` has used it; another run then refuses it.
    recorded: told proposals, by id, that ``save`` may leave out, as ``load`` finds them here too:
        those that the records of a run have. Empty except inside ``beside``.
    """

    name: str
    used_by_tune: bool = False
    recorded: Mapping[int, Recorded] = NOTHING_RECORDED

    @abstractmethod
    def ask(self, n: int) -> list[Proposal]:
        """Return at most ``n`` new proposals, with ids that grow from one to the next.

        Fewer, or none, when the strategy has no more to propose or waits for pending outcomes.
        """

    @abstractmethod
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from outcomes of earlier proposals, each told once.

        ValueError for an id that is not pending; the whole call is then ignored.
        """

    def suggest(self, traces: Sequence[Trace]) -> None:  # noqa: B027 - not every search can
        """Start from traces that were fast on this program or on a similar one.

        Called before the first ``ask``; where hosts search one program beside each other, between
        others too, with what was fast elsewhere. By default they are ignored. A trace that does not
        apply is refused like any other draw.
        """

    @property
    @abstractmethod
    def finished(self) -> str | None:
        """Why no proposal is left, in one line; ``None`` while there may be one."""

    @property
    @abstractmethod
    def rejections(self) -> Sequence[Rejection]:
        """Draws that could not be proposed, in order."""

    def save(self) -> str:
        """Return the whole state as JSON text, pending proposals and generators included.

        SchedlangError if the search does not offer it.
        """
        raise SchedlangError(f"the search {self.name!r} cannot save its state")

    def load(self, state: str) -> None:
        """Continue where ``save`` was called: the same outcomes then give the same proposals.

        For a fresh strategy that was made with the same arguments. SchedlangError for a state that
        is not one of this search, or if the search does not offer it.
        """
        raise SchedlangError(f"the search {self.name!r} cannot load a state")

    @contextmanager
    def beside(self, recorded: Mapping[int, Recorded]) -> Iterator[None]:
        """Let ``save`` leave out, and ``load`` take from here, what the records of a run have.

        A state that was saved so is loaded beside the same records.
        """
        self.recorded = recorded
        try:
            yield
        finally:
            del self.recorded

    @property
    def cost_model(self) -> CostModel | None:
        """A model that may be taught before the first ``ask``; ``None`` if there is none."""
        return None

    @property
    def settings(self) -> Mapping[str, object]:
        """Numbers and text that tell it from another search of the same name.

        A run is continued only by a search with the same settings.
        """
        return {}

    @property
    def report(self) -> str:
        """Return a one-line progress note, or an empty text."""
        return ""

    @property
    def screened(self) -> int:
        """Number of candidates so far that a model predicted, and that were not measured."""
        return 0

    @property
    def phase(self) -> str:
        """What the next proposals are for, in a word or two."""
        return "searching"

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time of the main parts of ``ask`` and ``tell``, by name."""
        return {}

    def use_estimate(self, estimate: Estimate) -> None:  # noqa: B027 - not every search has use
        """Rank programs by it before there are outcomes to learn from; by default nothing.

        Called before the first ``ask``, where the target has estimates.
        """

    def use_clock(self, clock: Clock) -> None:  # noqa: B027 - not every search reads the time
        """Count ``seconds`` by this clock, which is that of the session; by default nothing."""
