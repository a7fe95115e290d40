"""Hosts beside each other: one that is not as fast as the others is set apart."""

from __future__ import annotations

import statistics
import warnings
from dataclasses import dataclass

# A rate differs from the others' if it is this factor from their median, and this many times what
# they differ from it themselves.
_FACTOR = 1.3
_SPREADS = 5.0
# Number of other hosts that it takes to judge one, and of its readings in a row: a machine may be
# disturbed for a moment.
_OTHERS = 3
_READINGS = 3


class HostWarning(UserWarning):
    """A host is set apart, as it is not as fast as the others, or sent a reply that is not stored;
    or all hosts are silent.
    """


@dataclass
class _Seen:
    """What is known of a host: its latest rate, and how many readings in a row were off."""

    rate: float = 0.0
    off: int = 0


class Judge:
    """What hosts say of themselves.

    Attributes
    ----------
    apart: hosts that get no more orders, with the reason.
    refused: hosts that have refused an order, with the reason.
    wrong: hosts that have sent a reply that is not stored, with what was wrong with the first one;
        under the empty name those of which no name could be read.
    """

    def __init__(self) -> None:
        self.apart: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.wrong: dict[str, str] = {}
        self._seen: dict[str, _Seen] = {}

    @property
    def names(self) -> list[str]:
        """The hosts that have carried out an order, in the order in which they were first met."""
        return list(self._seen)

    def number(self, name: str) -> int:
        """Return the number of a host, from 1."""
        return list(self._seen).index(name) + 1

    def see(self, name: str, rate: float) -> None:
        """Take in a reply of a host that is as fast as this, in operations a second."""
        seen = self._seen.setdefault(name, _Seen())
        if rate <= 0 or rate == seen.rate:
            return  # the same reading comes with several replies
        seen.rate = rate
        said = self._off(name)
        seen.off = seen.off + 1 if said else 0
        if not said:
            self.apart.pop(name, None)
        elif seen.off >= _READINGS and name not in self.apart:
            self.apart[name] = said
            warnings.warn(f"host {name} is set apart: {said}", HostWarning, stacklevel=2)

    def refuse(self, name: str, message: str, rate: float) -> None:
        """Take in that a host has refused an order; one that was set apart may be as others now."""
        if name in self.apart:
            self.see(name, rate)
        else:
            self.refused[name] = message

    def blame(self, name: str, message: str) -> None:
        """Take in that a host has sent a wrong reply; its first one is worth a warning."""
        if name not in self.wrong:
            self.wrong[name] = message
            sender = f"host {name}" if name else "a host"
            warnings.warn(
                f"a reply of {sender} is not stored: {message}; another host gets its order, where "
                "there is one",
                HostWarning,
                stacklevel=2,
            )

    def forgive(self) -> None:
        """Set nobody apart: there is nobody else."""
        for name in self.apart:
            self._seen[name].off = 0
        self.apart.clear()

    def _off(self, name: str) -> str:
        """Return in what a host differs from the others; empty where it does not."""
        rate = self._seen[name].rate
        others = [
            seen.rate
            for other, seen in self._seen.items()
            if other != name and seen.rate and other not in self.apart
        ]
        if len(others) < _OTHERS:
            return ""
        middle = statistics.median(others)
        spread = statistics.median(max(one / middle, middle / one) - 1.0 for one in others)
        if max(rate / middle, middle / rate) <= max(_FACTOR, 1.0 + _SPREADS * spread):
            return ""
        return (
            f"its rate is {rate / middle:.2f} of the median of {len(others)} others "
            f"({rate / 1e9:.1f} and {middle / 1e9:.1f} GFLOP/s)"
        )
