"""What ``tune``, ``tune_network``, ``tune_shapes`` and ``survey`` take, declared once.

From these tables follow the checks of plain values, the options of the command line, the tables
in ``docs/`` and what identifies a run. The functions write their signatures out, for editors and
type checkers; a test holds signature and table together. The options of ``tune`` itself are in
``tune_options``. Nothing here imports TVM or NumPy: the command line answers ``--help`` with it.
"""

from __future__ import annotations

from dataclasses import replace

from schedlang.tuning.tune_options import (
    BATCH,
    BUDGET,
    KEPT,
    MEASURING,
    OF_TUNE,
    OUTPUT,
    OWN_INPUTS,
    RANGES,
    REQUIRED,
    SEARCH,
    STOP,
    TRIALS,
    TRIALS_WITH_RULES,
    TUNE,
    Option,
    check_values,
    identifying,
    whole,
    wrong_for_all_tasks,
    wrong_loss,
    wrong_seconds,
    wrong_share,
)

__all__ = [
    "BATCH",
    "BUDGET",
    "KEPT",
    "MEASURING",
    "NETWORK_TRIALS",
    "OUTPUT",
    "Option",
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
    "check_values",
    "identifying",
    "whole",
    "wrong_seconds",
]


# -- The options of ``tune_network`` --------------------------------------------------------------

NETWORK_TRIALS = 1000
"""Most candidates of all tasks together, where neither trials nor seconds are given."""

TUNE_NETWORK = (
    Option(
        "network",
        "Network | Sequence[Network]",
        "what to tune",
        REQUIRED,
        more="what `import_network` returns, or a list of such",
        # Of a network, that there is one: its tasks are runs of their own.
        identity=5,
    ),
    OF_TUNE["target"],
    replace(
        OF_TUNE["trials"],
        help="maximum number of candidates to measure, of all tasks together; "
        f"{NETWORK_TRIALS} where `seconds` is not given either",
    ),
    OF_TUNE["seconds"],
    OF_TUNE["seed"],
    Option(
        "scheduler",
        "str | TaskScheduler",
        "how tasks get their trials",
        "gradient",
        SEARCH,
        more='`"gradient"`, `"round_robin"`, `"equal_split"`, or an object with `next(progress)`: '
        "see [searches.md](searches.md#task-schedulers)",
    ),
    Option(
        "objective",
        "str | Objective | Callable[[Sequence[float]], float]",
        "what to minimize: `latency`, `requirements` or `speedup`",
        "latency",
        SEARCH,
        more="or `f(latencies)` of the networks' latencies in seconds",
    ),
    Option(
        "limits",
        "float | Sequence[float] | None",
        "latency in seconds that is fast enough, for the objective requirements",
        group=SEARCH,
        more="one for each network",
    ),
    Option(
        "patience",
        "int | None",
        "a task gets no more trials after this many without a gain",
        group=BUDGET,
    ),
    replace(
        OF_TUNE["space"],
        help="what to search for tasks that compute, instead of the target's own space",
        more="a `Space` or a module",
    ),
    replace(
        OF_TUNE["search"],
        type="str | MakeStrategy",
        more="or a class; see [searches.md](searches.md)",
    ),
    OF_TUNE["batch"],
    OF_TUNE["database"],
    OF_TUNE["remeasure"],
    OF_TUNE["transfer"],
    OF_TUNE["verify"],
    replace(
        OF_TUNE["tolerance"],
        type="TolerancePair | None",
        more=f"for all outputs of every task; {OWN_INPUTS}",
        wrong=wrong_for_all_tasks,
    ),
    replace(
        OF_TUNE["finals"],
        default=3,
        help="maximum number of programs of a task to time again at the end; 0 disables the finals",
    ),
    OF_TUNE["measurer"],
    OF_TUNE["hosts"],
    OF_TUNE["progress"],
    OF_TUNE["callbacks"],
    replace(OF_TUNE["stop_when"], help="rule that ends the search of a task early"),
    OF_TUNE["notes"],
    OF_TUNE["tags"],
)
"""The parameters of ``tune_network``, in the order of its signature."""

OF_NETWORK = {option.name: option for option in TUNE_NETWORK}
"""The same by name, for what takes some of them too."""


# -- The options of ``tune_shapes`` ---------------------------------------------------------------

TUNE_SHAPES = (
    Option(
        "template",
        "Callable[..., Any]",
        "what to tune: a function of extents that returns a program",
        REQUIRED,
        more="TE tensors, a PrimFunc, a `Workload`",
    ),
    Option(
        "shapes",
        "Any",
        "extents by name, and ranges of them",
        REQUIRED,
        more='mappings such as `{"rows": 64, "width": range(1, 769)}`, alone or in pairs with a '
        "weight, or the path of a log with one in JSON on each line",
    ),
    OF_TUNE["target"],
    replace(
        OF_TUNE["trials"],
        type="int",
        help="number of candidates to measure of each shape that is tuned in earnest",
        default=TRIALS,
        more="",
    ),
    Option(
        "share",
        "float",
        "part of the measurements that tuning each single shape by itself would take, for all of "
        "them",
        0.2,
        BUDGET,
        more="ranges have trials of their own",
        wrong=wrong_share,
    ),
    Option(
        "loss",
        "float",
        "how much slower than the best known program the shapes of a range may be in the "
        "geometric mean, before another kernel is added",
        0.05,
        RANGES,
        wrong=wrong_loss,
    ),
    Option(
        "worst",
        "float",
        "how much slower than the best known program each of those shapes may be",
        0.15,
        RANGES,
        wrong=wrong_loss,
    ),
    Option(
        "kernels",
        "int",
        "maximum number of kernels of a range, besides the default schedule",
        6,
        RANGES,
        wrong=whole(1),
    ),
    Option(
        "exact",
        "int",
        "where one extent of a range varies, each value up to this one has a kernel of its own",
        64,
        RANGES,
        more="0 disables it",
        wrong=whole(0),
    ),
    replace(
        OF_TUNE["seconds"],
        help="wall time of the tuning; kernels of ranges are measured after that",
        more="shapes that are not reached have default schedules",
    ),
    OF_TUNE["seed"],
    replace(
        OF_NETWORK["space"],
        help="what to search for each shape, instead of the target's own space",
    ),
    OF_NETWORK["search"],
    replace(
        OF_TUNE["database"],
        help="where records go; the same call with it goes on from there",
        more="a path, or a `Database`; kernels of ranges are measured again",
    ),
    replace(
        OF_NETWORK["finals"],
        help="maximum number of programs of a shape to time again at the end; 0 disables it",
    ),
    replace(
        OF_TUNE["measurer"], type="Measurer | None", more="one of `sl.measurer` keeps its workers"
    ),
    replace(OF_TUNE["progress"], help="show the shapes as they go; by default on a terminal"),
)
"""The parameters of ``tune_shapes``, in the order of its signature."""


# -- The options of ``survey`` --------------------------------------------------------------------

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
