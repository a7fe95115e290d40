"""All cases of torch operators."""

from __future__ import annotations

from tests.networks.operators import algebra, elementwise, moving, reductions, windows
from tests.networks.operators.case import Case

FAMILIES: dict[str, list[Case]] = {
    "element-wise": elementwise.CASES,
    "reductions": reductions.CASES,
    "moving": moving.CASES,
    "windows": windows.CASES,
    "algebra": algebra.CASES,
}
"""The cases by the kind of the operator."""
