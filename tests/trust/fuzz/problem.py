"""A random program, and what numpy says it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload
from tests.trust.fuzz.numbers import Array

Results = Sequence[tuple[Array, Array | None]]
"""The right values of each written tensor, and the largest error of each; None allows no error."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One program.

    Attributes
    ----------
    text: what it is.
    program: what a user would pass to ``sl.tune``.
    draw: gives values of the tensors that are read.
    compute: gives the results for them, by numpy.
    """

    text: str
    program: Any
    draw: Callable[[np.random.Generator], list[Array]]
    compute: Callable[..., Results]

    @cached_property
    def workload(self) -> Workload:
        """The program before scheduling."""
        return as_workload(self.program)
