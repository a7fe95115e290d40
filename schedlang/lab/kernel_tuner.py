"""Recorded spaces in the formats of other auto-tuners: T1, T4, and the cache files of Kernel Tuner.

T1 describes a space and T4 holds what was measured in it. BAT and Kernel Tuner share these formats;
their schemas are in https://github.com/odgaard/TuningSchema and, as version 1.0.0, in the folder
``kernel_tuner/schema`` of https://github.com/KernelTuner/kernel_tuner. Kernel Tuner simulates
searches on its cache files (``tune_cache``, or ``simulation_mode=True``).

They describe a space by parameters with values. Each site is a parameter, and each way through
the space a configuration. Sites that a way does not meet have the value ``ABSENT`` in its
configuration, so all configurations have all parameters. Not all combinations of values exist;
conditions say which ones do.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.distributions import Decision
from schedlang.instructions.choices import option_label
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice
from schedlang.lab.recorded_space import RecordedSpace
from schedlang.lab.recording import RecordedProgram, Ways, sites_of
from schedlang.measurement.measurement import Status

Value = int | str
Configuration = tuple[Value, ...]
"""A value of each parameter, in their order."""

ABSENT = "-"
"""The value of a parameter whose site a way does not meet."""


@dataclass(frozen=True)
class TuningParameter:
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
    allowed: tuple[Configuration, ...]

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

    parameters: tuple[TuningParameter, ...]
    programs: Mapping[Configuration, int]
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
        TuningParameter(names[site], site, tuple(texts[site].values()), _options(one))
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
) -> tuple[Mapping[Configuration, int], tuple[Condition, ...]]:
    lists = [[texts[site][one] for one in column] for site, column in columns.items()]
    programs: dict[Configuration, int] = {}
    for row, way in zip(zip(*lists, strict=True), ways, strict=True):
        programs.setdefault(row, way.program)
    conditions = []
    for place in range(1, len(names)):
        earlier, allowed = _relation(programs, place)
        if earlier:
            conditions.append(Condition(tuple(names[one] for one in (*earlier, place)), allowed))
    return programs, tuple(conditions)


def _relation(
    rows: Collection[Configuration], place: int
) -> tuple[list[int], tuple[Configuration, ...]]:
    """Return few earlier columns that decide which values a column takes, and what they allow.

    A column is left out where the others decide it alone, from the first one on: what is left is
    near in the trace.
    """
    taken: dict[Configuration, set[Value]] = {}
    for row in rows:
        taken.setdefault(row[:place], set()).add(row[place])
    earlier = list(range(place))
    for column in range(place):
        at = earlier.index(column)
        fewer: dict[Configuration, set[Value]] = {}
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


SCHEMA_VERSION = "1.0.0"
OBJECTIVE = "time"

INVALIDITY: Mapping[Status, str] = {
    Status.OK: "correct",
    Status.REJECTED: "constraints",
    Status.BUILD_ERROR: "compile",
    Status.BUILD_TIMEOUT: "timeout",
    Status.RUN_ERROR: "runtime",
    Status.RUN_TIMEOUT: "timeout",
    Status.CRASHED: "runtime",
    Status.OUT_OF_MEMORY: "runtime",
    Status.WRONG_RESULT: "correctness",
    Status.SUSPICIOUS_TIME: "correctness",
}
"""How T4 says that a program failed."""

_ERRORS: Mapping[Status, str] = {
    Status.REJECTED: "InvalidConfig",
    Status.BUILD_ERROR: "CompilationFailedConfig",
    Status.BUILD_TIMEOUT: "CompilationFailedConfig",
}
_RUNTIME_ERROR = "RuntimeFailedConfig"
"""How Kernel Tuner says it; it knows no more words."""

# Kernel Tuner refuses parameters of the first names, takes the sizes for those of thread blocks,
# and has the others in the entries of its cache.
_RESERVED = (
    *(f"grid_size_{axis}" for axis in "xyz"),
    *(f"block_size_{axis}" for axis in "xyz"),
    *("time", "times", "timestamp", "compile_time", "verification_time", "benchmark_time"),
    *("strategy_time", "framework_time", "ProblemSize"),
)
# The size of the problem is in the program: one item stands for it.
_PROBLEM_SIZE = [1]
_MILLISECONDS = 1e3


def to_t4(recorded: RecordedSpace) -> dict[str, Any]:
    """Return what was measured in a recorded space in the format T4, for ``json.dump``.

    Each way through the space is a result, and failures are the last ones; ways that lead to the
    same program have the same measurements. Times are in milliseconds. ``runtimes`` are the
    samples, and the measurement ``time`` is their median; ``benchmark`` is the wall time of running
    with verification. A failure has Kernel Tuner's word for it instead of a time, and the status
    and message of schedlang. The measurement ``program`` is the key that
    ``RecordedSpace.program`` takes.
    """
    space = configurations_of(recorded, _RESERVED)
    measured = [(row, recorded.programs[number]) for row, number in space.programs.items()]
    # The package autotuning_methodology refuses files whose first configuration failed.
    measured.sort(key=lambda one: not one[1].samples)
    return {
        "schema_version": SCHEMA_VERSION,
        "metadata": _metadata(recorded, space),
        "results": [
            {
                "configuration": dict(zip(space.names, row, strict=True)),
                "objectives": [OBJECTIVE],
                **_measured(program),
            }
            for row, program in measured
        ],
    }


def to_t1(
    recorded: RecordedSpace,
    kernel_file: str | None = None,
    simulation_input: str | None = None,
) -> dict[str, Any]:
    """Return the description of a recorded space in the format T1, for ``json.dump``.

    The conditions admit the recorded configurations and no others. The language is OpenCL for CPUs:
    the format has no other that they run.

    Parameters
    ----------
    recorded: the recorded space.
    kernel_file: path of the program's source, relative to the file of the T1; by default the name
        of the workload with ``.tvmscript``. Kernel Tuner reads this file in simulations too, so
        write ``recorded.workload.mod.script()`` to it.
    simulation_input: path of the file that holds what ``to_kernel_tuner`` returns; Kernel Tuner's
        ``tune_kernel_T1(..., simulation_mode=True)`` reads it. None leaves it out.
    """
    space = configurations_of(recorded, _RESERVED)
    kernel: dict[str, Any] = {
        "Device": {"Name": recorded.target_key},
        "Language": "CUDA" if recorded.target_key.startswith("cuda") else "OpenCL",
        "KernelName": recorded.workload.name,
        "KernelFile": kernel_file or f"{recorded.workload.name}.tvmscript",
        "GlobalSize": {"X": "1"},
        "LocalSize": {"X": "1"},
        "ProblemSize": _PROBLEM_SIZE,
        "Arguments": [],
    }
    if simulation_input is not None:
        kernel["SimulationInput"] = simulation_input
    return {
        "General": {
            "BenchmarkName": recorded.workload.name,
            "FormatVersion": 1,
            "TimeUnit": "Milliseconds",
            "OutputFormat": "JSON",
        },
        "ConfigurationSpace": {
            "TuningParameters": [
                {
                    "Name": one.name,
                    "Type": "string" if isinstance(one.values[0], str) else "int",
                    "Values": repr(list(one.values)),
                    "Site": one.site,
                    **({"Options": list(one.options)} if one.options else {}),
                }
                for one in space.parameters
            ],
            "Conditions": [
                {"Parameters": list(one.parameters), "Expression": one.expression}
                for one in space.conditions
            ],
        },
        "KernelSpecification": kernel,
    }


def to_kernel_tuner(recorded: RecordedSpace) -> dict[str, Any]:
    """Return a recorded space as a cache file of Kernel Tuner, for ``json.dump``.

    ``kernel_tuner.tune_cache(path, strategy=...)`` then runs a strategy on it. That takes a
    configuration that failed for one that does not exist; with the conditions of ``to_t1`` as
    ``restrictions`` of ``tune_kernel``, strategies meet failures too. Times are in milliseconds.
    """
    space = configurations_of(recorded, _RESERVED)
    return {
        "device_name": recorded.target_key,
        "kernel_name": recorded.workload.name,
        "problem_size": _PROBLEM_SIZE,
        "tune_params_keys": space.names,
        "tune_params": {one.name: list(one.values) for one in space.parameters},
        "objective": OBJECTIVE,
        # The last one: Kernel Tuner takes a file for complete that ends in three braces.
        "cache": {
            ",".join(map(str, row)): _entry(space, row, recorded.programs[number])
            for row, number in space.programs.items()
        },
    }


def _measured(program: RecordedProgram) -> dict[str, Any]:
    measurements: list[dict[str, Any]] = [
        {"name": OBJECTIVE, "value": _objective(program), "unit": "ms" if program.samples else ""},
        {"name": "program", "value": program.key, "unit": ""},
    ]
    if not program.samples:
        measurements += [
            {"name": "status", "value": str(program.status), "unit": ""},
            {"name": "message", "value": program.message, "unit": ""},
        ]
    return {
        "times": {
            # The schema calls it "compilation_time"; tools write and read this name.
            "compilation": program.build_seconds * _MILLISECONDS,
            "runtimes": [one * _MILLISECONDS for one in program.samples],
            "benchmark": program.run_seconds * _MILLISECONDS,
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": 0.0,
        },
        "invalidity": INVALIDITY[program.status],
        "correctness": 1 if program.status is Status.OK else 0,
        "measurements": measurements,
    }


def _entry(space: Configurations, row: tuple[Value, ...], program: RecordedProgram) -> Any:
    failed = {} if program.samples else {"__error__": _objective(program)}
    return {
        **dict(zip(space.names, row, strict=True)),
        OBJECTIVE: _objective(program),
        **failed,
        "times": [one * _MILLISECONDS for one in program.samples],
        "compile_time": program.build_seconds * _MILLISECONDS,
        "verification_time": 0.0,
        "benchmark_time": program.run_seconds * _MILLISECONDS,
        "strategy_time": 0.0,
        "framework_time": 0.0,
    }


def _objective(program: RecordedProgram) -> float | str:
    """Return the median in milliseconds, or Kernel Tuner's word for a failure."""
    latency = program.latency
    if math.isfinite(latency):
        return latency * _MILLISECONDS
    return _ERRORS.get(program.status, _RUNTIME_ERROR)


def _metadata(recorded: RecordedSpace, space: Configurations) -> dict[str, Any]:
    return {
        "timeunit": "milliseconds",
        "hardware": {"hardware_description": [recorded.target_key]},
        "environment": {"requirements": [recorded.toolchain_key]},
        "workload": recorded.workload.name,
        "workload_key": recorded.workload.key,
        "unscheduled": [one * _MILLISECONDS for one in recorded.reference],
        "parameters": {
            one.name: {"site": one.site, **({"options": list(one.options)} if one.options else {})}
            for one in space.parameters
        },
        "about": dict(recorded.about),
    }
