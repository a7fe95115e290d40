"""What the winner of a run is near to: the machine's peak, the ends of its decisions' ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from schedlang.distributions import Distribution, Permutation, Subset
from schedlang.language.schedule import Trace
from schedlang.targets import Target
from schedlang.targets.roofline import bytes_of, peak_of
from schedlang.tuning.explaining.table import Table
from schedlang.tuning.result import TuneResult

# Supports of at most this size are listed to find the largest number in them.
_LARGEST_SUPPORT = 4096
# With fewer values tried, the largest of them says nothing.
_FEWEST_VALUES = 3


def limits_of(result: TuneResult, target: Target, table: Table) -> Iterator[str]:
    """Yield sentences."""
    best, workload = result.best, result.workload
    peak = peak_of(workload, target)
    if 0 < workload.flops and math.isfinite(peak):
        rate = workload.flops / best.latency
        yield (
            f"it computes {rate / 1e9:.4g} GFLOPS, {rate / peak:.0%} of the target's "
            f"{peak / 1e9:.4g}, an upper bound that programs do not reach: less than "
            f"{max(peak / rate, 1.0):.1f}x is left to gain"
        )
    memory = target.memory_bytes_per_second
    moved = bytes_of(workload) / best.latency
    if math.isfinite(memory):
        yield (
            f"its arguments pass at {moved / 1e9:.4g} GB/s, {moved / memory:.0%} of the rate of "
            f"the memory, {memory / 1e9:.4g} GB/s"
        )
    elif not workload.flops:
        yield f"its arguments pass at {moved / 1e9:.4g} GB/s; the memory's rate is not known"
    yield from _ends(best.trace, table)
    if result.rejected:
        [(reason, count)] = result.rejected.most_common(1)
        where = f", mostly by {result.culprits[0][0]}" if result.culprits else ""
        yield f"of what failed or was rejected, most ({count}) was for: {reason}{where}"


def _ends(trace: Trace, table: Table) -> Iterator[str]:
    """Name decisions that are the largest or smallest number tried."""
    for site, distribution in trace.distributions.items():
        decision = trace.decisions[site]
        if not _is_number(distribution):
            continue
        numbers = decision if isinstance(decision, tuple) else (decision,)
        column = [value for value in table.column(site)[1] if isinstance(value, type(decision))]
        for place, number in enumerate(numbers):
            tried = {_at(value, place) for value in column} - {None}
            if len(tried) < _FEWEST_VALUES or len(numbers) > 1 and place == 0:
                continue
            which = site if len(numbers) == 1 else f"{site}[{place}]"
            for word, end in (("largest", max), ("smallest", min)):
                if number == end(tried):
                    yield f"{which} = {number} is the {word} of {len(tried)} numbers tried" + (
                        _beyond(distribution, place, number, end)
                    )


def _is_number(distribution: Distribution) -> bool:
    """Whether its decisions are numbers, and not places in a list, an order or a set."""
    if isinstance(distribution, (Permutation, Subset)):
        return False
    first = distribution.origin()
    return distribution.outputs(first) == first


def _at(value: Any, place: int) -> Any:
    if not isinstance(value, tuple):
        return value
    return value[place] if place < len(value) else None


def _beyond(distribution: Distribution, place: int, number: int, end: Any) -> str:
    """Say whether the space has more beyond a number."""
    if distribution.size() > _LARGEST_SUPPORT:
        return ""
    last = end(_at(value, place) for value in distribution.support())
    return "; the space has no other" if last == number else f", and the space goes to {last}"
