"""Latencies as people read them."""

from __future__ import annotations


def describe_latency(seconds: float, flops: float = 0.0) -> str:
    """Return a latency with its unit, and the rate where the number of operations is given.

    ``1.25 ms, 214.7 GFLOPS``
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            text = f"{seconds * scale:.3g} {unit}"
            break
    return f"{text}, {flops / seconds / 1e9:.1f} GFLOPS" if flops else text
