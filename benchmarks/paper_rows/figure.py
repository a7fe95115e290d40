"""A figure of a paper: its rows, its table, its picture, and the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _results import made_with, same_machine, store

Row = dict[str, Any]
Unit = dict[str, Any]


@dataclass
class Settings:
    """How to make a figure.

    Attributes
    ----------
    quick: minutes on few cases, instead of all.
    seeds: number of runs of each search.
    spaces: files of recorded spaces.
    processes: number of simulations at once; what is really measured has the machine for itself.
    folder: keeps the JSON files, the pictures, and the databases of interrupted runs.
    """

    quick: bool
    seeds: int
    spaces: Sequence[Path]
    processes: int
    folder: Path


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper, and how to make ours.

    Attributes
    ----------
    name: on the command line, and in the names of its files.
    source: the paper, and its figures or tables.
    units: what it consists of, given the settings; each has a row.
    job: returns what was found for a unit.
    show: prints the table of all rows.
    draw: draws rows to a PNG file; ``None`` where the table is all.
    simulated: whether several units may run at once.
    """

    name: str
    source: str
    units: Callable[[Settings], Sequence[Unit]]
    job: Callable[[Unit, Settings], Row]
    show: Callable[[Sequence[Row]], None]
    draw: Callable[[Sequence[Row], Path], None] | None = None
    simulated: bool = False


@dataclass
class Kept:
    """The rows of a figure in its JSON file, which is written after each.

    A file of another machine, or of other versions of packages, is not continued. Rows have the
    commit that made them: what changed since may need another folder.
    """

    figure: Figure
    settings: Settings
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.exists():
            found = json.loads(self.path.read_text())
            if same_machine().items() <= found["made_with"].items():
                self.rows = found["rows"]

    @property
    def path(self) -> Path:
        """The JSON file; the picture has the same stem."""
        quick = "_quick" if self.settings.quick else ""
        return self.settings.folder / f"papers_{self.figure.name}{quick}.json"

    def missing(self, units: Sequence[Unit]) -> list[Unit]:
        """Forget rows of other units; return the units without a row."""
        self.rows = [row for row in self.rows if row["unit"] in units]
        known = [row["unit"] for row in self.rows]
        return [unit for unit in units if unit not in known]

    def keep(self, unit: Unit, found: Row) -> None:
        """Add a row, and write the file."""
        self.rows.append({"unit": unit, "commit": made_with()["commit"]} | found)
        store({"figure": self.figure.source, "rows": self.rows}, self.path)

    def in_order(self, units: Sequence[Unit]) -> list[Row]:
        """Return the rows in the order of the units."""
        return sorted(self.rows, key=lambda row: units.index(row["unit"]))


def grouped(rows: Sequence[Row], field: str) -> dict[str, list[Row]]:
    """Return the rows by a field of their units, in the order in which its values come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["unit"][field], []).append(row)
    return found


def database_of(unit: Unit, settings: Settings) -> Path:
    """Return the database in which an interrupted run of a unit goes on."""
    name = "_".join(str(value) for value in unit.values())
    folder = settings.folder / "papers_databases"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{'quick_' if settings.quick else ''}{name}.db"
