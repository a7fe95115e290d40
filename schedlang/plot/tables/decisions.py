"""The decisions of a run's candidates as columns, and what each has to do with latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from schedlang.database.record import Record
from schedlang.formats.decisions import stored_decisions, stored_modules
from schedlang.tuning.explaining.importance import Importance, importance
from schedlang.tuning.explaining.table import MOST_TRACES

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
