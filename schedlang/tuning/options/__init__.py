"""What ``tune``, ``tune_network``, ``tune_shapes`` and ``survey`` take, declared once.

From these tables follow the checks of plain values, the options of the command line, the tables in
``docs/`` and what identifies a run. The functions write their signatures out, for editors and type
checkers; a test holds signature and table together. Nothing here imports TVM or NumPy: the command
line answers ``--help`` with it.
"""

from schedlang.tuning.options.option import (
    BUDGET,
    KEPT,
    MEASURING,
    OUTPUT,
    RANGES,
    REQUIRED,
    SEARCH,
    STOP,
    Option,
    check_values,
    identifying,
    whole,
    wrong_seconds,
)
from schedlang.tuning.options.survey import SURVEY, SURVEY_SIZE
from schedlang.tuning.options.tune import BATCH, TRIALS, TRIALS_WITH_RULES, TUNE
from schedlang.tuning.options.tune_network import NETWORK_TRIALS, TUNE_NETWORK
from schedlang.tuning.options.tune_shapes import TUNE_SHAPES

__all__ = [
    "BATCH",
    "BUDGET",
    "KEPT",
    "MEASURING",
    "NETWORK_TRIALS",
    "OUTPUT",
    "RANGES",
    "REQUIRED",
    "SEARCH",
    "STOP",
    "SURVEY",
    "SURVEY_SIZE",
    "TRIALS",
    "TRIALS_WITH_RULES",
    "TUNE",
    "TUNE_NETWORK",
    "TUNE_SHAPES",
    "Option",
    "check_values",
    "identifying",
    "whole",
    "wrong_seconds",
]
