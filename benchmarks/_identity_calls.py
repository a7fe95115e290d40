"""Calls whose runs are stored: programs, machines, spaces, searches, options that count or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tvm import te

import schedlang as sl
from schedlang.modules import parallel_vectorize_unroll
from schedlang.search import Evolutionary, Random
from schedlang.search.searches import SEARCHES
from tests.database.old_runs import network, target

RECORDED = Path(__file__).parent / "recorded" / "epyc-zen3-2-cores" / "GMM.space"
_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


@dataclass(frozen=True)
class Call:
    """A call that stores its run, or the runs of its tasks.

    Attributes
    ----------
    name: says what it is.
    make: makes it, with a database.
    like: name of the call whose runs it continues; empty for one with runs of its own.
    kind: class of its target.
    played: whether a measurer that refuses stands for the target's own.
    """

    name: str
    make: Callable[[sl.Database], Any]
    like: str = ""
    kind: type[sl.Target] | None = None
    played: bool = True


# -- what a user writes ------------------------------------------------------------------------


def tiled(sch: sl.Schedule, block: sl.BlockRV, *, bound: int = 4) -> None:
    """Split the first loop."""
    i, *_ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 2, bound, name="rows"))


def parallel(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Run the first loop in parallel."""
    sch.parallel(sch.get_loops(block)[0])


TILED, PARALLEL = sl.module(tiled), sl.module(parallel)


class Hurried(Random):
    """A search of a user's."""

    name = "hurried"

    def propose(self) -> sl.Schedule | None:
        return self.draw()


class Refusing(sl.Measurer):
    """A measurer of a user's, at whose first candidate the user presses Ctrl-C."""

    key = "refusing"
    reference_latency = 1e-3

    def __init__(self, key: str = "refusing") -> None:
        self.key = key

    def bind(self, *_: Any) -> None:
        """It measures any program."""

    def measure(self, candidates: Sequence[sl.Candidate]) -> Any:
        raise KeyboardInterrupt

    def close(self) -> None:
        """Nothing to stop."""


class Absent(Executor):
    """An engine at whose first order the user presses Ctrl-C."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt


def refusing(machine: sl.Target) -> Refusing:
    """Make the measurer on a host."""
    return Refusing()


def halved(rng: np.random.Generator) -> list[Any]:
    """Draw inputs of ``BASE``."""
    return [rng.random((32, 32), "float32") / 2 for _ in range(2)]


def product_of(a: Any, b: Any) -> Any:
    """Compute what ``BASE`` computes."""
    return a @ b


def dense(rows: int, width: int = 16) -> sl.Workload:
    """``rows`` by 16 times 16 by ``width``."""
    return sl.workloads.matmul(rows, width, 16)


def own_program(extent: int = 64, block: str = "doubled") -> sl.Workload:
    """A program in TE, without a standard operator."""
    a = te.placeholder((extent, 8), name="a", dtype="float32")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name=block)
    return sl.workloads.from_te([a, b], name="doubling")


BASE = sl.workloads.matmul(32, 32, 32)
_PLAIN = "tune matmul"


def _tune(name: str, workload: Any = BASE, like: str = "", **given: Any) -> Call:
    machine = given.pop("target", None) or target()
    make = partial(_call, sl.tune, workload, machine, {"progress": False, **given})
    return Call(name, make, like, type(machine))


def _call(
    function: Callable[..., Any], what: Any, where: Any, given: Any, database: sl.Database
) -> Any:
    """Make a call; what is a function without arguments is made now."""
    if callable(what):
        what = what()
    given = {name: one() if isinstance(one, _Made) else one for name, one in given.items()}
    return function(what, where, database=database, **given)


class _Made(partial):  # type: ignore[type-arg]
    """A value that is made for one call."""


# -- the matrix --------------------------------------------------------------------------------


def machines() -> dict[str, sl.Target]:
    """Machines whose keys and spaces are the same wherever this runs."""
    given: dict[str, Any] = {
        "x86-64-v3 x 8": {"cores": 8, "mcpu": "x86-64-v3", "triple": _X86},
        "x86-64-v4": {"cores": 2, "mcpu": "x86-64-v4", "triple": _X86},
        "znver4": {"cores": 16, "mcpu": "znver4", "triple": _X86},
        "neoverse-v1": {"cores": 4, "mcpu": "neoverse-v1", "triple": _ARM},
    }
    found = {name: sl.Target("cpu", **one) for name, one in given.items()}
    return {"x86-64-v3": target()} | found


def programs() -> Iterator[Call]:
    """Yield standard operators at two shapes on a CPU, and at one on others and on two GPUs."""
    for name in sl.workloads.names():
        for place in range(2):
            yield _tune(f"tune {name}[{place}]", partial(_standard, name, place))
        for where, machine in machines().items():
            if machine != target():
                yield _tune(f"tune {name}[0] on {where}", partial(_standard, name), target=machine)
    for where in ("sm_80", "sm_90"):
        for name in ("GMM", "C2D", "NRM"):
            yield _tune(
                f"tune {name}[0] on {where}", partial(_standard, name), target=sl.Target(where)
            )
    yield _tune("tune a program in TE", own_program)
    yield _tune("tune a program in TE of another extent", partial(own_program, 32))
    yield _tune("tune a program in TE with another block", partial(own_program, block="twice"))
    text = own_program().mod.script()
    again = partial(sl.workloads.from_script, text, name="doubling")
    yield _tune("tune the same program as a script", again, like="tune a program in TE")


def _standard(name: str, place: int = 0) -> sl.Workload:
    found: sl.Workload = sl.workloads.standard(name)[place]
    return found


@cache
def spaces() -> dict[str, Any]:
    """Spaces and modules for ``BASE``, by name."""
    default = sl.default_space(target())
    finish = parallel_vectorize_unroll(cores=2, max_lanes=32, prob=0.5)
    return {
        "the default": default,
        "the default and one more": default + TILED,
        "another last module": default.replace("parallel_vectorize_unroll", finish),
        "a module": TILED,
        "a module with an option": TILED(bound=8),
        "two modules": sl.Space([TILED, PARALLEL]),
        "two modules in another order": sl.Space([PARALLEL, TILED]),
        "a part": default.restricted(BASE, 200, 0),
        "another part": default.restricted(BASE, 200, 1),
    }


def searches() -> dict[str, Any]:
    """Searches, by name."""
    return {
        **{name: name for name in SEARCHES},
        "dpansor-25": "dpansor-25",
        "a class": Evolutionary,
        "a class with a setting": partial(Evolutionary, warm_up=8),
        "a user's class": Hurried,
    }


def spaces_and_searches() -> Iterator[Call]:
    """Yield all spaces with all searches, on one program."""
    for (where, space), (how, search) in product(spaces().items(), searches().items()):
        yield _tune(f"tune matmul in {where} by {how}", space=space, search=search)
    recorded = sl.load_survey(RECORDED)
    for how in ("auto", "random"):
        name = f"tune GMM in a recorded space by {how}"
        yield _tune(name, recorded.workload, space=recorded.space, search=how)
    alone = sl.Space([TILED])
    yield _tune(
        "a space of one module",
        like="tune matmul in a module by random",
        space=alone,
        search="random",
    )
    yield _tune("the default space, given", like=_PLAIN, space=spaces()["the default"])
    for seed in (0, 1):
        made = _Made(Random, alone, BASE, seed)
        yield _tune(f"a strategy that was made, seed {seed}", search=made, space=alone)
    # It explores for a part of the trials, which is a setting of the search.
    for trials, like in (
        (8, ""),
        (100, "tune matmul in the default by explore_exploit"),
        (300, ""),
    ):
        name = f"explore_exploit for {trials} trials"
        yield _tune(name, like=like, search="explore_exploit", trials=trials)


def options_that_count() -> Iterator[Call]:
    """Yield calls with options that make another run of a call."""
    yield _tune(_PLAIN)
    for seed, verify, transfer in product((0, 7), (True, "all", False), (True, False)):
        if (seed, verify, transfer) != (0, True, True):
            given = {"seed": seed, "verify": verify, "transfer": transfer}
            yield _tune(f"tune matmul {given}", **given)
    one, two = np.ones((32, 32), "float32"), np.eye(32, dtype="float32")
    compared: dict[str, dict[str, Any]] = {
        "a tolerance": {"tolerance": 1e-3},
        "another tolerance": {"tolerance": 1e-2},
        "two tolerances": {"tolerance": (1e-3, 1e-4)},
        "a tolerance by output": {"tolerance": {"C": 1e-3}},
        "inputs": {"inputs": [one, two]},
        "other inputs": {"inputs": [two, one]},
        "inputs by name": {"inputs": {"A": one, "B": two}},
        "inputs that are drawn": {"inputs": halved},
        "a reference": {"reference": product_of},
        "a reference of numpy's": {"reference": np.matmul},
        "all of them": {"inputs": halved, "reference": product_of, "tolerance": 1e-3},
        "a measurer": {"measurer": _Made(Refusing)},
        "a measurer with another key": {"measurer": _Made(Refusing, "other")},
        "hosts with a measurer": {"hosts": _Made(_hosts), "measurer": refusing},
    }
    for name, given in compared.items():
        yield _tune(f"tune matmul with {name}", **given)
        yield _tune(f"tune matmul with {name}, seed 1", seed=1, **given)


def _hosts() -> sl.Hosts:
    return sl.Hosts(Absent(), at_once=2)


def _kept() -> Any:
    return sl.measurer(target())


NOT_COUNTED: dict[str, dict[str, Any]] = {
    "trials": {"trials": 8},
    "seconds": {"seconds": 60.0},
    "batch": {"batch": 3},
    "finals": {"finals": 0},
    "remeasure": {"remeasure": True},
    "callbacks": {"callbacks": [print]},
    "a rule": {"stop_when": sl.stop.latency(1e-9)},
    "notes and tags": {"notes": "a note", "tags": ["baseline"]},
    "hosts": {"hosts": _Made(_hosts)},
}
"""Options that make no other run."""


def options_that_do_not_count() -> Iterator[Call]:
    """Yield calls with options that make no other run of a call."""
    for name, given in NOT_COUNTED.items():
        yield _tune(f"tune matmul with {name}", like=_PLAIN, **given)
        base = "tune matmul in two modules by evolutionary"
        more = {"space": spaces()["two modules"], "search": "evolutionary"}
        yield _tune(f"{base} with {name}", like=base, **more, **given)
    stated = {"outputs": ["C"]}
    yield _tune("tune matmul with its outputs", like=_PLAIN, **stated)
    again = sl.workloads.matmul(32, 32, 32)
    yield _tune("tune matmul, made again", again, like=_PLAIN)
    yield Call("tune matmul with a kept measurer", _with_kept, _PLAIN, played=False)


def _with_kept(database: sl.Database) -> Any:
    with sl.measurer(target()) as kept:
        return sl.tune(BASE, target(), measurer=kept, database=database, progress=False)


def _network(name: str, like: str = "", **given: Any) -> Call:
    make = partial(_call, sl.tune_network, network, target(), {"progress": False, **given})
    return Call(name, make, like)


def many_tasks() -> Iterator[Call]:
    """Yield calls that store runs of several tasks, or the first of several."""
    yield _network("tune_network")
    yield _network("tune_network, seed 1", seed=1)
    first = "tune_network on hosts"
    yield _network(first, hosts=_Made(_hosts))
    counted: dict[str, dict[str, Any]] = {
        "seed 1": {"seed": 1},
        "a search": {"search": "evolutionary"},
        "a class": {"search": Evolutionary},
        "no transfer": {"transfer": False},
        "verify all": {"verify": "all"},
        "verify nothing": {"verify": False},
        "a tolerance": {"tolerance": 1e-3},
        "two tolerances": {"tolerance": (1e-3, 1e-4)},
        "a module": {"space": TILED},
        "two modules": {"space": sl.Space([TILED, PARALLEL])},
        "a measurer": {"measurer": refusing},
    }
    for name, given in counted.items():
        yield _network(f"{first} with {name}", hosts=_Made(_hosts), **given)
    free: list[dict[str, Any]] = [
        {"scheduler": "round_robin"},
        {"objective": "speedup"},
        {"objective": "requirements", "limits": 1e-3},
        {"patience": 4},
        {"trials": 16},
        {"seconds": 60.0},
        {"batch": 3},
        {"finals": 0},
        {"remeasure": True},
        {"notes": "a note", "tags": ["baseline"]},
    ]
    for given in free:
        yield _network(f"{first} {given}", like=first, hosts=_Made(_hosts), **given)


def others() -> Iterator[Call]:
    """Yield calls of ``tune_shapes`` and ``survey``."""
    shapes = [{"rows": 5}, {"rows": 7}]
    for name, given in (
        ("tune_shapes", {}),
        ("tune_shapes, seed 1", {"seed": 1}),
        ("tune_shapes in modules", {"space": TILED}),
        ("tune_shapes in modules by random", {"space": TILED, "search": "random"}),
    ):
        options = {"progress": False, **given}
        make = partial(_shapes, shapes, options)
        yield Call(name, make)
    like = "tune_shapes in modules"
    for option in ({"trials": 8}, {"share": 0.5}, {"finals": 0}, {"loss": 0.1, "worst": 0.2}):
        options = {"progress": False, "space": TILED, **option}
        yield Call(f"{like} {option}", partial(_shapes, shapes, options), like)
    for name, given in (
        ("survey", {}),
        ("survey, seed 1", {"seed": 1}),
        ("survey of two modules", {"space": sl.Space([TILED, PARALLEL])}),
        ("survey of a part", {"space": None, "size": 100}),
        ("survey of a smaller part", {"space": None, "size": 50}),
    ):
        options = {"space": TILED, "progress": False, **given}
        yield Call(name, partial(_survey, options), played=False)
    options = {"space": TILED, "progress": False, "seconds": 60.0}
    yield Call("survey with seconds", partial(_survey, options), "survey", played=False)


def _shapes(shapes: Any, given: Any, database: sl.Database) -> Any:
    return sl.tune_shapes(dense, shapes, target(), database=database, **given)


def _survey(given: Any, database: sl.Database) -> Any:
    return sl.survey(BASE, target(), database=database, **given)


def calls() -> list[Call]:
    """Return all calls."""
    parts = (
        options_that_count,
        options_that_do_not_count,
        programs,
        spaces_and_searches,
        many_tasks,
        others,
    )
    return [call for part in parts for call in part()]
