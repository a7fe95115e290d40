"""Tuning runs as a database keeps them: what each is, and how far it came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """A tuning run. The same call of ``tune`` has the same identity, and goes on with its run.

    What was measured in it are the records with its id, and what the search was asked for its
    asks; ``state`` saves asking again what came before ``state_asks``.

    Attributes
    ----------
    identity: of the call: workload, target, toolchain, space, search and seed.
    workload_key, target_key, toolchain_key: as in its records.
    search, seed: what proposes, and the seed of it.
    created: when it began, in seconds since 1970 (UTC).
    known: id of the newest record when it began; what it knew before its first measurement.
    owner: the process that works at it, ``""`` for none.
    state: what ``Strategy.save`` gave after the first ``state_asks`` asks; ``""`` for none.
    outcome: JSON text of how it ended; ``""`` while it has not.
    id: given by the database; None before.

    Where ``state`` and ``outcome`` name records they do so by id, in JSON objects under
    ``"records"`` (a list), ``"winner"`` and ``"runner_up"``: ``mentioned`` and ``renumbered`` know.
    """

    identity: str
    workload_key: str
    target_key: str
    toolchain_key: str
    search: str
    seed: int
    created: float
    known: int = 0
    owner: str = ""
    state: str = field(default="", repr=False)
    state_asks: int = 0
    outcome: str = field(default="", repr=False)
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the search of a run.

    Attributes
    ----------
    size: so many proposals were asked for.
    seconds: wall time that the run had used before it.
    """

    size: int
    seconds: float


def mentioned(run: Run) -> frozenset[int]:
    """Ids of the records that the run's state and outcome name."""
    found: set[int] = set()
    for text in (run.state, run.outcome):
        found.update(_ids(_object(text) or {}))
    return frozenset(found)


def renumbered(run: Run, ids: Mapping[int, int]) -> Run:
    """The run in a database where its records have other ids.

    A state or an outcome that names others is left out: then the search is asked again.
    """
    state = _renumbered(run.state, ids)
    return replace(
        run,
        state=state,
        state_asks=run.state_asks if state else 0,
        outcome=_renumbered(run.outcome, ids),
    )


def _renumbered(text: str, ids: Mapping[int, int]) -> str:
    stored = _object(text)
    if stored is None or any(number not in ids for number in _ids(stored)):
        return ""
    for name in ("winner", "runner_up"):
        if stored.get(name) is not None:
            stored[name] = ids[stored[name]]
    if "records" in stored:
        stored["records"] = [ids[number] for number in stored["records"]]
    return json.dumps(stored)


def _ids(stored: dict[str, Any]) -> list[int]:
    named = (stored.get("winner"), stored.get("runner_up"))
    return [*stored.get("records", ()), *(number for number in named if number is not None)]


def _object(text: str) -> dict[str, Any] | None:
    """None for what is no JSON object with ids where they belong."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    if not isinstance(stored.get("records", []), list):
        return None
    return stored if all(type(number) is int for number in _ids(stored)) else None
