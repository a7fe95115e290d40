"""All cases and misuses of all groups, as parameters of the tests."""

from __future__ import annotations

import pytest

from tests.language.primitives import (
    buffers,
    caches,
    choices,
    layouts,
    lookup,
    loops,
    placement,
    reductions,
    sampling,
    tensors,
)

GROUPS = (
    lookup,
    loops,
    caches,
    placement,
    reductions,
    buffers,
    layouts,
    tensors,
    sampling,
    choices,
)
CASES = [case for group in GROUPS for case in group.CASES]
MISUSES = [misuse for group in GROUPS for misuse in group.MISUSES]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_misuse = pytest.mark.parametrize(
    "misuse",
    MISUSES,
    ids=[f"{misuse.instruction}-{number}" for number, misuse in enumerate(MISUSES)],
)
