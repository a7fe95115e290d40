"""Mistakes with databases, targets, workloads, templates, networks and distributions."""

from __future__ import annotations

import schedlang as sl
from schedlang import report
from schedlang.targets import build_callable, export_c, export_library
from schedlang.targets.errors import BuildError, LibraryError
from tests.mistakes.mistake import WORKLOAD, Mistake, tune

MOD = WORKLOAD.mod

FILES = [
    Mistake("a library", lambda: tune().best.export_library(3), TypeError, "not 3 (int)"),  # type: ignore[arg-type]
    Mistake("C", lambda: tune().best.export_c(None), TypeError, "not None (NoneType)"),  # type: ignore[arg-type]
    Mistake("C folder", lambda: export_c(MOD, "cpu", "no/a.so"), LibraryError, "no folder no"),
    Mistake("C suffix", lambda: export_c(MOD, "cpu", "a.dll"), LibraryError, ".so, .a, .o"),
    Mistake("C into /", lambda: export_c(MOD, "cpu", "/"), LibraryError, "/"),
    Mistake("C name", lambda: export_c(MOD, "cpu", "a.so", name=3), LibraryError, "3 cannot be"),  # type: ignore[arg-type]
    Mistake("C name -", lambda: export_c(MOD, "cpu", "a-b.so"), LibraryError, "'a-b' cannot be"),
    Mistake("cc 3", lambda: export_c(MOD, "cpu", "a.so", compiler=3), BuildError, "compiler=3"),  # type: ignore[arg-type]
    Mistake("no cc", lambda: export_c(MOD, "cpu", "a.so", compiler="ccc"), BuildError, "ccc"),
    Mistake("C of 3", lambda: export_c(3, "cpu", "a.so"), TypeError, "not 3 (int)"),
    Mistake("C of a GPU", lambda: export_c(MOD, "cuda/sm_90", "a.so"), LibraryError, "for CPUs"),
    Mistake("a C device", lambda: export_c(MOD, "cpu", "/proc/a.so"), sl.SchedlangError, "/proc"),
    Mistake("build 3", lambda: build_callable(3), TypeError, "not 3 (int)"),
    Mistake("build a workload", lambda: build_callable(WORKLOAD), TypeError, "workload.mod"),
    Mistake("an operator", lambda: tune().best.as_torch_op(3), LibraryError, "3 is no name"),  # type: ignore[arg-type]
    Mistake("load 3", lambda: sl.load(3), TypeError, "not 3 (int)"),  # type: ignore[arg-type]
    Mistake("load nothing", lambda: sl.load("no.so"), LibraryError, "no such file"),
    Mistake("freeze 3", lambda: sl.freeze(":memory:", 3), TypeError, "not 3 (int)"),  # type: ignore[arg-type]
    Mistake("report 3", lambda: tune().report(3), TypeError, "not 3 (int)"),  # type: ignore[arg-type]
    Mistake("report folder", lambda: tune().report("no/a.html"), FileNotFoundError, "make it"),
    Mistake("report into", lambda: tune().report("."), IsADirectoryError, "a file in it"),
    Mistake("report /proc", lambda: tune().report("/proc/a.html"), sl.FileError, "/proc/a.html"),
    Mistake("report of 3", lambda: report.write(3, "a.html"), TypeError, "not int"),  # type: ignore[arg-type]
    Mistake("compare 3", lambda: report.write_comparison(3, "a.html"), TypeError, "not int"),  # type: ignore[arg-type]
    Mistake("compare []", lambda: report.write_comparison([], "a.html"), ValueError, "no run"),
]

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
    Mistake("coress", lambda: sl.Target("cpu", coress=2), sl.TargetError, "mean 'cores'?"),
    Mistake("archh", lambda: sl.Target("cuda", archh="sm_90"), sl.TargetError, "mean 'arch'?"),
    Mistake("of avx2", lambda: sl.Target("avx2", zzz=2), sl.TargetError, "known: cores, mcpu"),
    Mistake("mcpu 3", lambda: sl.Target("cpu", mcpu=3), sl.TargetError, "mcpu=3"),
    Mistake("machine 3", lambda: sl.Target("avx2", machine=3), sl.TargetError, "machine=3"),
    Mistake("feature", lambda: sl.Target("cpu", attributes="+x"), sl.TargetError, "give a tuple"),
    Mistake("features", lambda: sl.Target("cpu", attributes=3), sl.TargetError, "attributes=3"),
    Mistake("no module", lambda: sl.Workload(3, "x"), sl.WorkloadError, "as_workload takes other"),  # type: ignore[arg-type]
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
