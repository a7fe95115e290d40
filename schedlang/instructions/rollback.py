"""Rolled back choices: which of the choices that a run met still stand."""

from __future__ import annotations


class StandingChoices:
    """Where a run met its choices, without those that were rolled back.

    A module that does not apply is undone, with the choices it had made: the program goes on as if
    it had never met them. A decider that must not forget what was tried there needs to know where
    the undone part began.

    Attributes
    ----------
    positions: where each choice that stands was met, in order; what a position counts is the
        decider's own.
    """

    def __init__(self) -> None:
        self.positions: list[int] = []

    def meet(self, position: int) -> None:
        """Note a choice that was met at ``position``."""
        self.positions.append(position)

    def roll_back(self, count: int) -> int | None:
        """Forget the last ``count`` choices; return where the first of them was met, if any."""
        if not count:
            return None
        first = self.positions[-count]
        del self.positions[-count:]
        return first
