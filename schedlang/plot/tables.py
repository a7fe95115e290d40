"""The numbers behind charts and reports, computed from a ``RunHistory``."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from schedlang.database.history import RunHistory
from schedlang.database.programs import workload_of
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Rejections
from schedlang.errors import SchedlangError, TargetError
from schedlang.interpreters.document import stored_decisions, stored_modules
from schedlang.measurement.finals import Interval, mann_whitney, median_interval
from schedlang.targets import Target
from schedlang.targets.roofline import RooflineBound, peak_of, roofline_of
from schedlang.tuning.decision_importance import MOST_TRACES, Importance, importance

# -- The decisions of candidates as columns, and what each has to do with latency -----------------

MOST_VALUES = 24
"""Number of values of a decision that a chart shows; rarer ones are one value, ``OTHER``."""
OTHER = "other"
NOT_TAKEN = None
"""In a column: the candidate's program has no such decision."""


@dataclass(frozen=True)
class Column:
    """A decision of all candidates, or one number of a decision of several.

    Attributes
    ----------
    name: the site, with the place of the number: ``tile:C[1]``. site: the site alone.
    module: that drew it; empty where it is not known.
    values: one for each candidate; None where its program has no such decision.
    """

    name: str
    site: str
    module: str
    values: Sequence[Hashable]

    @cached_property
    def tried(self) -> int:
        """Number of different values."""
        return len({value for value in self.values if value is not NOT_TAKEN})

    @property
    def labels(self) -> list[str]:
        """The values as text, for a table."""
        return ["not taken" if value is NOT_TAKEN else label(value) for value in self.values]


@dataclass(frozen=True)
class Decisions:
    """The decisions of candidates.

    Attributes
    ----------
    sites: a column for each draw and choice, in the order in which traces have them.
    """

    sites: Sequence[Column]

    @cached_property
    def columns(self) -> list[Column]:
        """The columns that a chart can show: of several numbers, each is one too."""
        return [column for site in self.sites for column in (site, *numbers_of(site))]

    def column(self, name: str) -> Column:
        """Return the column of a name; ValueError lists the names there are."""
        by_name = {column.name: column for column in self.columns}
        if name not in by_name:
            raise ValueError(f"no decision {name!r}; there are: {', '.join(by_name)}")
        return by_name[name]

    def of_site(self, site: str) -> list[Column]:
        """Return the columns of a site, the site's own first."""
        return [column for column in self.columns if column.site == site]


def read_decisions(records: Sequence[Record]) -> Decisions:
    """Read the decisions of records from their stored traces; nothing is replayed.

    A trace that cannot be read has no decisions.
    """
    columns: dict[str, list[Hashable]] = {}
    modules: dict[str, str] = {}
    for place, record in enumerate(records):
        for site, value in stored_decisions(record.trace_json).items():
            if site not in columns:
                columns[site] = [NOT_TAKEN] * len(records)
                modules |= stored_modules(record.trace_json)
            # True is no number, and None may be an option.
            plain = value is None or isinstance(value, bool)
            columns[site][place] = str(value) if plain else value
    return Decisions(
        [Column(site, site, modules.get(site, ""), values) for site, values in columns.items()]
    )


def numbers_of(column: Column) -> Iterator[Column]:
    """Yield each number of a decision of several as a column of its own."""
    taken = [value for value in column.values if value is not NOT_TAKEN]
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in taken}
    if len(lengths) != 1:
        return
    for place in range(lengths.pop()):
        values = [
            value[place] if isinstance(value, tuple) else NOT_TAKEN for value in column.values
        ]
        yield Column(f"{column.name}[{place}]", column.site, column.module, values)


@dataclass(frozen=True, slots=True)
class Weight:
    """How much of the differences in latency a decision explains.

    Attributes
    ----------
    column: the decision; tried: number of its values that have a latency.
    importance: None where too little was measured to tell.
    """

    column: Column
    tried: int
    importance: Importance | None


def weigh(decisions: Decisions, records: Sequence[Record]) -> list[Weight]:
    """Return the weight of each decision, the most important first.

    Of more than ``MOST_TRACES`` candidates with a latency, that many are looked at.
    """
    ok = [place for place, record in enumerate(records) if record.ok]
    ok = ok[:: -(-len(ok) // MOST_TRACES) or 1]
    latencies = {place: records[place].latency for place in ok}
    weights = []
    for column in decisions.sites:
        taken = [place for place in ok if column.values[place] is not NOT_TAKEN]
        values = [column.values[place] for place in taken]
        found = importance(values, [latencies[place] for place in taken])
        weights.append(Weight(column, len(set(values)), found))
    return sorted(weights, key=_order)


def _order(weight: Weight) -> tuple[bool, float]:
    found = weight.importance
    return (found is None, 0.0 if found is None else -found.part)


def default_pair(decisions: Decisions, weights: Sequence[Weight]) -> tuple[str, str] | None:
    """Return the names of the two decisions that a heat map shows first; None without two.

    They are those of the greatest weight. A decision of several numbers stands for itself where
    its values fit, else the number with the most values does.
    """
    chosen: list[Column] = []
    for weight in weights:
        fits = [
            column
            for column in decisions.of_site(weight.column.site)
            if 2 <= column.tried <= MOST_VALUES
        ]
        if fits:
            chosen.append(max(fits, key=lambda column: column.tried))
        if len(chosen) == 2:
            # A screen is wider than high.
            up, across = sorted(chosen, key=lambda column: column.tried)
            return across.name, up.name
    return None


def shown_values(column: Column) -> tuple[list[str], Mapping[Hashable, str]]:
    """Return the labels of a column in order, and the label of each value.

    Numbers are in numerical order. Values that are rare are one label where there are many.
    """
    counts = Counter(value for value in column.values if value is not NOT_TAKEN)
    kept = [value for value, _ in counts.most_common(MOST_VALUES)]
    kept.sort(key=_sortable)
    labels: dict[Hashable, str] = {value: label(value) for value in kept}
    rest = {value: OTHER for value in counts if value not in labels}
    return [*labels.values(), *([OTHER] if rest else [])], {**labels, **rest}


def label(value: Hashable) -> str:
    """Return a decision as text: ``8``, ``4 x 32``, ``rows``; ``none`` for no item of several."""
    if value == ():
        return "none"
    if isinstance(value, tuple):
        return " \N{MULTIPLICATION SIGN} ".join(map(str, value))
    return str(value)


def _sortable(value: Hashable) -> tuple[int, tuple[float, ...], str]:
    if isinstance(value, int | float):
        return (0, (value,), "")
    if isinstance(value, tuple):
        return (1, tuple(map(float, value)), "")
    return (2, (), str(value))


# -- The finals: how each program compares with the winner, round by round ------------------------


@dataclass(frozen=True, slots=True)
class FinalistRow:
    """A program of the finals.

    Attributes
    ----------
    name: ``trial 12``, ``unscheduled``, or ``record 7`` where the record is not of this run.
    entry: its entry.
    latency: median of its samples in seconds; None where it failed. interval: of the median.
    differences: of each round, its sample over the winner's, minus 1; where some of them do not
        count, as other work disturbed them, each sample over the winner's median. Empty for the
        winner.
    difference: median of them, with the confidence interval of it; None without any.
    p_value: probability of samples that differ this much if it is as fast as the winner (two-sided
        Mann-Whitney U test, which the finals use too); None for the winner.
    """

    name: str
    entry: FinalsEntry
    latency: float | None = None
    interval: Interval | None = None
    differences: Sequence[float] = ()
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class FinalsTable:
    """The finals.

    Attributes
    ----------
    finalists: the winner first.
    noise: half the width of the confidence interval of the winner's median, over the median:
        smaller differences cannot be told from noise. None without a winner.
    """

    finalists: Sequence[FinalistRow] = ()
    noise: float | None = None


def names_of(history: RunHistory) -> Mapping[int, str]:
    """Return what each record is called, by its id."""
    names = {row.record.id: row.name for row in history.rows if row.record.id is not None}
    if history.unscheduled is not None and history.unscheduled.id is not None:
        names[history.unscheduled.id] = "unscheduled"
    return names


def finals_table(history: RunHistory) -> FinalsTable:
    """Compare the programs of the newest finals with their winner."""
    names = names_of(history)
    entries = sorted(history.finals, key=lambda entry: entry.place)
    winner = next((entry for entry in entries if entry.ok), None)
    if winner is None:
        unknown = [FinalistRow(_name(names, entry), entry) for entry in entries]
        return FinalsTable(unknown)
    finalists = [_finalist(_name(names, entry), entry, winner) for entry in entries]
    interval = median_interval(winner.samples)
    noise = (interval.high - interval.low) / 2 / winner.latency
    return FinalsTable(finalists, noise)


def _name(names: Mapping[int, str], entry: FinalsEntry) -> str:
    return names.get(entry.record_id, f"record {entry.record_id}")


def _finalist(name: str, entry: FinalsEntry, winner: FinalsEntry) -> FinalistRow:
    if not entry.ok:
        return FinalistRow(name, entry)
    latency, interval = entry.latency, median_interval(entry.samples)
    if entry is winner:
        return FinalistRow(name, entry, latency, interval)
    p_value = mann_whitney(entry.samples, winner.samples)
    beside: Sequence[float] = winner.samples
    if len(entry.samples) != len(winner.samples):
        beside = [winner.latency] * len(entry.samples)
    differences = [one / other - 1 for one, other in zip(entry.samples, beside, strict=True)]
    around = median_interval(differences)
    return FinalistRow(
        name,
        entry,
        latency,
        interval,
        differences,
        statistics.median(differences),
        around.low,
        around.high,
        p_value,
    )


# -- Why traces were rejected and candidates failed, by place -------------------------------------

PLACES, REST = 15, "all others"
"""Number of places that a chart shows; the others are one."""
_UNKNOWN = "place not known"


@dataclass(frozen=True, slots=True)
class RejectionPlace:
    """Traces that one instruction of one module lost, by reason.

    Attributes
    ----------
    name: ``module: instruction``, as ``TuneResult.culprits`` has it, without the block.
    reasons: number of traces by reason.
    """

    name: str
    reasons: Counter[str]

    @property
    def count(self) -> int:
        """Number of traces."""
        return self.reasons.total()


def place_name(one: Rejections) -> str:
    """Return the name of a place."""
    return ": ".join(filter(None, (one.module, one.instruction))) or _UNKNOWN


def rejection_places(history: RunHistory) -> list[RejectionPlace]:
    """Return the places that lost most traces, worst first: ``PLACES``, and one of all others."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in history.rejections:
        found[place_name(one)][one.reason] += one.count
    places = sorted(
        (RejectionPlace(*item) for item in found.items()), key=lambda place: -place.count
    )
    if len(places) <= PLACES + 1:
        return places
    return [*places[:PLACES], RejectionPlace(REST, _counts(places[PLACES:]))]


def reasons_of(places: Sequence[RejectionPlace]) -> list[str]:
    """Return the reasons of places, the most frequent first."""
    return [reason for reason, _ in _counts(places).most_common()]


def _counts(places: Sequence[RejectionPlace]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for place in places:
        counts.update(place.reasons)
    return counts


# -- What the machine of a run allows at most -----------------------------------------------------


@dataclass(frozen=True)
class MachineLimits:
    """What is known of a run's machine and workload.

    Attributes
    ----------
    flops: operations of a call; 0 where they are not known, or there are none.
    peak: operations per second that the machine reaches at most, an upper bound; infinite where it
        is not known.
    roofline: the shortest time that follows from that and from the memory's rate.
    why: why there is no roofline; empty where there is one.
    """

    flops: float = 0.0
    peak: float = math.inf
    roofline: RooflineBound = RooflineBound(0.0, "arithmetic")
    why: str = ""


def machine_limits(history: RunHistory) -> MachineLimits:
    """Return what is known of the machine of a run."""
    try:
        workload = workload_of(history)
    except SchedlangError as error:
        return MachineLimits(why=str(error))
    unknown = f"the peak of {history.run.target_key} is unknown"
    try:
        target = Target.from_key(history.run.target_key)
    except TargetError:
        return MachineLimits(workload.flops, why=unknown)
    peak, roofline = peak_of(workload, target), roofline_of(workload, target)
    why = ""
    if not roofline.seconds:
        why = unknown if workload.flops else "the workload does no arithmetic that is counted"
    return MachineLimits(workload.flops, peak, roofline, why)
