"""Programs that the tests leave to ``benchmarks/gauntlet.py``.

Each costs a worker or two, which take some seconds to start. ``tests/faults/``,
``tests/targets/worker/test_process_state.py`` or another row of the catalogue has one of its kind.
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
        "rounds upwards in a thread of parallel loops",
        "rounds upwards by a function that it calls pure",
        "runs less urgently from now on",
        "a thread of parallel loops runs less urgently",
        "other rights of new files",
        "another variable in the environment",
        "another working directory",
        "a signal that is ignored",
        "ends with its parent by another signal",
        "may not gain rights",
        "few open files allowed",
        "a file left open",
        "standard error goes nowhere",
        "80 KB after the output",
        "16 MB after the output",
        "1.2 MB before the output",
        "1.2 MB after an input",
        "reads a row after an input",
    }
)
