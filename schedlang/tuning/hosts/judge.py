"""Hosts beside each other: one that is not as fast as the others is set apart."""

from __future__ import annotations

import statistics
from typing import Any

# A rate differs from the others' if it is this factor from their median, and this many times what
# they differ from it themselves.
_FACTOR = 1.3
_SPREADS = 5.0
# Number of other hosts that it takes to judge one.
_OTHERS = 3


class Judge:
    """What hosts say of themselves.

    Attributes
    ----------
    apart: hosts that get no more orders, with the reason.
    refused: hosts that have refused an order, with the reason.
    """

    def __init__(self) -> None:
        self.apart: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._rates: dict[str, float] = {}

    @property
    def names(self) -> list[str]:
        """The hosts that have carried out an order, in the order in which they were first met."""
        return list(self._rates)

    def number(self, name: str) -> int:
        """Return the number of a host, from 1."""
        return list(self._rates).index(name) + 1

    def see(self, name: str, rate: Any) -> None:
        """Take in how fast a host is, in operations a second."""
        self._rates[name] = float(rate) if isinstance(rate, int | float) and rate > 0 else 0.0
        self._judge(name)

    def _judge(self, name: str) -> None:
        rate = self._rates[name]
        others = [
            one
            for other, one in self._rates.items()
            if other != name and one and other not in self.apart
        ]
        if not rate or len(others) < _OTHERS:
            return
        middle = statistics.median(others)
        spread = statistics.median(max(one / middle, middle / one) - 1.0 for one in others)
        off = max(rate / middle, middle / rate)
        if off > max(_FACTOR, 1.0 + _SPREADS * spread):
            self.apart[name] = (
                f"its rate is {rate / middle:.2f} of the median of {len(others)} others "
                f"({rate / 1e9:.1f} and {middle / 1e9:.1f} GFLOP/s)"
            )
        else:
            self.apart.pop(name, None)
