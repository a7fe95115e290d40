"""Errors on their way through TVM: the types of ours, and the messages of TVM's in short."""

from __future__ import annotations

import re
from typing import TypeVar

from tvm_ffi import register_error

from schedlang import errors

E = TypeVar("E", bound=type[BaseException])

# Exceptions of Python's that callbacks may raise and handlers tell apart. TVM knows some others.
_PYTHONS = (
    KeyboardInterrupt,
    SystemExit,
    NotImplementedError,
    OverflowError,
    RecursionError,
    TimeoutError,
    ZeroDivisionError,
)
_OURS = (
    errors.SchedlangError,
    errors.NotApplicable,
    errors.SpaceError,
    errors.DistributionError,
    errors.WorkloadError,
    errors.NoLatencyError,
    errors.TargetError,
    errors.DatabaseError,
    errors.NetworkError,
    errors.ValueOutOfRangeError,
    errors.MissingExtraError,
)


def comes_back(kind: E) -> E:
    """Have TVM raise a class of exceptions as what it is when a Python callback of TVM's raises it.

    Unless a class is registered, a ``RuntimeError`` with its message comes back, which no handler
    of the class catches: Ctrl-C would be taken for an error of TVM. The class must take a message
    alone; what else an exception holds is lost.
    """
    register_error(f"schedlang.{kind.__name__}", kind)
    return kind


for _kind in (*_PYTHONS, *_OURS):
    comes_back(_kind)

_PROGRAM_LINES = 12
_LABEL = re.compile(r" (?:s_tir|tirx|ir)\.\w+#\d+")


_MEANINGS = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (
            r"(?P<child>\S+) on SRef tree is neither a local complete block nor a local reduction",
            "the iterations of this loop may depend on each other: block {child!r} in it updates "
            "elements that another block initialises, as after decompose_reduction, or that it "
            "reads itself; use parallel, vectorize or bind before decompose_reduction, and only on "
            "loops that the block does not reduce over",
        ),
        (
            r"^(?:InternalError: )?not implemented$",
            "LLVM cannot compile the program for a CPU (not implemented): it is one for a GPU if "
            "it binds loops to blockIdx or threadIdx; build it for a GPU, as in "
            'Target("cuda", arch="sm_90")',
        ),
        (
            r"\bdevice_id_?\b",
            "the program was compiled for a GPU, and this machine has none that TVM can use "
            "(device_id); run it on a machine with a GPU and its driver, or build it for the "
            'target "cpu"',
        ),
        (
            r"MatchesCode\(DLDataTypeCode::kDLFloat\)",
            "the program adds, multiplies or compares booleans, or computes with another type that "
            'LLVM has no such operation for (kDLFloat); convert conditions with .astype("int32"), '
            "or join them with tirx.all and tirx.any",
        ),
    )
)
"""What messages of TVM's mean in the words of the library, with the remedy."""


def meaning_of(text: str) -> str:
    """Return what a message of TVM's means; empty for one that is clear or not known."""
    for pattern, meaning in _MEANINGS:
        if found := pattern.search(text):
            return meaning.format(**found.groupdict())
    return ""


def reason_of(error: BaseException) -> str:
    """Return the reason in one line; never ``(not rendered)``."""
    text = str(error).strip()
    found = re.search(r"Error message:\s*(.+)", text, re.DOTALL)
    if found:
        text = found.group(1)
    text = re.sub(r"^(ScheduleError|\w+Error):\s*", "", text)
    text = re.sub(r"^Check failed: .*?(?<!:):(?!:)\s*(?=\S)", "", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    reason = lines[0]
    for line in lines[1:]:
        if (
            reason.endswith((".", "!", "?"))
            or len(reason) > 200
            or line.startswith(("#", "@", "*"))
        ):
            break
        reason += " " + line
    names = _names_of_labels(str(error))
    reason = _LABEL.sub(lambda m: f" {names[m[0]]}" if m[0] in names else "", reason)
    return (meaning_of(reason) or _with_detail(reason, lines))[:400]


def _names_of_labels(text: str) -> dict[str, str]:
    """Map TVM's labels to names: ``# tirx.For#0`` above ``for i in ..`` is ``i``."""
    found = re.finditer(
        r"^\s*# (\w+\.\w+#\d+)\n\s*(?:for (\w+) in|with T\.sblock\(\"(.*?)\")", text, re.MULTILINE
    )
    return {f" {match[1]}": match[2] or match[3] for match in found}


def _with_detail(reason: str, lines: list[str]) -> str:
    """Append the detail that TVM gives in later lines to the reason."""
    if re.search(r"match the tensor intrin\b", lines[0]):
        return f"{reason.split(' The pattern')[0]}: {lines[-1]}"
    number = re.search(r"violates condition #(\d+)\.?$", reason)
    for line in lines if number else ():
        if number and line.startswith(f"{number[1]})"):
            return f"{reason.rstrip('.')}: {line[len(number[1]) + 1 :].strip()}"
    return reason


def program_of(error: BaseException) -> str:
    """Return the statements underlined in TVM's detailed rendering; may be empty.

    The underlines are removed; ``...`` separates statements that are not adjacent.
    """
    lines = str(error).splitlines()
    groups: list[list[str]] = []
    last = -2
    for number, line in enumerate(lines[1:], start=1):
        if line.strip() and set(line.strip()) == {"^"}:
            labelled = lines[number - 2].strip().startswith("#")
            if number - last > 2 + labelled:
                groups.append([])
            groups[-1].append(lines[number - 1])
            last = number
    shown: list[str] = []
    for group in groups:
        indent = min(len(line) - len(line.lstrip()) for line in group)
        shown += ["..."] if shown else []
        shown += [line[indent:] for line in group]
    if len(shown) > _PROGRAM_LINES:
        shown[_PROGRAM_LINES:] = [f"... ({len(shown) - _PROGRAM_LINES} more lines)"]
    return "\n".join(shown)
