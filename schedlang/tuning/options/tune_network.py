"""What ``tune_network`` takes."""

from __future__ import annotations

from dataclasses import replace

from schedlang.tuning.options.option import (
    BUDGET,
    REQUIRED,
    SEARCH,
    Option,
    wrong_for_all_tasks,
)
from schedlang.tuning.options.tune import OF_TUNE, OWN_INPUTS

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
