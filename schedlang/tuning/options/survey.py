"""What ``survey`` takes."""

from __future__ import annotations

from dataclasses import replace

from schedlang.tuning.options.option import BUDGET, Option, whole
from schedlang.tuning.options.tune import OF_TUNE

SURVEY_SIZE = 5_000
"""Approximate number of ways through the part of the default space that ``survey`` measures."""

SURVEY = (
    replace(OF_TUNE["workload"], help="what to survey"),
    replace(OF_TUNE["target"], help="the machine to measure on"),
    replace(
        OF_TUNE["space"],
        help="what to measure as a whole, instead of a part of the target's own space",
        more="a `Space` or a module",
    ),
    Option(
        "size",
        "int",
        "approximate number of ways through the part of the target's own space",
        SURVEY_SIZE,
        BUDGET,
        wrong=whole(1),
    ),
    replace(
        OF_TUNE["seconds"],
        help="wall time of measuring, with that of earlier calls that the `database` has",
        more="",
    ),
    replace(OF_TUNE["seed"], help="seed of the part, of the order and of the random inputs"),
    replace(
        OF_TUNE["database"],
        help="where records go; the same call with it continues an unfinished survey",
        more="one of its own for each survey",
    ),
    OF_TUNE["progress"],
)
"""The parameters of ``survey``, in the order of its signature."""
