"""The pages show the attacks as they are, and what the gauntlet last found."""

from __future__ import annotations

import pytest

from tests.trust.attack import Attack, Subject, edit
from tests.trust.benchmark_only import BENCHMARK_ONLY
from tests.trust.catalogue import SUBJECTS, attacks
from tests.trust.open_attacks import OPEN
from tests.trust.table import found, pages

ALL = [*attacks(right=False), *attacks(right=True)]


def test_the_tables_are_current() -> None:
    for page, text in pages(found()).items():
        assert page.read_text(encoding="utf-8") == text, "run python -m tests.trust.table"


def test_names_are_unique() -> None:
    names = [attack.name for _, attack in ALL]
    assert len(set(names)) == len(names)
    assert set(OPEN) | BENCHMARK_ONLY <= set(names)


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_every_program_differs_from_its_workload(subject: Subject) -> None:
    bodies = [subject.body]
    for attack in subject.attacks:
        changed = subject.body
        for change in attack.changes:
            changed = change(changed)
        bodies.append(changed)
    assert len(set(bodies)) == len(bodies)


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="the program has no 'z'"):
        edit("z", "w")("x = y")


def test_what_must_be_refused_says_how() -> None:
    assert all(attack.caught for _, attack in attacks(right=False))
    assert not any(
        isinstance(attack, Attack) and attack.caught for _, attack in attacks(right=True)
    )
