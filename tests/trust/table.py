"""The pages that list the programs: ``python -m tests.trust.table`` writes them.

The tables of ``PAGES`` hold the programs of the catalogue, and what ``benchmarks/gauntlet.py
--json`` found of each.
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
RESULTS = ROOT / "benchmarks" / "results" / "gauntlet.json"
PAGES = {
    ROOT / "docs" / "trust.md": ("open attacks",),
    RESULTS.with_suffix(".md"): ("wrong programs", "right programs"),
}
"""Each page with the names of its tables."""

Found = dict[tuple[str, str], dict[str, Any]]


def found() -> Found:
    """Return what the benchmark wrote about each program, by workload and program."""
    if not RESULTS.exists():
        return {}
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {(row["subject"], row["attack"]): row for row in document["programs"]}


def pages(known: Found) -> dict[Path, str]:
    """Return each page with its tables as they are now."""
    tables = {
        "wrong programs": _wrong_table(known),
        "right programs": _right_table(known),
        "open attacks": _open_list(),
    }
    return {
        page: _with_tables(page, {name: tables[name] for name in names})
        for page, names in PAGES.items()
    }


def _with_tables(page: Path, tables: dict[str, str]) -> str:
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, begun, rest = text.partition(first)
        _, ended, after_it = rest.partition(last)
        if not (begun and ended):
            raise ValueError(f"{page.name} has no place for {name}")
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
    for page, text in pages(found()).items():
        page.write_text(text, encoding="utf-8")
