"""What a search saves of itself, as JSON values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from schedlang.errors import SchedlangError
from schedlang.measurement import Measurement, Status
from schedlang.measurement.disturbance import Disturbance

VERSION = 2

T = TypeVar("T")


def dump_state(name: str, state: Mapping[str, Any]) -> str:
    """Write the state of the search called ``name`` as one line of JSON."""
    return json.dumps({"search": name, "version": VERSION, **state}, separators=(",", ":"))


def load_state(name: str, text: str, read: Callable[[Any], T]) -> T:
    """Apply ``read`` to a state that ``dump_state`` wrote; SchedlangError for any other text."""
    try:
        state = json.loads(text)
        found = state["search"], state["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise SchedlangError(f"this is not the saved state of a search: {error!r}") from None
    if found != (name, VERSION):
        raise SchedlangError(
            f"this is the state of search {found[0]!r}, version {found[1]}; {name!r}, version "
            f"{VERSION}, cannot continue it"
        )
    try:
        return read(state)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise SchedlangError(f"the saved state of {name!r} is damaged: {error!r}") from None


def dump_rng(rng: random.Random) -> list[Any]:
    """Return the state of a generator as JSON values."""
    version, words, spare = rng.getstate()
    return [version, list(words), spare]


def load_rng(rng: random.Random, state: Any) -> None:
    """Put a generator into a state that ``dump_rng`` returned."""
    version, words, spare = state
    rng.setstate((version, tuple(words), spare))


def dump_measurement(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement as JSON values; no search learns from when and where it was taken."""
    values = asdict(replace(measurement, worker=None, phases=()))
    del values["worker"], values["phases"]
    return {**values, "status": str(measurement.status)}


def load_measurement(stored: Mapping[str, Any]) -> Measurement:
    """Read a measurement that ``dump_measurement`` wrote."""
    values = {**stored, "status": Status(stored["status"]), "samples": tuple(stored["samples"])}
    if values.get("disturbance") is not None:
        values["disturbance"] = Disturbance(**values["disturbance"])
    return Measurement(**values)
