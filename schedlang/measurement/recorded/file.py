"""Recorded spaces as files: NumPy arrays and one JSON text, compressed; nothing in them is code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedlang.distributions import Decision, distribution_from_json, distribution_to_json
from schedlang.errors import RecordingError, SchedlangError
from schedlang.files import replacing
from schedlang.formats import reader
from schedlang.measurement.measurement import Status
from schedlang.measurement.recorded.contents import Contents, RecordedProgram, Way, Ways
from schedlang.tvm.program import to_json
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload

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
