"""Calls of ``tune_network``, ``tune_shapes`` and ``survey`` for ``streams.py``.

Each yields lines of what it measured. All options that decide are given.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np
from _stream_calls import fifteen
from _stream_lines import TARGET, Lines, of_database, of_network, of_shapes, of_survey
from _stream_measurers import RecordedMeasurer, ScriptedMeasurer
from searches import SPACES, recorded
from tvm import relax

import schedlang as sl
from schedlang.database import Database
from schedlang.measurement import RecordedSpace
from schedlang.networks.convention import ByName, inputs_and_outputs
from schedlang.spaces.space import Space
from schedlang.tuning.surveys import UnfinishedSurvey

ZEN4 = SPACES / "epyc-zen4-2-cores"
_NETWORK: dict[str, Any] = {
    "target": TARGET,
    "trials": 28,
    "seconds": None,
    "seed": 0,
    "scheduler": "gradient",
    "objective": "latency",
    "limits": None,
    "patience": None,
    "search": "coordinate_descent",
    "batch": 6,
    "remeasure": False,
    "transfer": True,
    "verify": True,
    "finals": 3,
    "progress": False,
    "callbacks": (),
    "stop_when": None,
}
_SHAPES: dict[str, Any] = {
    "target": TARGET,
    "trials": 8,
    "share": 0.5,
    "loss": 0.05,
    "worst": 0.15,
    "kernels": 4,
    "exact": 3,
    "seconds": None,
    "seed": 0,
    "search": "coordinate_descent",
    "finals": 3,
    "progress": False,
}


# -- tune_network --------------------------------------------------------------------------------


class RecordedSpaces(Space):
    """RecordedMeasurer spaces as one, for the tasks of a network."""

    def __init__(self, spaces: Mapping[str, RecordedSpace]) -> None:
        super().__init__([], "recorded spaces")
        self.known_features = {}
        self.restorable = False
        self._spaces = spaces

    @property
    def part(self) -> tuple[Any, ...]:
        return tuple(one.digest for one in self._spaces.values())

    def run(self, workload: Any, decider: Any) -> sl.Schedule:
        return self._of(workload.key).run(workload, decider)

    def rerun(self, trace: sl.Trace, decide: Any) -> sl.Schedule:
        return self._of(trace.workload_or().key).rerun(trace, decide)

    def restored(self, trace: sl.Trace) -> sl.Trace:
        return self._of(trace.workload_or().key).restored(trace)

    def _of(self, key: str) -> Any:
        return self._spaces[key].space


@cache
def _recorded_network(names: Sequence[str]) -> sl.Network:
    """Return a network that calls recorded programs, the first of them twice."""
    builder, inputs, calls = relax.BlockBuilder(), [], []
    for number, name in enumerate([*names, names[0]]):
        workload = recorded(ZEN4 / name).workload
        *read, out = workload.args
        own = [
            relax.Var(f"x{number}_{k}", relax.TensorType(one.shape, one.dtype))
            for k, one in enumerate(read)
        ]
        inputs += own
        calls.append((workload, own, relax.TensorType(out.shape, out.dtype)))
    with builder.function("main", inputs):
        with builder.dataflow():
            values = [
                builder.emit(relax.call_tir(builder.add_func(one.func, one.name), own, out))
                for one, own, out in calls
            ]
            output = builder.emit_output(relax.Tuple(values))
        builder.emit_func_output(output)
    mod = builder.get()
    read, written = inputs_and_outputs(mod, None)
    convention = ByName([one.name for one in read])
    return sl.Network("recorded", mod, {}, read, written, convention, None)


@cache
def _dense(sizes: Sequence[int], rows: int = 4) -> sl.Network:
    """Return dense layers with a ReLU, and a transposition at the end."""
    rng, builder = np.random.default_rng(0), relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, sizes[0]), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for size, following in itertools.pairwise(sizes):
                weight = relax.const(rng.standard_normal((size, following)).astype("float32"))
                value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, weight)))
            output = builder.emit_output(relax.op.permute_dims(value))
        builder.emit_func_output(output)
    return sl.import_network(builder.get(), name="dense")


def _networks(which: str) -> tuple[Any, dict[str, Any]]:
    """Return networks, and what the call takes for them."""
    if which == "recorded":
        names = ("NRM.space", "SFM.space", "GMM.space")
        spaces = {one.workload.key: one for one in (recorded(ZEN4 / name) for name in names)}
        return _recorded_network(names), {"space": RecordedSpaces(spaces), "spaces": spaces}
    if which == "two":
        return [_dense((32, 32, 16)), _dense((32, 32, 32, 16))], {"space": None, "spaces": {}}
    sizes = [_dense((32, 48, 16), rows) for rows in (4, 16, 24)]
    return sl.NetworkSet(sizes, weights=[1, 2, 1]), {"space": None, "spaces": {}}


def network(which: str, **given: Any) -> Lines:
    """Tune the tasks of networks."""
    yield from _network(which, Database(), {}, **given)


def network_continued(which: str, **given: Any) -> Lines:
    """Interrupt a call twice; what continues it should measure what one call does."""
    whole = list(_network(which, Database(), {}, **given))
    database = Database()
    for until in (5, 11):
        yield from _network(which, database, {"until": until}, **given)
    rest = list(_network(which, database, {}, **given))
    yield "as one call" if rest == whole else "another stream than that of one call"
    yield from rest


def _network(which: str, database: Database, measuring: Mapping[str, Any], **given: Any) -> Lines:
    networks, about = _networks(which)
    options = _NETWORK | {"space": about["space"], "database": database} | given
    measurer = ScriptedMeasurer(about["spaces"], **measuring)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        result = sl.tune_network(networks, measurer=measurer, **options)
    yield from of_network(result, database)


NETWORKS: Mapping[str, Callable[[], Lines]] = {
    "recorded": partial(network, "recorded"),
    "recorded, evolutionary": partial(network, "recorded", search="evolutionary", transfer=False),
    "recorded, continued": partial(network_continued, "recorded", transfer=False),
    "recorded, seconds": partial(network, "recorded", trials=None, seconds=15.0),
    "recorded, round_robin": partial(network, "recorded", scheduler="round_robin", seed=1),
    "recorded, equal_split": partial(network, "recorded", scheduler="equal_split", finals=0),
    "recorded, stop_when": partial(network, "recorded", stop_when=fifteen, trials=60),
    "two": partial(network, "two"),
    "two, continued": partial(network_continued, "two"),
    "two, speedup": partial(network, "two", objective="speedup", seed=1, patience=8),
    "two, requirements": partial(network, "two", objective="requirements", limits=[1e-5, 1e-6]),
    "two, no transfer": partial(network, "two", transfer=False, search="random"),
    "sizes": partial(network, "sizes", trials=40),
}


# -- tune_shapes ---------------------------------------------------------------------------------


def dense(rows: int, width: int) -> Any:
    """Return the product of ``rows`` by 32 and 32 by ``width``."""
    return sl.workloads.matmul(rows, width, 32)


_POINTS: Any = [
    ({"rows": rows, "width": 48}, weight) for rows, weight in ((8, 3), (16, 1), (33, 2))
]
_RANGE: Any = [{"rows": (1, 60), "width": 48}, {"rows": 5, "width": 31}]


def shapes(asked: Any, until: Sequence[float] = (), **given: Any) -> Lines:
    """Tune for shapes; interrupted after ``until`` measurements, then continued."""
    database = Database()
    for most in (*until, np.inf):
        options = _SHAPES | {"space": None, "database": database} | given
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sl.InterruptedWarning)
            found = sl.tune_shapes(dense, asked, measurer=ScriptedMeasurer(until=most), **options)
        yield from of_shapes(found, database)


SHAPES: Mapping[str, Callable[[], Lines]] = {
    "points": partial(shapes, _POINTS),
    "points, random": partial(shapes, _POINTS, search="random", seed=1, finals=0),
    "points, continued": partial(shapes, _POINTS, until=(7,)),
    "points, seconds": partial(shapes, _POINTS, seconds=12.0),
    "range": partial(shapes, _RANGE),
}


# -- survey --------------------------------------------------------------------------------------


def survey(workload: sl.Workload, space: Any, measurers: Iterable[Any], **given: Any) -> Lines:
    """Measure all programs of a space, in as many calls as there are measurers."""
    database, options = Database(), {"size": 48, "seconds": None, "seed": 0, **given}
    for measurer in measurers:
        replaced = {
            "measurer": lambda *_, made=measurer, **__: made,
            "check_present": lambda *_: None,
        }
        with mock.patch.multiple(type(TARGET), **replaced), warnings.catch_warnings():
            warnings.simplefilter("ignore", sl.InterruptedWarning)
            try:
                found = sl.survey(
                    workload, TARGET, space=space, database=database, progress=False, **options
                )
            except UnfinishedSurvey as error:
                yield f"{error.missing} of {error.programs}: {error.finished} {error.interrupted}"
                yield from of_database(database)
                options["seconds"] = None
            else:
                yield from of_survey(found, database)


def survey_recorded(name: str) -> Lines:
    """Survey a recorded space again."""
    found = recorded(ZEN4 / name)
    yield from survey(found.workload, found.space, [RecordedMeasurer(found)])


def survey_scripted(measurers: Sequence[Mapping[str, Any]], **given: Any) -> Lines:
    """Survey a part of the target's own space."""
    workload = sl.workloads.matmul(32, 32, 32)
    yield from survey(workload, None, (ScriptedMeasurer(**one) for one in measurers), **given)


SURVEYS: Mapping[str, Callable[[], Lines]] = {
    "part": partial(survey_scripted, [{}]),
    "part, another seed": partial(survey_scripted, [{}], seed=1, size=24),
    "part, interrupted": partial(survey_scripted, [{"until": 10}, {}]),
    "part, seconds": partial(survey_scripted, [{}, {}], seconds=3.0),
    "recorded": partial(survey_recorded, "NRM.space"),
}


# -- all of them ---------------------------------------------------------------------------------

LISTED: Mapping[str, Mapping[str, Callable[[], Lines]]] = {
    "network": NETWORKS,
    "shapes": SHAPES,
    "survey": SURVEYS,
}


def listed(what: str, name: str) -> Lines:
    """Make a call of ``LISTED``."""
    yield from LISTED[what][name]()
