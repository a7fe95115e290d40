"""Track which choices of a run remain after rollbacks."""

from __future__ import annotations


class StandingChoices:
    """The positions of a run's choices, except the choices that were rolled back.

    A module that does not apply is undone together with its choices, and the run continues as if it
    had never met them. A decider that records what was tried needs the position of the first
    undone choice.

    Attributes
    ----------
    positions: the position of each remaining choice, in order; the decider defines what a
        position counts.
    """

    def __init__(self) -> None:
        self.positions: list[int] = []

    def meet(self, position: int) -> None:
        """Note a choice that was met at ``position``."""
        self.positions.append(position)

    def roll_back(self, count: int) -> int | None:
        """Remove the last ``count`` choices; return the position of the first of them, if any."""
        if not count:
            return None
        first = self.positions[-count]
        del self.positions[-count:]
        return first
