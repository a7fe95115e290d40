"""The proposals of a search: which programs it proposed, and what it was told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import ConstraintError, InstructionError, InvalidTrace
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Measurement
from schedlang.printed import first_line
from schedlang.search.state import dump_measurement, load_measurement
from schedlang.search.strategy import (
    NOTHING_RECORDED,
    Outcome,
    Proposal,
    Recorded,
    Rejection,
)
from schedlang.workloads.workload import Workload


@dataclass(frozen=True)
class Told:
    """A proposal that was measured."""

    id: int
    trace: Trace
    measurement: Measurement

    @property
    def latency(self) -> float | None:
        """Median latency in seconds; ``None`` if it failed."""
        return self.measurement.latency if self.measurement.ok else None

    @property
    def trust(self) -> float:
        """How much its latency says, up to 1, where other work left no doubt about it."""
        return self.measurement.trust


class Proposals:
    """Gives proposals their ids, proposes no program twice, and matches outcomes by id.

    Attributes
    ----------
    workload: the program before scheduling.
    rejections: what was refused, in order.
    told: every proposal that was measured, in the order in which its outcome was told.
    violations: draws since the last new program that violated a constraint and were made again.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.rejections: list[Rejection] = []
        self.told: list[Told] = []
        self.violations = 0
        self._pending: dict[int, Trace] = {}
        self._told: dict[int, Told] = {}
        self._ids: dict[str, int] = {}
        self._next_id = 0

    # -- proposing -------------------------------------------------------------------------------

    def attempt(self, make: Callable[[], Schedule | None]) -> Schedule | None:
        """Return what ``make`` returns; its InvalidTrace or InstructionError is refused."""
        try:
            return make()
        except (InvalidTrace, InstructionError) as error:
            self.refuse(error)
            return None

    def refuse(self, error: InvalidTrace | InstructionError) -> None:
        """Note a trace that could not become a program."""
        reason = error.reason if isinstance(error, InvalidTrace) else "instruction"
        if isinstance(error, ConstraintError):
            self.violations += error.draws - 1
        message = first_line(error)
        what = error.instruction if isinstance(error, InstructionError) else error.site
        self.rejections.append(
            Rejection(reason, _culprit(error), message, error.module, what, error.block)
        )

    def admit(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """Propose a program; ``None``, and a rejection, if it was proposed before.

        ``program_key`` is its structural key, where the caller has computed it already.
        """
        proposal = Proposal(self._next_id, schedule, program_key)
        known = self._ids.setdefault(proposal.program_key, proposal.id)
        if known != proposal.id:
            self.rejections.append(
                Rejection("duplicate", "", f"the same program as proposal {known}")
            )
            return None
        self._next_id += 1
        self.violations = 0
        self._pending[proposal.id] = proposal.trace
        return proposal

    def id_of(self, program_key: str) -> int | None:
        """Return the id of the proposal with this structural key, or ``None``."""
        return self._ids.get(program_key)

    @property
    def count(self) -> int:
        """How many programs were proposed."""
        return self._next_id

    # -- outcomes --------------------------------------------------------------------------------

    @property
    def pending(self) -> Mapping[int, Trace]:
        """Proposals whose outcome was not told yet, by id."""
        return self._pending

    def told_of(self, id: int) -> Told | None:
        """Return the proposal with this id and its outcome; ``None`` before it was told.

        A search that keeps ids, as its ``state`` must, finds their traces and latencies here.
        """
        return self._told.get(id)

    def fastest(self) -> list[Told]:
        """Return the proposals that work, the fastest first, the earliest of equals before."""
        working = [one for one in self.told if one.measurement.ok]
        return sorted(working, key=lambda one: (one.measurement.latency, one.id))

    @property
    def best(self) -> Told | None:
        """The fastest proposal so far, the earliest of equals; ``None`` before one works."""
        return next(iter(self.fastest()), None)

    def settle(self, outcomes: Sequence[Outcome]) -> list[Told]:
        """Match outcomes with what is pending; return them sorted by id.

        ValueError for an id that is not pending, or comes twice; nothing is settled then.
        """
        pending = dict(self._pending)
        told: list[Told] = []
        for outcome in outcomes:
            if outcome.id not in pending:
                raise ValueError(
                    f"no proposal {outcome.id} is pending: it was told before, or never made"
                )
            told.append(Told(outcome.id, pending.pop(outcome.id), outcome.measurement))
        told.sort(key=lambda one: one.id)
        self._pending = pending
        self._note(told)
        return told

    def _note(self, told: Iterable[Told]) -> None:
        for one in told:
            self.told.append(one)
            self._told[one.id] = one

    # -- the state -------------------------------------------------------------------------------

    def save(self, recorded: Mapping[int, Recorded] = NOTHING_RECORDED) -> dict[str, Any]:
        """Return everything in it as JSON values; only the ids of what was told and is recorded."""
        known = self._told.keys() & recorded.keys()
        return {
            "next_id": self._next_id,
            "ids": {key: number for key, number in self._ids.items() if number not in known},
            "pending": {str(number): trace.to_json() for number, trace in self._pending.items()},
            "told": [
                one.id
                if one.id in known
                else [one.id, one.trace.to_json(), dump_measurement(one.measurement)]
                for one in self.told
            ],
            "rejections": [
                [r.reason, r.where, r.message, r.module, r.instruction, r.block]
                for r in self.rejections
            ],
        }

    def load(
        self, stored: Mapping[str, Any], recorded: Mapping[int, Recorded] = NOTHING_RECORDED
    ) -> None:
        """Continue with what ``save`` returned; KeyError where one is recorded no more."""
        self._next_id = int(stored["next_id"])
        self._ids = {str(key): int(number) for key, number in stored["ids"].items()}
        self._pending = {
            int(number): Trace.from_json(text, self.workload)
            for number, text in stored["pending"].items()
        }
        self.told, self._told = [], {}
        for entry in stored["told"]:
            if isinstance(entry, list):
                number, text, measured = entry
                measurement = load_measurement(measured)
            else:
                number, (text, program_key, measurement) = entry, recorded[entry]
                self._ids[program_key] = number
            trace = Trace.from_json(text, self.workload)
            self._note([Told(int(number), trace, measurement)])
        self._ids = dict(sorted(self._ids.items(), key=lambda one: one[1]))
        self.rejections = [Rejection(*map(str, rejection)) for rejection in stored["rejections"]]


def _culprit(error: InvalidTrace | InstructionError) -> str:
    """Say which module did what, and where: ``tile: split at block C``."""
    if isinstance(error, InstructionError):
        what = error.instruction
    elif error.module and error.reason == "decision":
        what = f"decision of {error.site!r}"
    else:
        what = error.site
    module = f"{error.module}: " if error.module else ""
    return f"{module}{what}" + (f" at block {error.block}" if error.block else "")
