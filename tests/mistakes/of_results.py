"""Mistakes with databases, targets, workloads, templates, networks and distributions."""

from __future__ import annotations

import schedlang as sl
from schedlang.targets import export_library
from tests.mistakes.mistake import WORKLOAD, Mistake

RESULTS = [
    Mistake("no folder", lambda: sl.open_database("/no/such/a.db"), sl.DatabaseError, "/no/such"),
    Mistake(
        "no file",
        lambda: sl.open_database("/no_such.db", read_only=True),
        sl.DatabaseError,
        "open it without read_only",
    ),
    Mistake("best nowhere", lambda: sl.best(WORKLOAD), sl.DatabaseError, "give the database"),
    Mistake("best in 3", lambda: sl.best(WORKLOAD, database=3), TypeError, "not a int"),  # type: ignore[arg-type]
    Mistake("best of text", lambda: sl.best("x", database=":memory:"), sl.WorkloadError, "'x'"),
    Mistake("cores", lambda: sl.Target("cpu", cores=0), sl.TargetError, "cores=0"),
    Mistake("mcpu", lambda: sl.Target("cpu", mcpu="skylakee"), sl.TargetError, "mean 'skylake'"),
    Mistake("no target", lambda: sl.Target(None), sl.TargetError, "None (NoneType)"),  # type: ignore[arg-type]
    Mistake("to where", lambda: export_library(WORKLOAD, "cpuu", "x"), sl.TargetError, "'cpuu'"),
    Mistake("n", lambda: sl.workloads.matmul(-1, 4, 4), sl.WorkloadError, "not -1"),
    Mistake("n text", lambda: sl.workloads.matmul("4", 4, 4), sl.WorkloadError, "not '4' (str)"),
    Mistake("dtype", lambda: sl.workloads.matmul(4, 4, 4, dtype="f"), sl.WorkloadError, "not 'f'"),
    Mistake("jit of 3", lambda: sl.jit(3), TypeError, "def template(rows)"),
    Mistake("network 3", lambda: sl.import_network(3), sl.NetworkError, "not an int"),
    Mistake("no ONNX", lambda: sl.import_network("/no.onnx"), sl.NetworkError, "/no.onnx"),
    Mistake("tune_network", lambda: sl.tune_network(WORKLOAD), sl.NetworkError, "sl.tune(program)"),  # type: ignore[arg-type]
    Mistake("weight", lambda: sl.Categorical([1], [-1.0]), sl.DistributionError, "-1.0"),
    Mistake("no range", lambda: sl.IntRange(4, 2), sl.DistributionError, "range(4, 2, 1) is empty"),
]
