"""What the commands that measure networks have in common: options, and a document that goes on."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _results import store

import schedlang as sl

Rows = Sequence[Mapping[str, Any]]
Keep = Callable[[dict[str, Any]], None]


def add_options(
    parser: argparse.ArgumentParser,
    networks: Iterable[str],
    sides: Iterable[str],
    *,
    rounds: int,
    round_seconds: float,
) -> None:
    """Add the options of networks, sides, timing and files."""
    names = list(networks)
    parser.add_argument(
        "--networks", nargs="+", choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--seconds", type=float, help="of tuning a network, at most")
    parser.add_argument("--threads", type=int, default=sl.Target("cpu").cores)
    parser.add_argument(
        "--sides", nargs="+", choices=[*sides], default=[*sides], help="to be timed"
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--round-seconds", type=float, default=round_seconds, help="of each side")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--databases", type=Path, help="keep the records in this folder")
    parser.add_argument("--json", type=Path, help="write the figures to this file, and go on")


def go_on(
    given: argparse.Namespace,
    measure: Callable[[str, Path, Keep], Any],
    figures: Callable[[Rows], dict[str, Any]],
    table: Callable[[Rows], str],
) -> None:
    """Measure the networks that the document does not have, and print the table.

    ``measure`` takes a network, the folder of the databases, and what keeps its row as it is.
    """
    document: dict[str, Any] = {"rows": []}
    if given.json is not None and given.json.exists():
        document |= json.loads(given.json.read_text(encoding="utf-8"))
    target = sl.Target("cpu", cores=given.threads)
    document |= {"target": target.key, "software": target.provenance(), "trials": given.trials}
    done = {row["network"] for row in document["rows"] if row["complete"]}
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.databases or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (name for name in given.networks if name not in done):
            others = [row for row in document["rows"] if row["network"] != name]

            def keep(row: dict[str, Any], others: list[dict[str, Any]] = others) -> None:
                document["rows"] = [*others, row]
                document["figures"] = figures(document["rows"])
                if given.json is not None:
                    store(document, given.json)

            measure(name, folder, keep)
            print(table(document["rows"]), flush=True)
    if done.issuperset(given.networks):
        print(table(document["rows"]))
