"""What names stand for, and what is wrong with other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from schedlang.errors import SchedlangError
from schedlang.search.tasks import (
    SCHEDULERS,
    GradientScheduler,
    ObjectiveError,
    Requirements,
    Speedup,
    TaskProgress,
    TotalLatency,
    UserObjective,
    make_scheduler,
)


class Own:
    def __init__(self, answer: Any = 0) -> None:
        self.answer = answer

    def next(self, progress: Sequence[TaskProgress]) -> Any:
        return self.answer


@pytest.mark.parametrize("name", SCHEDULERS)
def test_names(name: str) -> None:
    scheduler = make_scheduler(name, patience=7, seed=3)
    assert scheduler.name == name
    assert scheduler.settings["patience"] == 7 and scheduler.settings["seed"] == 3
    assert scheduler.settings["objective"] == "latency"


def test_objectives() -> None:
    def objective(*given: Any, **others: Any) -> Any:
        return make_scheduler(*given, **others).objective  # type: ignore[union-attr]

    assert type(objective()) is TotalLatency
    assert type(objective(objective="speedup")) is Speedup
    assert objective(objective="requirements", limits=0.5).limits == (0.5,)
    assert objective(objective="requirements", limits=[1, 2], networks=2).limits == (1.0, 2.0)
    assert type(objective(objective=max, networks=2)) is UserObjective
    given = Requirements([1.0])
    assert objective(objective=given) is given


def test_settings_tell_schedulers_apart() -> None:
    def settings(**given: Any) -> Any:
        return make_scheduler(**given).settings

    assert settings(objective="requirements", limits=1.0) != settings(
        objective="requirements", limits=2.0
    )
    assert settings(objective=max) != settings(objective=min) != settings()
    assert settings() == settings()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"scheduler": "greedy"},
            "scheduler='greedy'; known: gradient, round_robin, equal_split, or an object",
        ),
        ({"scheduler": 3}, r"scheduler=3 has no next\(progress\)"),
        ({"scheduler": GradientScheduler}, "has no next|give a name"),
        ({"objective": "fast"}, "objective='fast'; known: latency, requirements, speedup, or"),
        ({"objective": None}, "objective=None; known"),
        ({"objective": "requirements"}, "needs limits="),
        ({"limits": [1.0]}, r"limits=\[1.0\] need objective='requirements', not 'latency'"),
        ({"objective": "requirements", "limits": [1.0, 2.0]}, "2 for 1 networks"),
        ({"objective": "requirements", "limits": 1.0, "networks": 2}, "1 for 2 networks"),
        ({"objective": "requirements", "limits": [-1.0]}, "-1.0 is not a latency"),
        ({"objective": "requirements", "limits": [float("nan")]}, "nan is not a latency"),
        ({"patience": 0}, "patience=0; give a whole number of trials"),
        ({"patience": 2.5}, "patience=2.5"),
        ({"scheduler": Own(), "patience": 4}, "patience=4 beside a scheduler object"),
        ({"scheduler": Own(), "objective": "speedup"}, "objective='speedup' beside"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_scheduler(**wrong)


def test_a_function_that_does_not_work_is_refused_at_once() -> None:
    with pytest.raises(ObjectiveError, match="raised IndexError"):
        make_scheduler(objective=lambda latencies: latencies[1])
    with pytest.raises(ObjectiveError, match="returned nan"):
        make_scheduler(objective=lambda latencies: float("nan"))


@pytest.mark.parametrize("setting", ["alpha", "epsilon", "beta", "window"])
def test_wrong_settings_of_the_gradient_are_named(setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}=-1"):
        GradientScheduler(**{setting: -1})  # type: ignore[arg-type]


OPEN, FULL = TaskProgress((1,)), TaskProgress((1,), most=0)


def test_an_object_of_the_user_decides() -> None:
    scheduler = make_scheduler(Own(1))
    assert scheduler.name == "Own" and scheduler.settings == {}
    assert scheduler.next([FULL, OPEN]) == 1
    assert make_scheduler(Own(None)).next([OPEN]) is None
    ours = GradientScheduler(alpha=0.5)
    assert make_scheduler(ours) is ours


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (2, "'Own': next returned 2 for 2 tasks"),
        (-1, "next returned -1"),
        (0, "returned task 0, which takes no more trials"),
        ("1", "returned '1'; return the index of a task, or None"),
        (True, "returned True"),
        (1.0, "returned 1.0"),
    ],
)
def test_its_mistakes_are_told(answer: Any, message: str) -> None:
    with pytest.raises(SchedlangError, match=message):
        make_scheduler(Own(answer)).next([FULL, OPEN])


def test_tasks_need_a_weight_for_each_network() -> None:
    with pytest.raises(ValueError, match="give each task a number for every network"):
        make_scheduler().next([OPEN, TaskProgress((1, 2))])
