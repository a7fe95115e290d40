"""Lines of MetaSchedule's files: a program, or a record. A bad line raises ``Refused`` only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.errors import DatabaseError, SchedlangError, TraceFormatError, WorkloadError
from schedlang.formats.document import parse, short
from schedlang.language.schedule import Schedule, Trace
from schedlang.metaschedule.reading import UnknownInstruction, read_trace
from schedlang.tvm import errors, program
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.workloads.construct import from_module
from schedlang.workloads.workload import Workload

# In bytes; a workload of a large model has a few megabytes.
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file.

    Attributes
    ----------
    number: of the line, from 1.
    text: the line; ``None`` when it is too long or not UTF-8.
    ended: it ends with a line break, so it was written completely.
    """

    number: int
    text: str | None
    ended: bool


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines that are not empty; raise ``DatabaseError`` when the file cannot be read."""
    try:
        with path.open("rb") as file:
            number = 0
            while content := file.readline(MOST_BYTES):
                number += 1
                too_long = not content.endswith(b"\n") and len(content) == MOST_BYTES
                rest = content
                while too_long and rest and not rest.endswith(b"\n"):
                    rest = file.readline(MOST_BYTES)
                ended = rest.endswith(b"\n")
                if too_long or content.strip():
                    yield Line(number, None if too_long else _decoded(content), ended)
    except OSError as error:
        raise DatabaseError(
            f"{path}: {error.strerror}; give the folder of a MetaSchedule database, or its files"
        ) from error


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def written(path: Path) -> float:
    """Return when a file was last written, in seconds since 1970 (UTC)."""
    return os.stat(path).st_mtime


class Refused(Exception):
    """A line that cannot be imported.

    Attributes
    ----------
    reason: a short text for counting; stable between versions.
    detail: what exactly is wrong.
    """

    def __init__(self, reason: str, detail: object) -> None:
        self.reason = reason
        self.detail = short(str(detail).strip(), 300)
        super().__init__(reason)


def workload_of(line: Line) -> Workload:
    """Return the workload of a line of the workload file."""
    if line.text is None:
        raise Refused("not JSON", "too long, or not UTF-8 text")
    try:
        mod = tvm_metaschedule.program_of_line(line.text)
        func = tvm_metaschedule.only_function(mod)
        workload = from_module(mod, program.symbol(func) if func is not None else None)
        Schedule(workload)  # TVM looks at all of it,
        _ = workload.structure  # and so do we
    except (ValueError, RecursionError, WorkloadError) as error:
        torn = not line.ended and not line.text.rstrip().endswith("]")
        raise Refused("torn line" if torn else "workload unreadable", error) from None
    except Exception as error:  # TVM's errors have many types
        raise Refused("workload unreadable", errors.reason_of(error)) from None
    return workload


def parts_of(line: Line) -> tuple[int, list[Any]]:
    """Return the number of a record's workload, and its trace, latencies, target, arguments."""
    if line.text is None:
        raise Refused("not JSON", "too long, or not UTF-8 text")
    try:
        document = parse(line.text)
    except TraceFormatError as error:
        torn = not line.ended and not line.text.rstrip().endswith("]")
        raise Refused("torn line" if torn else "not JSON", error.problem) from None
    if not isinstance(document, list) or len(document) != 2 or type(document[0]) is not int:
        raise Refused("not a record", "must be [number of the workload, record]")
    index, stored = document
    if not isinstance(stored, list) or len(stored) != 4:
        raise Refused("not a record", "must be [trace, seconds, target, arguments]")
    return index, stored


def samples_of(stored: Any) -> tuple[float, ...]:
    """Return the latencies in seconds; empty when MetaSchedule could not time it."""
    if stored is None:
        return ()
    if not isinstance(stored, list) or not all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in stored
    ):
        raise Refused("not a record", f"its latencies are {short(repr(stored))}")
    if any(item >= tvm_metaschedule.NO_TIME for item in stored):
        return ()
    if not all(item > 0 for item in stored):
        raise Refused("no latency", f"{short(repr(stored))}: a latency is positive, in seconds")
    return tuple(map(float, stored))


def trace_of(document: Any, workload: Workload) -> tuple[Trace, str]:
    """Return the trace, and the key of the program that schedlang and TVM both make of it."""
    try:
        trace = Trace.from_json(read_trace(document, workload).to_json(), workload)
        ours = trace.replay().mod
    except UnknownInstruction as error:
        raise Refused("unknown instruction", error) from None
    except TraceFormatError as error:
        raise Refused("bad trace", error) from None
    except Exception as error:  # TVM's errors have many types
        why = error if isinstance(error, SchedlangError) else errors.reason_of(error)
        raise Refused("does not apply", why) from None
    try:
        theirs = tvm_metaschedule.apply_stored(document, workload.mod)
    except Exception as error:  # TVM's errors have many types
        raise Refused("does not apply", f"TVM: {errors.reason_of(error)}") from None
    if not program.structurally_equal(ours, theirs):
        raise Refused("another program", "TVM makes another program of this trace")
    return trace, program.structural_key(ours)
