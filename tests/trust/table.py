"""The tables of docs/trust.md: ``python -m tests.trust.table`` writes them.

They hold the programs of the catalogue, and what ``benchmarks/gauntlet.py --json`` found of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.trust.attack import Attack, Subject
from tests.trust.catalogue import SUBJECTS, attacks
from tests.trust.gauntlet import after
from tests.trust.open_attacks import OPEN

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "trust.md"
RESULTS = ROOT / "benchmarks" / "results" / "gauntlet.json"
NAMES = ("wrong programs", "right programs", "open attacks")

Found = dict[tuple[str, str], dict[str, Any]]


def found() -> Found:
    """Return what the benchmark wrote about each program, by workload and program."""
    if not RESULTS.exists():
        return {}
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {(row["subject"], row["attack"]): row for row in document["programs"]}


def with_tables(text: str, known: Found) -> str:
    """Return the document with the tables as they are now."""
    for name, table in zip(
        NAMES, (_wrong_table(known), _right_table(known), _open_list()), strict=True
    ):
        first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, begun, rest = text.partition(first)
        _, ended, after_it = rest.partition(last)
        if not (begun and ended):
            raise ValueError(f"{DOCUMENT.name} has no place for {name}")
        text = before + first + table + last + after_it
    return text


def _wrong_table(known: Found) -> str:
    rows = [
        (
            attack.kind,
            f"| {attack.kind} | {subject.name} | {attack.name} "
            f"| {_ending(attack)} | {_count(known, subject.name, attack.name)} |",
        )
        for subject, attack in attacks(right=False)
    ]
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    lines = [row for kind in kinds for other, row in rows if other == kind]
    return _table("| kind | workload | program | ends as | accepted |", lines)


def _right_table(known: Found) -> str:
    pairs: list[tuple[Subject, str]] = [(s, attack.name) for s, attack in attacks(right=True)]
    pairs += [
        (subject, after(attack))
        for subject in SUBJECTS.values()
        if subject.followers
        for attack in subject.attacks
    ]
    lines = [f"| {s.name} | {name} | {_count(known, s.name, name)} |" for s, name in pairs]
    return _table("| workload | program | refused |", lines)


def _open_list() -> str:
    lines = [f"* {name}: {reason}" for name, reason in OPEN.items()]
    return "\n".join(lines or ["There is none."]) + "\n"


def _ending(attack: Attack) -> str:
    if attack.name in OPEN:
        return "beyond the limits"
    statuses = ", ".join(f"`{status}`" for status in sorted(attack.caught))
    return f"{statuses}, in the finals at the latest" if attack.finals else statuses


def _count(known: Found, subject: str, attack: str) -> str:
    row = known.get((subject, attack))
    return "not run" if row is None else f"{row['failures']} of {row['tries']}"


def _table(heading: str, lines: list[str]) -> str:
    rule = "|" + "---|" * (heading.count("|") - 1)
    return "\n".join([heading, rule, *lines]) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(
        with_tables(DOCUMENT.read_text(encoding="utf-8"), found()), encoding="utf-8"
    )
