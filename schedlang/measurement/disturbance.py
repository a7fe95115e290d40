"""What other work on the machine did to samples of a latency.

A thread that is ready to run and has no core waits. The system tells for how long, so that each
sample lies between two bounds: the program alone takes no longer than the sample, and no shorter
than the sample without all that its threads waited, since a thread that waits delays the others at
most by as long. A sample whose bounds are near each other is *undisturbed*.

Where work whose time is known takes some times as long as at its best, programs are taken to do so
too: that gives the same two bounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from schedlang.codec import Stored

ENOUGH = 3
"""Number of undisturbed samples that a latency needs; with fewer it is uncertain."""

# A sample is disturbed where threads waited for a larger part of it. On an idle machine they wait
# for some thousandths of it.
_PART = 0.02
# A latency counts at least so much, however little is known of it.
_LEAST_TRUST = 0.05

# What the host took of less than this number of cores is not told.
_TOLD_STOLEN = 0.05
# A machine is called busy where a larger part of the samples is disturbed.
_BUSY = 0.1


class Sample(NamedTuple):
    """One sample of a program, in seconds per call.

    Attributes
    ----------
    seconds: how long a call took.
    waited: how long its threads waited for a core meanwhile, all together, or how much longer it
        took as the machine was slower; None if nobody knows.
    """

    seconds: float
    waited: float | None = None

    @property
    def disturbed(self) -> bool | None:
        """Whether other work made it longer; None if that is unknown."""
        return None if self.waited is None else self.waited > _PART * self.seconds

    @property
    def least(self) -> float:
        """What a call takes at least when nothing else runs."""
        return self.seconds if self.waited is None else max(self.seconds - self.waited, 0.0)

    @property
    def fastest(self) -> float:
        """The same as ``seconds``."""
        return self.seconds

    def judged_quiet(self) -> Self:
        """Return it as undisturbed, unless it is known how long its threads waited."""
        return self._replace(waited=0.0) if self.waited is None else self

    def slowed(self, factor: float) -> Self:
        """Return it as one that took at most ``factor`` times as long because of other work."""
        return self._replace(waited=max(self.waited or 0.0, self.seconds * (1 - 1 / factor)))

    def after(self, discarded: Sequence[Self]) -> Self:
        """Return it: a single sample keeps nothing of those that it replaces."""
        return self


@Stored(row=True)
@dataclass(frozen=True, slots=True)
class Disturbance:
    """How many samples of a program were disturbed, and what is known of its latency in spite.

    Attributes
    ----------
    undisturbed, disturbed: numbers of samples that were taken and judged.
    low, high: bounds of the latency of the program alone, in seconds.

    Raises ``ValueError`` for negative numbers, and for bounds that are none.
    """

    undisturbed: int
    disturbed: int
    low: float
    high: float

    def __post_init__(self) -> None:
        if min(self.undisturbed, self.disturbed) < 0 or not 0 <= self.low <= self.high:
            raise ValueError(f"{self!r}: give numbers from 0 on, and 0 <= low <= high")

    @property
    def settled(self) -> bool:
        """Whether none was disturbed, or enough were not: the others do not count then."""
        return self.disturbed == 0 or self.undisturbed >= ENOUGH

    @property
    def trust(self) -> float:
        """How much the latency says: 1 where it is settled, else its lower bound over its upper.

        It is the weight of a program in what a model learns.
        """
        if self.settled:
            return 1.0
        return max(self.low / self.high, _LEAST_TRUST) if self.high else _LEAST_TRUST

    @property
    def share(self) -> float:
        """Part of the samples that were disturbed; 0 without any."""
        return self.disturbed / max(self.undisturbed + self.disturbed, 1)

    def slowed(self, factor: float) -> Disturbance:
        """Return what it is where other work made all samples up to ``factor`` times as long."""
        return Disturbance(0, self.undisturbed + self.disturbed, self.low / factor, self.high)


@dataclass(frozen=True, slots=True)
class CoreUse:
    """What other programs used of the cores, on average over some time.

    Attributes
    ----------
    seconds: the time.
    cores: number of cores that this process may use.
    others: number of them that other programs used.
    stolen: number of them that the host of a virtual machine used for others.

    Raises ``ValueError`` for numbers that cannot be.
    """

    seconds: float
    cores: int
    others: float
    stolen: float = 0.0

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.cores > 0 and self.others >= 0 and self.stolen >= 0):
            raise ValueError(f"{self!r}: give times and cores above 0, and uses from 0 on")

    def __str__(self) -> str:
        plural = "" if self.cores == 1 else "s"
        text = f"others used {self.others:.1f} of {self.cores} core{plural}"
        if self.stolen >= _TOLD_STOLEN:
            text += f", and the host took {self.stolen:.1f}"
        return text

    @staticmethod
    def from_numbers(numbers: Sequence[float]) -> CoreUse | None:
        """Read what was stored; None for nothing, TypeError or ValueError for what says nothing."""
        if not numbers:
            return None
        seconds, cores, others, stolen = numbers
        return CoreUse(seconds, int(cores), others, stolen)


@dataclass(frozen=True, slots=True)
class RunDisturbance:
    """What other work did to the measurements of a run.

    Attributes
    ----------
    samples: number of samples that were judged; disturbed: how many of them were disturbed.
    repeated: number of disturbed samples in whose place undisturbed ones were taken.
    latencies: number of latencies that these give; uncertain: how many of them are not settled.
    core_use: what other programs used of the cores meanwhile; None where that is unknown.
    """

    samples: int = 0
    disturbed: int = 0
    repeated: int = 0
    latencies: int = 0
    uncertain: int = 0
    core_use: CoreUse | None = None

    @classmethod
    def of(
        cls, found: Iterable[Disturbance | None], core_use: CoreUse | None = None
    ) -> RunDisturbance:
        """Add up what is known of single measurements."""
        total = cls(core_use=core_use)
        for one in found:
            total = total.plus(one)
        return total

    def plus(self, one: Disturbance | None) -> RunDisturbance:
        """Return what it is with one more measurement."""
        if one is None:
            return self
        return RunDisturbance(
            self.samples + one.undisturbed + one.disturbed,
            self.disturbed + one.disturbed,
            self.repeated + (one.disturbed if one.settled else 0),
            self.latencies + 1,
            self.uncertain + (not one.settled),
            self.core_use,
        )

    @property
    def share(self) -> float:
        """Part of the samples that were disturbed; NaN where nothing is known."""
        return self.disturbed / self.samples if self.samples else math.nan

    @property
    def busy(self) -> bool:
        """Whether it is worth a word: an idle machine disturbs a few samples, too."""
        return self.share > _BUSY

    def __str__(self) -> str:
        if not self.samples:
            return "it is not known what other work did"
        text = f"{self.share:.0%} of {self.samples:,} samples disturbed by other work"
        if self.repeated:
            text += f", {self.repeated:,} repeated"
        if self.uncertain:
            text += f"; {self.uncertain} of {self.latencies} latencies are uncertain"
        return text if self.core_use is None else f"{text}; {self.core_use}"


def undisturbed(samples: Iterable[Sample]) -> list[float]:
    """Return the samples that nothing disturbed, as far as that is known, in seconds."""
    return [sample.seconds for sample in samples if not sample.disturbed]


def counting(samples: Sequence[Sample], fewest: int = 1) -> tuple[float, ...]:
    """Return the samples that tell the latency, in seconds: those that nothing disturbed.

    Where these are fewer than ``fewest``, as many of the fastest: other work never makes a program
    faster.
    """
    quiet = tuple(undisturbed(samples))
    if len(quiet) >= min(fewest, len(samples)):
        return quiet
    return tuple(sorted(sample.seconds for sample in samples)[:fewest])


def disturbance_of(samples: Sequence[Sample]) -> Disturbance | None:
    """Return how far samples were disturbed; None where that is unknown of all of them.

    Impossible times are left out.
    """
    judged = [one for one in samples if one.waited is not None and 0 < one.seconds < math.inf]
    if not judged:
        return None
    quiet = undisturbed(judged)
    if len(quiet) >= min(ENOUGH, len(judged)):
        low, high = min(quiet), max(quiet)
    else:
        high = min(sample.seconds for sample in judged)
        # Caches and clocks make single samples longer, and their bounds with them.
        low = min(statistics.median(sample.least for sample in judged), high)
    return Disturbance(len(quiet), len(judged) - len(quiet), low, high)
