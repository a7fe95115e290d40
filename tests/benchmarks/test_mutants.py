"""The mutants of ``benchmarks/mutants.py``: one change each, and only where a test could see it."""

from __future__ import annotations

import ast

import mutants
from _mutations import Mutation, mutations

SOURCE = '''"""Counts 1 and 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    LIMIT = 1 + 2

MOST = 4  # größer als 3


def chosen(values: list[int], least: Literal[1, 2] = 1, *, whole: bool = True) -> int | None:
    """Return the first value above 1 and not 2."""
    assert least > 0, "1 or more"
    found = {}
    for ä, value in enumerate(values, least):
        if value < MOST and not whole:
            continue
        found[ä] = value * 2
        found[ä] += 1
    if not found:
        raise ValueError(f"of {len(values) - 1} values none is above {least + 1}")
    found.update(zip(values, values[1:], strict=True))
    return max(found, key=lambda name: (
        name, 3
    ))
'''


def changes(source: str = SOURCE) -> list[Mutation]:
    return [change for statement in mutations(source) for change in statement]


def test_each_change_is_valid_python_that_differs() -> None:
    dumps = [ast.dump(ast.parse(change.applied(SOURCE))) for change in changes()]
    assert len({ast.dump(ast.parse(SOURCE)), *dumps}) == len(dumps) + 1


def test_operators_change_what_they_say() -> None:
    found = {(change.operator, change.before, change.after) for change in changes()}
    assert found >= {
        ("comparison", "value < MOST", "value <= MOST"),
        ("constant", "4", "5"),
        ("constant", "4", "3"),
        ("negation", "True", "False"),
        ("negation", "not whole", "whole"),
        ("negation", "value < MOST and not whole", "not (value < MOST and (not whole))"),
        ("arithmetic", "value * 2", "value / 2"),
        ("arithmetic", "found[ä] += 1", "found[ä] -= 1"),
        ("and, or", "value < MOST and not whole", "value < MOST or not whole"),
        ("deletion", "continue", "pass"),
        ("deletion", "found[ä] = value * 2", "pass"),
        ("arguments", "enumerate(values, least)", "enumerate(least, values)"),
    }
    assert {after for operator, _, after in found if operator == "return"} == {"return None"}


def test_docstrings_annotations_assertions_and_texts_of_errors_are_left() -> None:
    for kept in (
        '"""Counts 1 and 2."""',
        '"""Return the first value above 1 and not 2."""',
        "LIMIT = 1 + 2",
        "least: Literal[1, 2]",
        'assert least > 0, "1 or more"',
        'ValueError(f"of {len(values) - 1} values none is above {least + 1}")',
        "strict=True",
        "größer als 3",
    ):
        for change in changes():
            gone = change.operator == "deletion" and kept in change.before
            assert gone or kept in change.applied(SOURCE), change


def test_it_says_what_a_call_runs_and_on_which_lines() -> None:
    by_text = {change.before: change for change in changes()}
    assert not by_text["4"].called
    assert not by_text["True"].called
    assert by_text["continue"].called
    assert SOURCE.splitlines()[by_text["continue"].line - 1].strip() == "continue"
    condition = by_text["value < MOST and not whole"]
    assert condition.line == condition.last
    last = by_text["3"]
    assert last.last - last.line == 2


def test_a_seed_draws_the_same_mutants_and_a_lower_count_the_first_of_them() -> None:
    places = ["schedlang/shapes/plan.py", "schedlang/files.py"]
    found = mutants.drawn(places, 0, 8)
    assert found == mutants.drawn(places, 0, 8)
    assert found[:3] == mutants.drawn(places, 0, 3)
    assert found != mutants.drawn(places, 1, 8)
    statements = {(one.file, one.change.line) for one in found}
    assert len(statements) == 8


def test_the_fastest_tests_that_run_a_statement_try_it() -> None:
    seconds = {"a.py::slow": 9.0, "a.py::fast": 1.0, "b.py::faster": 0.5, "c.py::other": 0.1}
    lines = {"x.py": {"3": [0, 1], "4": [2], "9": [3]}}
    record = mutants.Record("", seconds, lines)

    def tests(budget: float, called: bool = True, file: str = "x.py") -> list[str]:
        change = Mutation(3, 4, called, "deletion", "f()", "pass", 0)
        return record.tests(mutants.Mutant(file, change), budget)

    assert tests(60.0) == ["b.py::faster", "a.py::fast", "a.py::slow"]
    assert tests(2.0) == ["b.py::faster", "a.py::fast"]
    assert tests(0.1) == ["b.py::faster"]
    assert tests(1.0, called=False) == ["c.py::other", "b.py::faster"]
    assert tests(60.0, file="y.py") == []
