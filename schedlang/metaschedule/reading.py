"""Traces of TVM's JSON databases as schedlang's.

Each instruction is checked and applied to a schedule of ours, which records the trace. Nothing
reaches TVM unchecked, and nothing is evaluated.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.errors import (
    DatabaseError,
    InstructionError,
    SchedlangError,
    TraceFormatError,
    WorkloadError,
)
from schedlang.instructions.argument import TVMPart
from schedlang.instructions.handles import Handle
from schedlang.instructions.instruction import KINDS, Parameter
from schedlang.instructions.kinds import Primitive, Sampling, TVMDraw
from schedlang.interpreters.document import parse, short, want
from schedlang.language.schedule import Schedule, Trace
from schedlang.metaschedule.arguments import MOST_INPUTS, ArgumentReader
from schedlang.tvm import errors, metaschedule as tvm_metaschedule, program
from schedlang.workloads.construct import from_module
from schedlang.workloads.workload import Workload

# Marks where MetaSchedule's post-processing begins; it does nothing.
MARKER = "EnterPostproc"


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One instruction, and its parameters that are inputs and attributes, in their order."""

    kind: Primitive | Sampling
    inputs: tuple[Parameter, ...]
    attributes: tuple[Parameter, ...]


@functools.cache
def rows() -> dict[str, StoredRow]:
    """Return the instructions that both have, by TVM's name.

    A stored instruction is ``[name, inputs, attributes, outputs]``. Which of our arguments are
    inputs and which are attributes follows from the declaration of the instruction.
    An instruction is left out if it needs an argument that TVM's traces cannot store.
    """
    found = {}
    for kind in KINDS.values():
        if isinstance(kind, (Primitive, Sampling)) and kind.tvm is not None:
            row = _row(kind, kind.tvm.inputs)
            if row is not None:
                found[kind.tvm.name] = row
    return found


def _row(kind: Primitive | Sampling, inputs: tuple[str, ...] | None) -> StoredRow | None:
    parts: dict[TVMPart, list[Parameter]] = {"inputs": [], "attributes": []}
    for parameter in kind.parameters:
        part = parameter.argument.tvm_part
        if part is None:
            if parameter.default is inspect.Parameter.empty:
                return None
            continue
        if inputs is not None:
            part = "inputs" if parameter.name in inputs else "attributes"
        parts[part].append(parameter)
    return StoredRow(kind, tuple(parts["inputs"]), tuple(parts["attributes"]))


# MetaSchedule's traces have a few hundred. Very deep loops could exhaust TVM's stack.
MOST_INSTRUCTIONS = 2_000


class UnknownInstruction(TraceFormatError):
    """The trace has an instruction that schedlang does not have."""


def read_trace(document: Any, workload: Workload) -> Trace:
    """Return the trace of ``[instructions, decisions]`` on its workload.

    Raises ``TraceFormatError`` for what is no trace, ``UnknownInstruction`` for an instruction
    that schedlang does not have, ``SchedlangError`` where an instruction does not apply.
    """
    if not isinstance(document, list) or len(document) != 2:
        raise TraceFormatError("trace", "must be a list of instructions and a list of decisions")
    instructions, decisions = document
    want(instructions, list, "instructions")
    if len(instructions) > MOST_INSTRUCTIONS:
        raise TraceFormatError(
            "instructions", f"{len(instructions)} of them; at most {MOST_INSTRUCTIONS} are read"
        )
    reader = TraceReader(Schedule(workload))
    drawn = _decisions(decisions, len(instructions))
    for position, stored in enumerate(instructions):
        reader.read(stored, drawn.get(position), f"instructions[{position}]")
    return reader.schedule.trace


def _decisions(stored: Any, count: int) -> dict[int, Any]:
    want(stored, list, "decisions")
    found: dict[int, Any] = {}
    for position, item in enumerate(stored):
        where = f"decisions[{position}]"
        if not isinstance(item, list) or len(item) != 2:
            raise TraceFormatError(where, "must be a pair of a position and a decision")
        want(item[0], int, where)
        if not 0 <= item[0] < count or item[0] in found:
            raise TraceFormatError(where, f"no instruction {short(item[0])}, or two decisions")
        found[item[0]] = item[1]
    return found


class TraceReader:
    """Applies stored instructions to a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.arguments = ArgumentReader()
        self.rows = rows()

    def read(self, stored: Any, decision: Any, where: str) -> None:
        """Apply one instruction and remember the names of the handles it returns."""
        if not isinstance(stored, list) or len(stored) != 4:
            raise TraceFormatError(where, "must be [name, inputs, attributes, outputs]")
        name, inputs, attributes, outputs = stored
        want(name, str, f"{where}[0]")
        for position, part in enumerate((inputs, attributes, outputs), start=1):
            want(part, list, f"{where}[{position}]")
        if name == MARKER:
            return
        row = self.rows.get(name)
        if row is None:
            raise UnknownInstruction(where, f"schedlang has no instruction {short(name)!r}")
        where = f"{where} {name}"
        given = self._fields(row.inputs, inputs, f"{where}.inputs")
        given |= self._fields(row.attributes, attributes, f"{where}.attributes")
        try:
            defined = self._apply(row, given, decision, where)
        except InstructionError as error:
            raise SchedlangError(f"{where}: {error.reason}") from None
        self._define(outputs, defined, f"{where}.outputs")

    def _fields(
        self, parameters: Sequence[Parameter], stored: list[Any], where: str
    ) -> dict[str, Any]:
        """Read the inputs, or the attributes, as the arguments ``parameters``."""
        spread = bool(parameters) and _is_spread(parameters[-1])
        expected = sum(p.argument.tvm_width for p in parameters) - spread
        if not expected <= len(stored) <= (MOST_INPUTS if spread else expected):
            raise TraceFormatError(where, f"{len(stored)} of them, where {expected} are expected")
        given = {}
        position = 0
        for parameter in parameters:
            width = parameter.argument.tvm_width
            place, part = f"{where}[{position}]", stored[position : position + width]
            if _is_spread(parameter):
                place, part = f"{where}[{position}:]", stored[position:]
            elif width == 1:
                (part,) = part
            given[parameter.name] = parameter.argument.read_tvm(self.arguments, part, place)
            position += width
        return given

    def _apply(
        self, row: StoredRow, given: dict[str, Any], decision: Any, where: str
    ) -> list[Handle]:
        kind = row.kind
        if isinstance(kind, Sampling):
            decision = self._decision(kind, given, decision, f"{where}: its decision")
        args = [given.get(parameter.name, parameter.default) for parameter in kind.parameters]
        if isinstance(kind, Sampling):
            made = self.schedule.draw(kind, args, None, decision)
        else:
            made = self.schedule.run(kind, *args)
        return made if isinstance(made, list) else [] if made is None else [made]

    def _decision(self, kind: Sampling, given: dict[str, Any], stored: Any, where: str) -> Any:
        if stored is None:
            raise TraceFormatError(where, "there is none, so the program is not known")
        assert isinstance(kind.tvm, TVMDraw)
        return kind.tvm.read_decision(self.arguments, given, stored, where)

    def _define(self, names: list[Any], defined: list[Handle], where: str) -> None:
        if len(names) != len(defined):
            raise TraceFormatError(where, f"{len(names)} names for {len(defined)} results")
        for name, handle in zip(names, defined, strict=True):
            want(name, str, where)
            if not re.fullmatch(r"[blv][0-9]{1,9}", name) or name in self.arguments.handles:
                raise TraceFormatError(where, f"{short(name)!r} is no name, or used before")
            self.arguments.handles[name] = handle


def _is_spread(parameter: Parameter) -> bool:
    """Whether the argument is all inputs that are left."""
    return parameter.variadic or parameter.argument.tvm_spread


# -- Lines of MetaSchedule's files: a program, or a record; a bad line raises Refused -------------

# In bytes; a workload of a large model has a few megabytes.
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredLine:
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


def read_lines(path: Path) -> Iterator[StoredLine]:
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
                    yield StoredLine(number, None if too_long else _decoded(content), ended)
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


def workload_of(line: StoredLine) -> Workload:
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


def parts_of(line: StoredLine) -> tuple[int, list[Any]]:
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
