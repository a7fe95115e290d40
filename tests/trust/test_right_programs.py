"""No right program is refused, however odd it looks."""

from __future__ import annotations

import pytest

from tests.trust.attack import Attack, Subject
from tests.trust.catalogue import attacks
from tests.trust.conftest import Judge

pytestmark = pytest.mark.slow

CASES = list(attacks(right=True))


@pytest.mark.parametrize(
    ("subject", "attack"), CASES, ids=[f"{s.name}-{attack.name}" for s, attack in CASES]
)
def test_a_right_program_is_accepted(subject: Subject, attack: Attack, verdict: Judge) -> None:
    found = verdict(subject, attack)
    assert found.accepted, f"{found.by}: {found.message}"


def test_there_are_many() -> None:
    assert len(CASES) >= 40
