"""Programs that the tests leave to ``benchmarks/gauntlet.py``.

Each costs a worker or two, which take some seconds to start. ``tests/faults/`` or another row of
the catalogue has one of its kind.
"""

from __future__ import annotations

BENCHMARK_ONLY = frozenset(
    {
        "16 copies of the worker",
        "an alarm that goes off later",
        "exits 0",
        "kills its process group",
        "writes to all files",
        "floods its output",
        "rounds upwards from now on",
        "damages its heap",
        "80 KB after the output",
        "16 MB after the output",
        "1.2 MB before the output",
        "1.2 MB after an input",
        "reads a row after an input",
    }
)
