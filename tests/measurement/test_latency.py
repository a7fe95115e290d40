"""Latencies and speed-ups as people read them."""

from __future__ import annotations

import pytest

from schedlang.measurement import describe_latency, describe_speedup


@pytest.mark.parametrize(
    ("seconds", "flops", "text"),
    [
        (2.5, 0.0, "2.5 s"),
        (1.25e-3, 268.4e6, "1.25 ms, 214.7 GFLOPS"),
        (1.74e-7, 0.0, "0.174 us"),
        (1e-6, 64.0, "1 us, 0.064 GFLOPS"),
        (0.0, 1e9, "0 us"),
        (9.996e-4, 0.0, "1 ms"),
        (0.9994, 0.0, "999 ms"),
        (1234.5, 0.0, "1234 s"),
        (1e-6, 1.1e12, "1 us"),
    ],
)
def test_a_latency(seconds: float, flops: float, text: str) -> None:
    """No rate of a copy, of no time, and none that no machine reaches."""
    assert describe_latency(seconds, flops) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.0, "1.00x"), (1.037, "1.04x"), (9.96, "10.0x"), (212.3, "212x")],
)
def test_a_speedup(ratio: float, text: str) -> None:
    assert describe_speedup(ratio) == f"{text} faster"
