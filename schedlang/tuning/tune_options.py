"""What an option is, and the options of ``tune``.

Every parameter is declared once, as an ``Option``: its type, default, help, and what checks it.
The options of the other calls (``schedlang.tuning.options``) are made of those of ``tune``.
Nothing here imports TVM or NumPy: the command line answers ``--help`` with it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from schedlang.measurement.protocol import wrong_verify

# -- One parameter, and what checks values of many ------------------------------------------------

REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""

BUDGET, STOP, SEARCH = "Budget", "Ends early", "Search"
MEASURING, KEPT, OUTPUT = "Measuring", "What is kept", "Output"
RANGES = "Kernels of ranges"
"""Groups of options, by which the command line shows them."""


@dataclass(frozen=True)
class Option:
    """One parameter.

    Attributes
    ----------
    name: its keyword.
    type: its annotation, as the signature has it.
    help: what it is, in one sentence that the command line and docs/ show. Backticks stand around
        names of options, which the command line spells with dashes.
    default: ``REQUIRED`` if it has none.
    group: which options it stands with; empty for the main ones.
    more: what docs/ say besides, in Markdown.
    wrong: returns what to give instead of a wrong value; an empty text for a right one. None where
        the part that uses the value checks it.
    identity: its place among the values that identify a run: calls that differ in one of them do
        not continue the run of each other. ``"given"``: it counts where it is given, with its name,
        so that runs from before it was there keep their identity; what is added later counts so.
        ``"key"``: it counts by its key. None: it does not count.
    """

    name: str
    type: str
    help: str
    default: Any = None
    group: str = ""
    more: str = ""
    wrong: Callable[[Any], str] | None = None
    identity: int | Literal["given", "key"] | None = None

    def refusal(self, value: Any) -> str:
        """Return what to give instead of a value; empty if it is right, as the default is."""
        if self.wrong is None or value is self.default:
            return ""
        return self.wrong(value)


def whole(least: int) -> Callable[[Any], str]:
    """Return the check for a whole number that is at least ``least``."""

    def wrong(value: Any) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return "" if fits else f"give a whole number, {least} or more"

    return wrong


def wrong_for_all_tasks(tolerance: Any) -> str:
    """Return what to give instead of tolerances by output, which tasks do not have in common."""
    if not isinstance(tolerance, Mapping):
        return ""
    return "give one number, or (relative, absolute), for all tasks: each has outputs of its own"


def wrong_seconds(value: Any) -> str:
    """Return what to give instead of a wall-clock budget that is none."""
    if isinstance(value, int | float) and 0 < value < math.inf:
        return ""
    return "give a positive number; None disables the limit"


def wrong_share(value: Any) -> str:
    """Return what to give instead of a part of a whole that is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return ""
    return "give a fraction such as 0.2"


def wrong_loss(value: Any) -> str:
    """Return what to give instead of a bound on losses that is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return ""
    return "give a fraction such as 0.05"


def check_values(options: tuple[Option, ...], values: Mapping[str, Any]) -> None:
    """ValueError for the first value that its option refuses."""
    for option in options:
        refusal = option.refusal(values[option.name])
        if refusal:
            raise ValueError(f"{option.name}={values[option.name]!r}; {refusal}")


def identifying(options: tuple[Option, ...], values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what identifies a run besides the keys of workload and target, in a fixed order.

    ``values``: what counts of each option that counts. KeyError where one is missing.
    """
    placed = [option for option in options if isinstance(option.identity, int)]
    for option in sorted(placed, key=lambda option: int(option.identity or 0)):
        yield values[option.name]
    for option in options:
        if option.identity == "given" and option.name in values:
            yield option.name, values[option.name]


# -- The options of ``tune`` ----------------------------------------------------------------------

TRIALS, TRIALS_WITH_RULES = 64, 1000
"""Most candidates where neither trials nor seconds are given; the second with stop rules."""
BATCH = 16

OWN_INPUTS = "see [your own inputs](tuning.md#your-own-inputs)"
"""Where docs/ say how inputs, tolerances and references are given."""

TUNE = (
    Option(
        "workload",
        "Workload | Any",
        "what to tune",
        REQUIRED,
        more="a `Workload`, or what makes one: a PrimFunc, an IRModule, TE tensors",
        identity="key",
    ),
    Option("target", "Target | str", "the machine to tune for", "cpu", identity="key"),
    Option(
        "space",
        "Space | Module | None",
        "what to search, instead of the target's own space",
        group=SEARCH,
        more="a `Space` or a module; by default that of a strategy given as `search`, else "
        "`sl.default_space(target)`",
        identity=0,
    ),
    Option(
        "trials",
        "int | None",
        f"maximum number of candidates to measure; {TRIALS} where `seconds` is not given either, "
        f"{TRIALS_WITH_RULES} with `stop_when`",
        group=BUDGET,
        more="a rejected candidate does not count",
        wrong=whole(1),
    ),
    Option(
        "seconds",
        "float | None",
        "wall time of the whole call, finals included",
        group=BUDGET,
        more="it returns the best so far; a call that continues a run gets what earlier calls left "
        "of it ([budgets](searches.md#budgets))",
        wrong=wrong_seconds,
    ),
    Option(
        "seed",
        "int",
        "seed of the search and of the random inputs",
        0,
        SEARCH,
        wrong=whole(0),
        identity=1,
    ),
    Option(
        "search",
        "str | MakeStrategy | Strategy",
        "how to search: the name of a search, or `auto` for what measured best",
        "auto",
        SEARCH,
        more="or a class, or a strategy made for this space and workload that no run has used: see "
        "[searches.md](searches.md)",
        identity=4,
    ),
    Option(
        "batch",
        "int | None",
        "maximum number of candidates to ask the search for at a time; by default "
        f"{BATCH}, and more for a measurer that works on many",
        group=SEARCH,
        wrong=whole(1),
    ),
    Option(
        "database",
        "Database | str | os.PathLike[str] | None",
        "where records go; the same call with it continues an interrupted run",
        group=KEPT,
        more="a path, or a `Database`; by default they are kept in memory only",
    ),
    Option("remeasure", "bool", "start again, and ignore what the database holds", False, KEPT),
    Option(
        "transfer",
        "bool",
        "start from the fastest programs that the database has for this workload and similar ones",
        True,
        KEPT,
        identity=3,
    ),
    Option(
        "verify",
        "Verify",
        "compare results with the unscheduled program's: `True` for candidates that could win, "
        "`all`, or `False`",
        True,
        MEASURING,
        more="see [verification](tuning.md#verification)",
        wrong=wrong_verify,
        identity=2,
    ),
    Option(
        "inputs",
        "Inputs | None",
        "arrays that programs run on, instead of random ones",
        group=MEASURING,
        more=f"or a function that draws them; {OWN_INPUTS}",
        identity="given",
    ),
    Option(
        "outputs",
        "Sequence[str] | None",
        "names of arguments that are written before they are read, where that cannot be proven",
        None,
        MEASURING,
        more="see [outputs](tuning.md#outputs)",
        identity="key",
    ),
    Option(
        "tolerance",
        "GivenTolerance | None",
        "largest relative error of a right result; with a second number, the absolute one",
        group=MEASURING,
        more=OWN_INPUTS,
        identity="given",
    ),
    Option(
        "reference",
        "ComputeReference | None",
        "function that computes the right results, instead of the unscheduled program",
        group=MEASURING,
        more=OWN_INPUTS,
        identity="given",
    ),
    Option(
        "finals",
        "int",
        "maximum number of candidates to time again at the end; 0 disables the finals",
        5,
        MEASURING,
        wrong=whole(0),
    ),
    Option(
        "measurer",
        "SupportsMeasure | MakeMeasurer | None",
        "what measures the candidates, instead of the target's own",
        group=MEASURING,
        more="one of `sl.measurer` keeps its workers for the next call; any other keeps its own "
        "settings, `verify` included; with `hosts`, a function that makes one on each host",
        identity=6,
    ),
    Option(
        "hosts",
        "Engine | Hosts | None",
        "hosts that tune, instead of this machine",
        group=MEASURING,
        more="a `concurrent.futures.Executor`, a function that makes one, a Dask `Client`, or "
        "`sl.Hosts`: see [many hosts](tutorials/cluster.md)",
    ),
    Option(
        "progress",
        "bool | None",
        "show the run as it goes; by default on a terminal and in a notebook",
        group=OUTPUT,
        more="see [while it runs](tuning.md#while-it-runs)",
    ),
    Option(
        "callbacks",
        "GivenCallbacks",
        "code of yours to call after each candidate",
        (),
        OUTPUT,
        more="see [callbacks](tuning.md#callbacks)",
    ),
    Option(
        "stop_when",
        "GivenRules",
        "rule that ends the search early",
        group=STOP,
        more="or a list of rules, of which one is enough; see [stop rules](tuning.md#stop-rules)",
    ),
    Option("notes", "str | None", "text of yours, kept with the run", group=KEPT),
    Option("tags", "Iterable[str] | None", "words of yours, to find the run by", group=KEPT),
)
"""The parameters of ``tune``, in the order of its signature."""

OF_TUNE = {option.name: option for option in TUNE}
"""The same by name, for what takes some of them too."""
