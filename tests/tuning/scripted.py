"""Measurers whose latencies a test writes down: nothing is built or run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlang.measurement import Candidate, Measurement, Status


class Scripted:
    """Candidates in the order of their proposals take ``latencies``, in turn.

    Parameters
    ----------
    latencies: in seconds; None for a candidate that crashes.
    reference: of the unscheduled program.
    again: latencies in the finals, by id (-1 is the unscheduled program); by default as before.
    complete: whether the unscheduled program was measured to the end.
    interrupted_at: id of the candidate at which the user presses Ctrl-C.

    Attributes
    ----------
    references: how often the unscheduled program was asked for.
    finalists: the ids of each call of ``remeasure``.
    """

    def __init__(
        self,
        latencies: Sequence[float | None],
        reference: float,
        again: dict[int, float | None] | None = None,
        *,
        complete: bool = True,
        interrupted_at: int | None = None,
    ) -> None:
        self.latencies = latencies
        self.reference_complete = complete
        self.references = 0
        self.finalists: list[list[int]] = []
        self._reference = reference
        self._interrupted_at = interrupted_at
        self._again = again or {}

    @property
    def reference_latency(self) -> float:
        self.references += 1
        return self._reference

    def _latency(self, number: int) -> float | None:
        return self._reference if number < 0 else self.latencies[number % len(self.latencies)]

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            if candidate.id == self._interrupted_at:
                raise KeyboardInterrupt
            yield measured(candidate.id, self._latency(candidate.id))

    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 5.0
    ) -> list[Measurement]:
        """The id of a candidate is its rank here: without ``again``, it takes what a first does."""
        self.finalists.append([candidate.id for candidate in candidates])
        ranked = sorted(one for one in self.latencies if one is not None)
        return [
            measured(one.id, self._again[one.id] if one.id in self._again else ranked[one.id])
            for one in candidates
        ]


def measured(number: int, latency: float | None) -> Measurement:
    """Eight samples that differ by less than 1%."""
    if latency is None:
        return Measurement(number, Status.CRASHED, message="it crashed")
    samples = tuple(latency * (1 + 0.001 * k) for k in range(8))
    return Measurement(number, Status.OK, samples, verified=True)
