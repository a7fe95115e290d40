"""What a recording of a complete space holds: ways, programs and samples; and its file."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedlang.distributions import (
    Decision,
    Distribution,
    distribution_from_json,
    distribution_to_json,
)
from schedlang.errors import RecordingError, SchedlangError
from schedlang.expressions import IntRV
from schedlang.files import replacing
from schedlang.instructions.handles import make_handle
from schedlang.instructions.instruction import Instruction, Line
from schedlang.interpreters import stored_trace as reader
from schedlang.interpreters.stored_trace import dump_skeleton
from schedlang.measurement.measurement import Status
from schedlang.tvm.program import to_json
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """What was measured of one program.

    Attributes
    ----------
    key: structural key, 16 hex digits.
    status: how it ended.
    samples: latencies in seconds; empty unless it is OK.
    message: why it failed; empty when it is OK.
    build_seconds, run_seconds: what building it took, and running it with verification.
    """

    key: str
    status: Status
    samples: tuple[float, ...] = ()
    message: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def latency(self) -> float:
        """Median of the samples in seconds; infinite for a program that failed."""
        return statistics.median(self.samples) if self.samples else math.inf


@dataclass(frozen=True, slots=True)
class Way:
    """One way through the space.

    Attributes
    ----------
    skeleton: number of what it has in common with ways that differ in decisions only.
    decisions: at the sites of the skeleton, in order; of a choice the number of the option.
    distributions: the numbers of what was drawn from.
    program: number of the program that it leads to; others may lead there too.
    """

    skeleton: int
    decisions: tuple[Decision, ...]
    distributions: tuple[int, ...]
    program: int


class Ways(Sequence[Way]):
    """All ways through a space, in the order in which the grid takes them.

    Attributes
    ----------
    skeletons: one member of each kind of way.
    distributions: what was drawn from, each once.
    """

    def __init__(
        self,
        ways: Iterable[Way] = (),
        skeletons: Iterable[Line] = (),
        distributions: Iterable[Distribution] = (),
    ) -> None:
        self._ways = list(ways)
        self.skeletons = list(skeletons)
        self.distributions = list(distributions)
        self._skeletons = {dump_skeleton(one): n for n, one in enumerate(self.skeletons)}
        self._numbers = {one: n for n, one in enumerate(self.distributions)}

    def add(self, line: Line, program: int) -> None:
        """Add the way that was recorded as ``line``."""
        number = self._skeletons.setdefault(dump_skeleton(line), len(self._skeletons))
        if number == len(self.skeletons):
            self.skeletons.append(line)
        drawn = sites_of(line)
        self._ways.append(
            Way(
                number,
                tuple(one.decision for one in drawn),
                tuple(self._number(one.distribution) for one in drawn),
                program,
            )
        )

    def _number(self, distribution: Distribution | None) -> int:
        assert distribution is not None
        number = self._numbers.setdefault(distribution, len(self._numbers))
        if number == len(self.distributions):
            self.distributions.append(distribution)
        return number

    def first(self) -> dict[int, Way]:
        """Return the first way to each program, by the program's number."""
        found: dict[int, Way] = {}
        for way in self._ways:
            found.setdefault(way.program, way)
        return found

    def __len__(self) -> int:
        return len(self._ways)

    def __getitem__(self, number: Any) -> Any:
        return self._ways[number]


def sites_of(line: Line) -> list[Instruction]:
    """Return the draws and choices of a line."""
    return [one for one in line if one.site]


def line_of(ways: Ways, way: Way) -> Line:
    """Return the instructions of a way."""
    drawn = iter(zip(way.decisions, way.distributions, strict=True))
    line = []
    for one in ways.skeletons[way.skeleton]:
        if one.site:
            decision, number = next(drawn)
            distribution = ways.distributions[number]
            outputs = one.outputs
            if any(isinstance(handle, IntRV) for handle in outputs):
                values = distribution.outputs(decision)
                listed = values if isinstance(values, tuple) else (values,)
                outputs = tuple(
                    make_handle("v", old.index, value)
                    for old, value in zip(outputs, listed, strict=True)
                )
            one = replace(one, decision=decision, distribution=distribution, outputs=outputs)
        line.append(one)
    return tuple(line)


@dataclass(frozen=True, eq=False)
class Contents:
    """A complete space on one workload, all of whose programs were measured on one machine.

    Attributes
    ----------
    workload: the program before scheduling.
    target_key, toolchain_key: of the machine, and of what generated code.
    ways: through the space; those that gave no valid program are not there.
    programs: with what was measured; equal programs once.
    reference: samples of the unscheduled program, in seconds.
    about: plain values for people: machine, version, seconds, how many samples were disturbed.
    """

    workload: Workload
    target_key: str
    toolchain_key: str
    ways: Ways = field(repr=False)
    programs: Sequence[RecordedProgram] = field(repr=False)
    reference: tuple[float, ...] = field(repr=False)
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """16 hex digits that are equal for equal recordings."""
        parts = (self.workload.key, self.target_key, self.toolchain_key, *self.programs)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


_FORMAT = "schedlang recorded space"
_SCHEMA = 1
MOST_SAMPLES = 15
"""Samples that a file keeps of a program; of more, quantiles, the median among them."""
# Seconds are stored as logarithms in steps of 0.04%, from a nanosecond to 1,000 s; 0 is none.
_LOWEST, _STEPS = 1e-9, 65_534 / math.log(1e12)
_MOST_BYTES = 1 << 30
_ARRAYS = ("header", "ways", "decisions", "distributions", "statuses", "seconds", "samples")


def write(recorded: Contents, path: Any) -> None:
    """Write a recorded space; the file appears when it is complete."""
    ways = recorded.ways
    values: dict[str, int] = {}
    messages: dict[str, int] = {}
    decisions = [
        values.setdefault(json.dumps(one), len(values)) for way in ways for one in way.decisions
    ]
    said = [messages.setdefault(one.message, len(messages)) for one in recorded.programs]
    header = {
        "format": _FORMAT,
        "schema": _SCHEMA,
        "name": recorded.workload.name,
        "program": to_json(recorded.workload.mod),
        "workload": recorded.workload.key,
        "target": recorded.target_key,
        "toolchain": recorded.toolchain_key,
        "reference": list(recorded.reference),
        "skeletons": [reader.dump(line) for line in ways.skeletons],
        "distributions": [distribution_to_json(one) for one in ways.distributions],
        "values": list(values),
        "messages": list(messages),
        "keys": "".join(one.key for one in recorded.programs),
        "about": dict(recorded.about),
    }
    statuses = list(Status)
    arrays = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "ways": np.array([[way.skeleton, way.program] for way in ways], np.uint32),
        "decisions": np.array(decisions, np.uint32),
        "distributions": np.array([n for way in ways for n in way.distributions], np.uint32),
        "statuses": np.array(
            [
                [statuses.index(one.status), number]
                for one, number in zip(recorded.programs, said, strict=True)
            ],
            np.uint32,
        ),
        "seconds": _quantised([[one.build_seconds, one.run_seconds] for one in recorded.programs]),
        "samples": _quantised([_padded(one.samples) for one in recorded.programs]),
    }
    with replacing(path, "the recorded space") as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read(path: Any) -> Contents:
    """Read a recorded space; the instructions of its traces must be known."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if sum(one.file_size for one in stored.zip.infolist()) > _MOST_BYTES:
                raise ValueError(f"it unpacks to more than {_MOST_BYTES} bytes")
            arrays = {name: _unsigned(stored[name]) for name in _ARRAYS}
        header = json.loads(arrays["header"].tobytes())
    except FileNotFoundError:
        raise RecordingError(f"{path}: there is no such file") from None
    except Exception as error:  # those of NumPy and zipfile for other files have many types
        raise _damaged(path, error) from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise RecordingError(f"{path}: this is no recorded space; schedlang survey makes one")
    if header.get("schema") != _SCHEMA:
        raise RecordingError(
            f"{path}: its schema is {header.get('schema')!r}, and this version reads {_SCHEMA}"
        )
    try:
        return _made(header, arrays)
    except SchedlangError as error:
        raise RecordingError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _damaged(path, error) from None


def _unsigned(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind != "u":
        raise ValueError(f"an array of {array.dtype}, not of unsigned integers")
    return array


def _made(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Contents:
    workload = Workload(read_stored_program(header["program"]), str(header["name"]))
    if workload.key != header["workload"]:
        raise RecordingError(f"its program has key {workload.key}, not {header['workload']}")
    skeletons = [reader.load(text) for text in header["skeletons"]]
    values = [_decision(json.loads(text)) for text in header["values"]]
    decided = iter(arrays["decisions"].tolist())
    drawn = iter(arrays["distributions"].tolist())
    lengths = [sum(bool(one.site) for one in line) for line in skeletons]
    programs = _programs(header, arrays)
    ways = []
    for skeleton, program in arrays["ways"].tolist():
        sites = range(lengths[skeleton])
        decisions = tuple(values[next(decided)] for _ in sites)
        ways.append(Way(skeleton, decisions, tuple(next(drawn) for _ in sites), program))
        if program >= len(programs):
            raise IndexError(f"a way leads to program {program} of {len(programs)}")
    left = next(decided, None), next(drawn, None)
    if left != (None, None) or not ways:
        raise ValueError("the numbers of ways and of decisions do not match")
    distributions = [distribution_from_json(one) for one in header["distributions"]]
    if arrays["distributions"].max(initial=0) >= max(len(distributions), 1):
        raise IndexError(f"a site draws from more than the {len(distributions)} distributions")
    reference = tuple(map(float, header["reference"]))
    if not reference or not all(0 < one < math.inf for one in reference):
        raise ValueError(f"the unscheduled program took {reference} s")
    return Contents(
        workload,
        str(header["target"]),
        str(header["toolchain"]),
        Ways(ways, skeletons, distributions),
        programs,
        reference,
        dict(header["about"]),
    )


def _programs(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> list[RecordedProgram]:
    keys, statuses = str(header["keys"]), list(Status)
    rows = zip(
        arrays["statuses"].tolist(),
        _seconds(arrays["seconds"]),
        _seconds(arrays["samples"]),
        strict=True,
    )
    made = [
        RecordedProgram(
            keys[16 * number : 16 * number + 16],
            statuses[status],
            tuple(one for one in samples if one > 0),
            str(header["messages"][said]),
            build,
            run,
        )
        for number, ((status, said), (build, run), samples) in enumerate(rows)
    ]
    if len(keys) != 16 * len(made) or any(
        (one.status is Status.OK) != bool(one.samples) for one in made
    ):
        raise ValueError("the numbers of programs, keys and samples do not match")
    return made


def as_stored(program: RecordedProgram) -> RecordedProgram:
    """Return a program as it is when it was written and read again."""
    [samples], [times] = (
        _seconds(_quantised([row]))
        for row in (_padded(program.samples), (program.build_seconds, program.run_seconds))
    )
    kept = tuple(one for one in samples if one > 0)
    return replace(program, samples=kept, build_seconds=times[0], run_seconds=times[1])


def _decision(stored: Any) -> Decision:
    found = tuple(stored) if isinstance(stored, list) else stored
    if not all(type(one) is int for one in (found if isinstance(found, tuple) else (found,))):
        raise ValueError(f"{stored!r} is no decision")
    return found


def _padded(samples: Sequence[float]) -> list[float]:
    """Return as many samples as a file keeps; none is 0."""
    if len(samples) > MOST_SAMPLES:
        samples = np.quantile(samples, np.linspace(0, 1, MOST_SAMPLES)).tolist()
    return [*samples, *[0.0] * (MOST_SAMPLES - len(samples))]


def _quantised(rows: Sequence[Sequence[float]]) -> NDArray[np.uint16]:
    seconds = np.array(rows, np.float64)
    logs = np.log(np.maximum(seconds, _LOWEST) / _LOWEST)
    steps = np.clip(np.rint(logs * _STEPS) + 1, 1, 65_535)
    return np.where(seconds > 0, steps, 0).astype(np.uint16)


def _seconds(steps: NDArray[Any]) -> list[list[float]]:
    found = _LOWEST * np.exp((steps.astype(np.float64) - 1) / _STEPS)
    made: list[list[float]] = np.where(steps > 0, found, 0.0).tolist()
    return made


def _damaged(path: Any, error: Exception) -> RecordingError:
    return RecordingError(f"{path}: a damaged recorded space, or another file: {error!r}")
