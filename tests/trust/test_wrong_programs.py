"""No wrong program is accepted."""

from __future__ import annotations

import pytest

from tests.trust.attack import Attack, Subject
from tests.trust.benchmark_only import BENCHMARK_ONLY
from tests.trust.catalogue import attacks
from tests.trust.conftest import Judge

pytestmark = pytest.mark.slow

CASES = [
    (subject, attack)
    for subject, attack in attacks(right=False)
    if not subject.followers and attack.name not in BENCHMARK_ONLY
]


@pytest.mark.parametrize(
    ("subject", "attack"), CASES, ids=[f"{s.name}-{attack.name}" for s, attack in CASES]
)
def test_a_wrong_program_is_refused(subject: Subject, attack: Attack, verdict: Judge) -> None:
    found = verdict(subject, attack)
    assert not found.accepted
    assert found.expected, f"{found.by}: {found.message}"


def test_there_are_many_of_many_kinds() -> None:
    assert len(CASES) >= 100
    assert len({attack.kind for _, attack in CASES}) >= 12
