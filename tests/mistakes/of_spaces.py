"""Mistakes in spaces, modules and primitives."""

from __future__ import annotations

import random
from typing import Any

import schedlang as sl
from schedlang.errors import SpaceError
from tests.mistakes.mistake import CPU, WORKLOAD, Mistake, schedule


def sampled(function: Any) -> Any:
    return sl.Space([sl.Module(function, name="mine")]).sample(WORKLOAD, seed=0)


def on_loops(act: Any) -> Any:
    return lambda: act(*schedule())


def copies(sch: sl.Schedule, block: sl.BlockRV) -> None:
    other = sch.copy()
    other.parallel(other.get_loops(block)[0])


def yields(sch: sl.Schedule, block: sl.BlockRV) -> Any:
    yield sch


def splits_foreign(sch: sl.Schedule, loops: list[sl.LoopRV]) -> None:
    schedule()[0].split(loops[0], [None, 4])


SPACES = [
    Mistake("no list", lambda: sl.Space(None), SpaceError, "not None"),  # type: ignore[arg-type]
    Mistake("a name", lambda: sl.Space(["auto_inline"]), SpaceError, "not 'auto_inline'"),
    Mistake("no decorator", lambda: sl.Space([copies]), SpaceError, "decorate it with @sl.module"),
    Mistake("adds a function", lambda: CPU + copies, SpaceError, "decorate it"),  # type: ignore[operator]
    Mistake("without", lambda: CPU.without("auto_inlin"), SpaceError, "mean 'auto_inline'"),
    Mistake(
        "before", lambda: CPU.before("tilling", sl.Space([])), SpaceError, "no module 'tilling'"
    ),
    Mistake(
        "after", lambda: CPU.after("auto_inlin", sl.Space([])), SpaceError, "mean 'auto_inline'"
    ),
    Mistake("by name", lambda: CPU["auto_inlin"], SpaceError, "did you mean 'auto_inline'"),
    Mistake("a target", lambda: sl.default_space("cpus"), sl.TargetError, "unknown target 'cpus'"),
    Mistake(
        "decisions",
        lambda: CPU.sample(WORKLOAD, decisions=3),
        SpaceError,
        "decisions=3: give a dict",
    ),  # type: ignore[arg-type]
    Mistake("choices", lambda: CPU.sample(WORKLOAD, choices=["a"]), SpaceError, "choices=['a']"),  # type: ignore[arg-type]
    Mistake("a site", lambda: CPU.sample(WORKLOAD, decisions={"x": 1}), SpaceError, "no site 'x'"),
    Mistake("no option", lambda: CPU["auto_inline"](x=1), SpaceError, "no option 'x'"),
    Mistake("a number", lambda: sl.module(3), SpaceError, "a function, not 3"),  # type: ignore[call-overload]
    Mistake("its name", lambda: CPU["auto_inline"].renamed(3), SpaceError, "name=3"),  # type: ignore[arg-type]
    Mistake("nothing to draw", lambda: sl.Stochastic([]), SpaceError, "non-empty list"),
    Mistake("size", lambda: CPU.restricted(WORKLOAD, size=0), SpaceError, "size=0"),
    Mistake("yields", lambda: sl.module(yields), SpaceError, "module 'yields' yields"),
    Mistake(
        "returns copies", lambda: sampled(lambda s, b: [s.copy()]), SpaceError, "'mine' returned"
    ),
    Mistake("returns both", lambda: sampled(lambda s, b: (b, s)), SpaceError, "'mine' returned"),
    Mistake(
        "returns blocks",
        lambda: sampled(lambda s, b: [b]),
        sl.UnrecordedWorkWarning,
        "'mine' returns",
    ),
    Mistake("copies", lambda: sampled(copies), sl.UnrecordedWorkWarning, "'mine' copies"),
    Mistake(
        "draws by random",
        lambda: sampled(lambda s, b: random.seed(1) or None),
        sl.UnrecordedDrawWarning,
        "draw by sch.sample_categorical",
    ),
    Mistake(
        "a slip in before=",
        lambda: CPU + sl.Module(copies, before="auto_inlin"),
        sl.UnknownPlaceWarning,
        "did you mean 'auto_inline'",
    ),
]

REFUSED = sl.InstructionError
PRIMITIVES = [
    Mistake("block", on_loops(lambda s, _: s.get_block("D")), REFUSED, "no block 'D'"),
    Mistake("loops of 3", on_loops(lambda s, _: s.get_loops(3)), REFUSED, "not int 3"),
    Mistake("one factor", on_loops(lambda s, it: s.split(it[0], 4)), REFUSED, "not int 4"),
    Mistake("text", on_loops(lambda s, it: s.split(it[0], "4")), REFUSED, "not str '4'"),
    Mistake("factor -1", on_loops(lambda s, it: s.split(it[0], [-1, 4])), REFUSED, "positive"),
    Mistake("too few", on_loops(lambda s, it: s.split(it[0], [3, 4])), REFUSED, "extent of loop i"),
    Mistake("by name", on_loops(lambda s, it: s.split("i", [4])), REFUSED, "not str 'i'"),
    Mistake("another's", on_loops(splits_foreign), REFUSED, "a handle of another schedule"),
    Mistake("a list", on_loops(lambda s, it: s.reorder(it)), REFUSED, "pass one of them"),
    Mistake("no loop", on_loops(lambda s, it: s.reorder()), REFUSED, "one loop or more"),
    Mistake("fuses none", on_loops(lambda s, it: s.fuse()), REFUSED, "one loop or more"),
    Mistake("fuses far", on_loops(lambda s, it: s.fuse(it[0], it[2])), REFUSED, "not the parent"),
    Mistake("sums", on_loops(lambda s, it: s.vectorize(it[2])), REFUSED, "k in 16"),
    Mistake("thread", on_loops(lambda s, it: s.bind(it[0], "block")), REFUSED, "not 'block'"),
    Mistake("key", on_loops(lambda s, it: s.annotate(it[0], 3, 4)), REFUSED, "not int 3"),
    Mistake("scope", on_loops(lambda s, _: s.cache_read("C", 0, "globl")), REFUSED, '"globl"'),
    Mistake("buffer", on_loops(lambda s, _: s.cache_read("C", 9, "global")), REFUSED, "2 read"),
    Mistake(
        "weights", on_loops(lambda s, _: s.sample_categorical([1, 2], [1.0])), REFUSED, "2 weig"
    ),
    Mistake("none", on_loops(lambda s, _: s.sample_categorical([])), REFUSED, "at least one value"),
    Mistake("tile 0", on_loops(lambda s, it: s.sample_perfect_tile(it[0], 0)), REFUSED, "n=0"),
    Mistake("no prior", on_loops(lambda s, _: s.sample(3, name="x")), REFUSED, "not int 3"),
    Mistake("options", on_loops(lambda s, _: s.choose("x", 3)), REFUSED, "a list, not 3"),
    Mistake("a site", on_loops(lambda s, _: s.trace.with_decisions({"x": 1})), SpaceError, "'x'"),
    Mistake("misfit", on_loops(lambda s, _: s.trace.replay(misfit="drop")), SpaceError, "'drop'"),
    Mistake("no text", lambda: sl.Trace.from_json(3), sl.TraceFormatError, "not 3"),  # type: ignore[arg-type]
    Mistake("no trace", lambda: sl.Trace.from_json("null"), sl.TraceFormatError, "not None"),
]
