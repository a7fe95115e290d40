"""All programs, in the order of the table."""

from __future__ import annotations

from tests.bring_your_own.program import Program
from tests.bring_your_own.programs import (
    bits,
    convolutions,
    elementwise,
    indexing,
    linear_algebra,
    networks,
    reductions,
    relax_functions,
    scans,
    stencils,
)

_TOPICS = (
    elementwise,
    bits,
    reductions,
    scans,
    indexing,
    linear_algebra,
    stencils,
    convolutions,
    networks,
    relax_functions,
)
PROGRAMS: dict[str, Program] = {
    value.name: value
    for topic in _TOPICS
    for value in vars(topic).values()
    if isinstance(value, Program)
}
