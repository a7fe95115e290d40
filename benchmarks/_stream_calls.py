"""Calls of ``tune`` on recorded spaces for ``streams.py``: each yields lines of what it measured.

All options that decide are given, so that another default is no other stream.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from _stream_lines import TARGET, Lines, of_database, of_result
from _stream_measurers import RecordedMeasurer
from searches import recorded

import schedlang as sl
from schedlang.database import Database, opened_database
from schedlang.measurement import RecordedSpace

_TUNE: dict[str, Any] = {
    "target": TARGET,
    "trials": 24,
    "seconds": None,
    "batch": 6,
    "database": None,
    "remeasure": False,
    "transfer": False,
    "verify": True,
    "finals": 5,
    "progress": False,
    "callbacks": (),
    "stop_when": None,
}


def plain(path: Path, search: str, seed: int, trials: int) -> Lines:
    """Tune a recorded space; nothing is stored."""
    found = recorded(path)
    given = {"measurer": RecordedMeasurer(found, seed), "trials": trials, "batch": 16}
    yield from of_result(_tuned(found, search, seed, **given))


def _tuned(found: RecordedSpace, search: Any, seed: int, **given: Any) -> sl.TuneResult:
    options = {"measurer": RecordedMeasurer(found), **_TUNE, **given}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (sl.InterruptedWarning, sl.CallbackWarning))
        return sl.tune(found.workload, space=found.space, search=search, seed=seed, **options)


def continued(found: RecordedSpace, search: str, seed: int, *, file: bool) -> Lines:
    """Interrupt a call twice; what continues it should measure what one call does."""
    whole = list(of_result(_tuned(found, search, seed)))
    with tempfile.TemporaryDirectory() as folder:
        database: Any = Path(folder) / "tune.db" if file else Database()
        for until in (9, 6):
            measurer = RecordedMeasurer(found, until=until)
            yield from of_result(_tuned(found, search, seed, database=database, measurer=measurer))
        result = _tuned(found, search, seed, database=database)
        rest = list(of_result(result))
        yield "as one call" if rest == whole else "another stream than that of one call"
        yield f"{result.earlier} of them earlier"
        yield from rest
        again = _tuned(
            found, search, seed, database=database, measurer=RecordedMeasurer(found, until=0)
        )
        yield from of_result(again)
        with opened_database(database) as kept:
            yield from of_database(kept)


def longer(found: RecordedSpace, search: str, seed: int) -> Lines:
    """Ask for more trials of a run that had ended."""
    database = Database()
    for trials in (12, 24):
        yield from of_result(_tuned(found, search, seed, database=database, trials=trials))
    yield from of_database(database)


def after_others(found: RecordedSpace, search: str, seed: int, **given: Any) -> Lines:
    """Tune with a database that holds two earlier runs."""
    database = Database()
    _tuned(found, "random", seed + 1, database=database)
    _tuned(found, search, seed + 2, database=database)
    yield from of_result(_tuned(found, search, seed, database=database, **given))
    yield from of_database(database)


def seconds(found: RecordedSpace, search: str, seed: int) -> Lines:
    """End by the simulated clock, and go on with more seconds."""
    database = Database()
    for limit in (6.0, 12.0):
        given = {"trials": None, "seconds": limit, "database": database}
        yield from of_result(_tuned(found, search, seed, **given))


def failing(found: RecordedSpace, search: str, seed: int) -> Lines:
    """End with an error of the measurer, and go on."""
    database = Database()
    measurer = RecordedMeasurer(found, until=8, error=RuntimeError)
    try:
        _tuned(found, search, seed, database=database, measurer=measurer)
    except RuntimeError as error:
        yield from of_result(error.result)  # type: ignore[attr-defined]
    yield from of_result(_tuned(found, search, seed, database=database))


def called_back(found: RecordedSpace, search: str, seed: int, *, stop: bool) -> Lines:
    """Tell callbacks of each trial; one of them fails, or interrupts the call."""
    seen: list[str] = []

    class Noting(sl.Callback):
        def on_trial(self, trial: sl.Trial) -> None:
            seen.append(f"{trial.trials} {trial.record.program_key} {trial.best!r}")

        def on_best(self, trial: sl.Trial) -> None:
            seen.append(f"best {trial.trials}")

    def ending(trial: sl.Trial) -> None:
        if trial.trials == 9:
            raise KeyboardInterrupt if stop else RuntimeError("a callback that fails")

    yield from of_result(_tuned(found, search, seed, callbacks=[Noting(), ending]))
    yield from seen


def single(found: RecordedSpace, search: str, seed: int, **given: Any) -> Lines:
    """Tune with other options."""
    yield from of_result(_tuned(found, search, seed, **given))


def unverified(found: RecordedSpace, search: str, seed: int, **given: Any) -> Lines:
    """Tune with a measurer that does not verify some programs."""
    yield from single(
        found, search, seed, measurer=RecordedMeasurer(found, unverified="01234567"), **given
    )


def fifteen(trial: sl.Trial) -> str:
    """End after fifteen trials: a rule of a user's."""
    return "fifteen are enough" if trial.trials >= 15 else ""


VARIANTS: Mapping[str, Callable[..., Lines]] = {
    "continued in memory": partial(continued, file=False),
    "continued from a file": partial(continued, file=True),
    "longer": longer,
    "transfer": partial(after_others, transfer=True),
    "no transfer": partial(after_others, transfer=False),
    "remeasure": partial(after_others, transfer=True, remeasure=True),
    "seconds": seconds,
    "failing": failing,
    "callback that stops": partial(called_back, stop=True),
    "callback that fails": partial(called_back, stop=False),
    "no_gain": partial(single, trials=100, stop_when=sl.stop.no_gain(trials=8)),
    "no_gain in seconds": partial(single, trials=100, stop_when=sl.stop.no_gain(seconds=2.0)),
    "rules": partial(single, stop_when=[sl.stop.latency(1e-9), fifteen]),
    "verify=False": partial(single, verify=False),
    "verify='all'": partial(single, verify="all"),
    "unverified": unverified,
    "unverified, no finals": partial(unverified, finals=0),
    "finals=0": partial(single, finals=0),
    "finals=2": partial(single, finals=2),
    "batch=1": partial(single, batch=1),
    "batch=64": partial(single, batch=64),
}


def variant(name: str, path: Path, search: str, seed: int) -> Lines:
    """Tune a recorded space in one of the ways above."""
    yield from VARIANTS[name](recorded(path), search, seed)
