"""A recorded space as parameters with values, which is how auto-tuners of kernels describe one.

Each site is a parameter, and each way through the space a configuration. Sites that a way does not
meet have the value ``ABSENT`` in its configuration, so all configurations have all parameters. Not
all combinations of values exist; conditions say which ones do.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from schedlang.distributions import Decision
from schedlang.instructions.choices import option_label
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice
from schedlang.measurement.recorded.contents import Ways, sites_of
from schedlang.measurement.recorded.recording import RecordedSpace

Value = int | str
Row = tuple[Value, ...]
"""A value of each parameter, in their order."""

ABSENT = "-"
"""The value of a parameter whose site a way does not meet."""


@dataclass(frozen=True)
class Parameter:
    """A site as a parameter.

    Attributes
    ----------
    name: an identifier of Python, so that conditions can be expressions.
    site: name of the site.
    values: in ascending order of the decisions, after ``ABSENT`` where some ways do not meet the
        site. Numbers stand for themselves and tuples are texts, such as ``"4x16"``; where a text is
        among the values, all of them are texts.
    options: of a choice, what its values 0, 1, ... stand for; empty for a draw.
    """

    name: str
    site: str
    values: tuple[Value, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A parameter takes only values that go with those of some earlier parameters.

    Attributes
    ----------
    parameters: names of the earlier parameters, and behind them that of the parameter.
    allowed: the values that they take together.
    """

    parameters: tuple[str, ...]
    allowed: tuple[Row, ...]

    @property
    def expression(self) -> str:
        """The condition as an expression of Python in the names of the parameters."""
        return f"({', '.join(self.parameters)}) in {{{', '.join(map(repr, self.allowed))}}}"


@dataclass(frozen=True)
class Configurations:
    """All configurations of a recorded space.

    A combination of values is a configuration exactly where all conditions hold.

    Attributes
    ----------
    parameters: one for each site.
    programs: number of the program of each configuration.
    conditions: what combinations of values have to meet.
    """

    parameters: tuple[Parameter, ...]
    programs: Mapping[Row, int]
    conditions: tuple[Condition, ...]

    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
        return [one.name for one in self.parameters]


def configurations_of(recorded: RecordedSpace, reserved: Collection[str] = ()) -> Configurations:
    """Return the configurations of a recorded space.

    Parameters
    ----------
    recorded: the recorded space.
    reserved: names that no parameter may have.
    """
    ways = recorded.ways
    sites = [[one.site for one in sites_of(line)] for line in ways.skeletons]
    found: dict[str, Instruction] = {
        one.site: one for line in ways.skeletons for one in sites_of(line)
    }
    columns: dict[str, list[Decision | None]] = {site: [] for site in found}
    for way in ways:
        decided = dict(zip(sites[way.skeleton], way.decisions, strict=True))
        for site, column in columns.items():
            column.append(decided.get(site))
    names = _names(found, reserved)
    texts = {site: _values(column) for site, column in columns.items()}
    parameters = tuple(
        Parameter(names[site], site, tuple(texts[site].values()), _options(one))
        for site, one in found.items()
    )
    return Configurations(
        parameters, *_programs_and_conditions(ways, list(names.values()), columns, texts)
    )


def _programs_and_conditions(
    ways: Ways,
    names: Sequence[str],
    columns: Mapping[str, Sequence[Decision | None]],
    texts: Mapping[str, Mapping[Decision | None, Value]],
) -> tuple[Mapping[Row, int], tuple[Condition, ...]]:
    lists = [[texts[site][one] for one in column] for site, column in columns.items()]
    programs: dict[Row, int] = {}
    for row, way in zip(zip(*lists, strict=True), ways, strict=True):
        programs.setdefault(row, way.program)
    conditions = []
    for place in range(1, len(names)):
        earlier, allowed = _relation(programs, place)
        if earlier:
            conditions.append(Condition(tuple(names[one] for one in (*earlier, place)), allowed))
    return programs, tuple(conditions)


def _relation(rows: Collection[Row], place: int) -> tuple[list[int], tuple[Row, ...]]:
    """Return few earlier columns that decide which values a column takes, and what they allow.

    A column is left out where the others decide it alone, from the first one on: what is left is
    near in the trace.
    """
    taken: dict[Row, set[Value]] = {}
    for row in rows:
        taken.setdefault(row[:place], set()).add(row[place])
    earlier = list(range(place))
    for column in range(place):
        at = earlier.index(column)
        fewer: dict[Row, set[Value]] = {}
        if all(
            fewer.setdefault(key[:at] + key[at + 1 :], values) == values
            for key, values in taken.items()
        ):
            taken = fewer
            del earlier[at]
    allowed = ((*key, value) for key, values in taken.items() for value in values)
    return earlier, tuple(sorted(allowed, key=lambda row: [(str(one), one) for one in row]))


def _names(sites: Collection[str], reserved: Collection[str]) -> dict[str, str]:
    """Return an identifier for each site, no two alike."""
    names: dict[str, str] = {}
    taken = {*reserved, *keyword.kwlist}
    for site in sites:
        name = re.sub(r"\W", "_", site, flags=re.ASCII)
        name = f"_{name}" if name[:1].isdigit() else name
        while name in taken:
            name += "_"
        taken.add(name)
        names[site] = name
    return names


def _values(column: Collection[Decision | None]) -> dict[Decision | None, Value]:
    """Return the values of a site's decisions, in ascending order."""
    found = sorted(set(column), key=lambda one: (one is not None, type(one) is tuple, one))
    if all(type(one) is int for one in found):
        return {one: one for one in found}  # type: ignore[misc]
    return {one: _text(one) for one in found}


def _text(decision: Decision | None) -> str:
    if decision is None:
        return ABSENT
    if not isinstance(decision, tuple):
        return str(decision)
    # Without a comma: Kernel Tuner joins the values of a configuration with commas.
    return "x".join(map(str, decision)) if len(decision) > 1 else f"({''.join(map(str, decision))})"


def _options(one: Instruction) -> tuple[str, ...]:
    return tuple(map(option_label, one.args[0])) if isinstance(one.kind, Choice) else ()
