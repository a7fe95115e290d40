"""What every search has to keep: which programs it proposed, and what it was told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Measurement
from schedlang.search.state import dump_measurement, load_measurement
from schedlang.search.strategy import Outcome, Proposal, Rejection
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload


@dataclass(frozen=True)
class Told:
    """A proposal that was measured."""

    id: int
    trace: Trace
    measurement: Measurement

    @property
    def latency(self) -> float | None:
        """Median latency in seconds; None when it failed."""
        return self.measurement.latency if self.measurement.ok else None


class Ledger:
    """Gives proposals their ids, proposes no program twice, and matches outcomes by id.

    Attributes
    ----------
    rejections: what was refused, in order.
    told: every proposal that was measured, in the order in which its outcome was told.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.rejections: list[Rejection] = []
        self.told: list[Told] = []
        self._pending: dict[int, Trace] = {}
        self._seen: dict[str, int] = {}
        self._next_id = 0

    def admit(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """A proposal of this program; None, and a rejection, if it was proposed before.

        ``program_key`` is its structural key, where the caller has computed it already.
        """
        key = program_key or structural_key(schedule.mod)
        if key in self._seen:
            message = f"the same program as proposal {self._seen[key]}"
            self.rejections.append(Rejection("duplicate", "", message))
            return None
        proposal = Proposal(self._next_id, schedule, key)
        self._next_id += 1
        self._seen[key] = proposal.id
        self._pending[proposal.id] = proposal.trace
        return proposal

    def knows(self, key: str) -> bool:
        """Whether the program with this structural key was proposed."""
        return key in self._seen

    def id_of(self, key: str) -> int | None:
        """Which proposal has this structural key."""
        return self._seen.get(key)

    def refuse(self, error: InvalidTrace | InstructionError) -> None:
        """Note a trace that could not become a program."""
        message = str(error).splitlines()[0]
        if isinstance(error, InvalidTrace):
            self.rejections.append(Rejection(error.reason, error.site, message))
        else:
            where = "/".join(filter(None, (error.module, error.instruction)))
            self.rejections.append(Rejection("instruction", where, message))

    def settle(self, outcomes: Sequence[Outcome]) -> list[Told]:
        """Match outcomes with what is pending; sorted by id, as they come in any order.

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
        self.told += told
        return told

    @property
    def pending(self) -> Mapping[int, Trace]:
        """Proposals whose outcome was not told yet, by id."""
        return self._pending

    @property
    def proposed(self) -> int:
        """How many programs were proposed."""
        return self._next_id

    def save(self) -> dict[str, Any]:
        """Everything in it as JSON values."""
        return {
            "next_id": self._next_id,
            "seen": self._seen,
            "pending": {str(number): trace.to_json() for number, trace in self._pending.items()},
            "told": [
                [one.id, one.trace.to_json(), dump_measurement(one.measurement)]
                for one in self.told
            ],
            "rejections": [[r.reason, r.where, r.message] for r in self.rejections],
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue with what ``save`` gave."""
        self._next_id = int(stored["next_id"])
        self._seen = {str(key): int(number) for key, number in stored["seen"].items()}
        self._pending = {
            int(number): Trace.from_json(text, self.workload)
            for number, text in stored["pending"].items()
        }
        self.told = [
            Told(int(number), Trace.from_json(text, self.workload), load_measurement(measured))
            for number, text, measured in stored["told"]
        ]
        self.rejections = [Rejection(*map(str, rejection)) for rejection in stored["rejections"]]
