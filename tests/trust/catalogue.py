"""All subjects, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterator

from tests.trust.attack import Attack, Subject
from tests.trust.subjects import (
    calls,
    ends,
    floats,
    indices,
    integers,
    large,
    matmul,
    narrow,
    normalisation,
    odd_matmul,
    oscillations,
    processes,
    rows,
    scatter,
    scratch,
    selections,
    signs,
    stages,
    state,
    sums,
    updates,
    windows,
)

_TOPICS = (
    matmul,
    calls,
    odd_matmul,
    stages,
    scratch,
    updates,
    windows,
    normalisation,
    narrow,
    sums,
    selections,
    indices,
    scatter,
    rows,
    floats,
    oscillations,
    integers,
    ends,
    signs,
    large,
    processes,
    state,
)
SUBJECTS: dict[str, Subject] = {
    subject.name: subject
    for topic in _TOPICS
    for value in vars(topic).values()
    for subject in (value.values() if isinstance(value, dict) else (value,))
    if isinstance(subject, Subject)
}


def attacks(*, right: bool) -> Iterator[tuple[Subject, Attack]]:
    """Yield the right programs or the wrong ones, with their subjects."""
    for subject in SUBJECTS.values():
        for attack in subject.attacks:
            if attack.right == right:
                yield subject, attack
