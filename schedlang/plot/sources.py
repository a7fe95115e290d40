"""What charts are made of: one run or several, each with a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedlang.database.history import RunHistory


class HasHistory(Protocol):
    """What ``tune`` returns."""

    @property
    def history(self) -> RunHistory:
        """The run."""


OneRun = RunHistory | HasHistory
Runs = OneRun | list[Any] | tuple[OneRun, ...] | Mapping[str, Any]
"""A run, several, or several with names."""


def histories_of(given: Runs) -> dict[str, RunHistory]:
    """Return runs by name; those without one are named by what tells them apart.

    TypeError for what is no run, ValueError for an empty collection.
    """
    if isinstance(given, Mapping):
        found = {str(name): history_of(one) for name, one in given.items()}
        if len(found) < len(given):
            raise ValueError(f"{list(given)}: two runs have the same name as text")
    elif isinstance(given, list | tuple):
        histories = [history_of(one) for one in given]
        found = dict(zip(names_of(histories), histories, strict=True))
    else:
        history = history_of(given)
        found = {history.name: history}
    if not found:
        raise ValueError("no run is given; give what tune returns, or several of it in a list")
    return found


def one_run(chart: str, given: Runs) -> tuple[str, RunHistory]:
    """Return the run of a chart that shows one, with its name; ValueError for several."""
    histories = histories_of(given)
    if len(histories) > 1:
        raise ValueError(f"{chart} shows one run, not {len(histories)}; give one of them")
    [found] = histories.items()
    return found


def history_of(given: object) -> RunHistory:
    """Return the history of what is given; TypeError where it has none."""
    history = given if isinstance(given, RunHistory) else getattr(given, "history", None)
    if isinstance(history, RunHistory):
        return history
    more = ""
    if hasattr(given, "tasks"):
        more = "; of a network give its tasks: [task.result for task in result.tasks]"
    elif isinstance(given, str) or hasattr(given, "__fspath__"):
        more = f"; of a file give schedlang.database.history({str(given)!r})"
    raise TypeError(
        f"a chart takes what tune returns, or a RunHistory, not {type(given).__name__}{more}"
    )


def names_of(histories: Sequence[RunHistory]) -> list[str]:
    """Return a name for each run, no two of them equal."""
    ways = (
        [history.name for history in histories],
        [history.run.search for history in histories],
        [f"{one.name}, {one.run.search}" for one in histories],
        [f"{one.run.search}, seed {one.run.seed}" for one in histories],
        [f"{one.name}, {one.run.search}, seed {one.run.seed}" for one in histories],
    )
    for names in ways:
        if len(set(names)) == len(names):
            return names
    counts: Counter[str] = Counter()
    unique = []
    for name in ways[-2]:
        counts[name] += 1
        unique.append(f"{name} ({counts[name]})")
    return unique
