"""What ``tune_shapes`` takes."""

from __future__ import annotations

from dataclasses import replace

from schedlang.tuning.options.option import (
    BUDGET,
    RANGES,
    REQUIRED,
    Option,
    whole,
    wrong_loss,
    wrong_share,
)
from schedlang.tuning.options.tune import OF_TUNE, TRIALS
from schedlang.tuning.options.tune_network import OF_NETWORK

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
