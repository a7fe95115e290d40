"""Mistakes in calls of ``tune``, and in searches, cost models and measurers of a user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.search import CostModelError, Evolutionary, ProposingStrategy, Random
from tests.mistakes.mistake import WORKLOAD, Mistake, right, tune


def answering(samples: Any) -> Callable[..., Any]:
    return lambda given: [sl.Measurement(one.id, sl.Status.OK, samples) for one in given]


def proposing(propose: Callable[[Any], Any]) -> Any:
    """A search whose ``propose`` is wrong."""
    return type("Mine", (ProposingStrategy,), {"name": "mine", "propose": propose})


def asking(ask: Callable[[Any, int], Any]) -> Any:
    """A search whose ``ask`` is wrong."""
    return type("Mine", (Random,), {"ask": ask})


def model(predict: Any, **members: Any) -> Any:
    """A search with a cost model of a user's."""
    given = {
        "name": "mine",
        "trained": True,
        "update": lambda self, examples: None,
        "predict": predict,
        "save": lambda self: "",
        "load": lambda self, text: None,
    }
    made = type("Mine", (), {**given, **members})()
    return lambda *call: Evolutionary(*call, cost_model=made)


TUNE = [
    Mistake("a name", lambda: sl.tune("matmul"), sl.WorkloadError, "not the text 'matmul'"),
    Mistake("a function", lambda: sl.tune(tune), sl.WorkloadError, "the function tune"),
    Mistake("an array", lambda: sl.tune(np.ones(4)), sl.WorkloadError, "not a numpy array"),
    Mistake("trials -1", lambda: tune(trials=-1), ValueError, "trials=-1"),
    Mistake("trials text", lambda: tune(trials="4"), ValueError, "trials='4'"),
    Mistake("seconds", lambda: tune(seconds=-3), ValueError, "seconds=-3"),
    Mistake("batch", lambda: tune(batch=0), ValueError, "batch=0"),
    Mistake("finals", lambda: tune(finals=-1), ValueError, "finals=-1"),
    Mistake("seed", lambda: tune(seed="a"), ValueError, "seed='a'"),
    Mistake("gpu", lambda: sl.tune(WORKLOAD, "gpu"), sl.TargetError, "did you mean 'cuda'"),
    Mistake("target 3", lambda: sl.tune(WORKLOAD, 3), sl.TargetError, "3 (int) is not a target"),  # type: ignore[arg-type]
    Mistake("search", lambda: tune(search="evolution"), ValueError, "did you mean 'evolutionary'"),
    Mistake("search 3", lambda: tune(search=3), ValueError, "search=3"),
    Mistake("no search", lambda: tune(search=lambda *_: None), ValueError, "made a NoneType"),
    Mistake("space name", lambda: tune(space="cpu"), sl.SpaceError, "not str"),
    Mistake("space list", lambda: tune(space=[1]), sl.SpaceError, "give Space([...])"),
    Mistake("database", lambda: tune(database=3), TypeError, "not a int"),
    Mistake("a folder", lambda: tune(database="/"), sl.DatabaseError, "it is a folder"),
    Mistake("callbacks", lambda: tune(callbacks=3), TypeError, "give a list of callbacks"),
    Mistake("tags", lambda: tune(tags="a"), ValueError, "give several words"),
]

EXTENSIONS = [
    Mistake("measure: None", lambda: tune(lambda _: None), TypeError, "Measuring.measure returned"),
    Mistake("measure: floats", lambda: tune(lambda given: [1e-3]), TypeError, "gave 0.001"),
    Mistake(
        "measure: another id",
        lambda: tune(lambda given: [sl.Measurement(99, sl.Status.OK, (1e-3,)) for _ in given]),
        sl.SchedlangError,
        "id 99, which is none of the candidates",
    ),
    Mistake(
        "measure: twice",
        lambda: tune(lambda given: [right(one) for one in given for _ in "ab"]),
        sl.SchedlangError,
        "a second time",
    ),
    Mistake(
        "measure: nothing", lambda: tune(lambda _: []), sl.SchedlangError, "gave no measurement"
    ),
    Mistake("one number", lambda: tune(answering(1e-3)), TypeError, "samples=0.001"),
    Mistake("no number", lambda: tune(answering((float("nan"),))), ValueError, "nan is no latency"),
    Mistake("below 0", lambda: tune(answering((-1.0,))), ValueError, "-1.0 is no latency"),
    Mistake("no samples", lambda: tune(answering(())), ValueError, "at least one sample"),
    Mistake("a status", lambda: sl.Measurement(0, "ok", (1.0,)), TypeError, "status='ok'"),  # type: ignore[arg-type]
    Mistake("a class", lambda: sl.tune(WORKLOAD, measurer=sl.Measurer), TypeError, "an instance"),  # type: ignore[type-abstract]
    Mistake(
        "propose: a trace",
        lambda: tune(search=proposing(lambda self: self.draw().trace)),
        TypeError,
        "Mine.propose returned Trace",
    ),
    Mistake(
        "propose: 3", lambda: tune(search=proposing(lambda self: 3)), TypeError, "returned int"
    ),
    Mistake("ask: None", lambda: tune(search=asking(lambda self, n: None)), TypeError, "NoneType"),
    Mistake(
        "ask: schedules",
        lambda: tune(search=asking(lambda self, n: [one.schedule for one in Random.ask(self, n)])),
        TypeError,
        "a list with Schedule in it",
    ),
    Mistake(
        "ask: too many",
        lambda: tune(search=asking(lambda self, n: Random.ask(self, n + 1))),
        ValueError,
        "return at most 2",
    ),
    Mistake(
        "ask: one twice",
        lambda: tune(search=asking(lambda self, n: Random.ask(self, 1) * n)),
        ValueError,
        "[0, 0]",
    ),
    Mistake(
        "predict: too many",
        lambda: tune(search=model(lambda self, given: np.ones(len(given) + 1))),
        CostModelError,
        "Mine.predict returned scores of shape",
    ),
    Mistake(
        "predict: NaN",
        lambda: tune(search=model(lambda self, given: [float("nan")] * len(given))),
        CostModelError,
        "returned nan for program 0",
    ),
    Mistake(
        "predict: None",
        lambda: tune(search=model(lambda self, given: None)),
        CostModelError,
        "returned NoneType",
    ),
    Mistake(
        "predict: words",
        lambda: tune(search=model(lambda self, given: ["fast"] * len(given))),
        CostModelError,
        "no array of numbers",
    ),
    Mistake(
        "no predict", lambda: tune(search=model(None)), TypeError, "Mine.predict is not a method"
    ),
    Mistake(
        "predict()",
        lambda: tune(search=model(lambda self: None)),
        TypeError,
        "called as predict(feat",
    ),
    Mistake(
        "trained()",
        lambda: tune(search=model(len, trained=lambda self: True)),
        TypeError,
        "trained is a method; make it a property",
    ),
]
