"""Latencies as people read them."""

from __future__ import annotations

# No machine does more operations per second: such a number is no count of operations, or no time.
_MOST_GFLOPS = 1e7


def describe_latency(seconds: float, flops: float = 0.0) -> str:
    """Return a latency with its unit, and the rate where the number of operations is given.

    ``1.25 ms, 214.7 GFLOPS``. There is no rate without operations, as of a copy, and none that
    no machine reaches.
    """
    text = _with_unit(seconds)
    rate = flops / seconds / 1e9 if seconds > 0 else 0.0
    if not 0 < rate <= _MOST_GFLOPS:
        return text
    return f"{text}, {rate:.1f} GFLOPS" if rate >= 1 else f"{text}, {rate:.2g} GFLOPS"


def _with_unit(seconds: float) -> str:
    """Return the latency to three digits, in the largest unit that leaves 1 or more."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        rounded = float(f"{seconds * scale:.3g}")
        if rounded >= 1 or unit == "us":
            break
    # Above 1000 three digits would be written with an exponent.
    return f"{seconds * scale:.0f} {unit}" if rounded >= 1000 else f"{rounded:.3g} {unit}"


def describe_speedup(ratio: float) -> str:
    """Return how much faster a program is, as text: ``1.04x faster``, ``212x faster``."""
    digits = 2 if ratio < 2 else 1 if ratio < 100 else 0
    return f"{ratio:.{digits}f}x faster"
