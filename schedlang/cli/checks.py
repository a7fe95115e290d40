"""Checks of ``schedlang doctor``: what one found, and the remedy; the software, and a database."""

from __future__ import annotations

import os
import platform
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import typer

import schedlang as sl
from schedlang.errors import VersionError
from schedlang.printed import first_line
from schedlang.requirements import FFI, TVM, fits, install_command, requirements, version_of
from schedlang.terminal import terminal_width

State = Literal["ok", "warn", "fail"]

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_NAME = 12
_INDENT = "      "
# Lines are not wrapped into columns that are narrower.
_NARROW = 20


@dataclass(frozen=True)
class DoctorCheck:
    """What one check found.

    Attributes
    ----------
    name: what was checked, in a word or two.
    state: ``"ok"``; ``"warn"`` where results may suffer; ``"fail"`` where something does not work.
    text: what was found. remedy: what to do about it; empty where nothing is to be done.
    figures: what was measured, by name with its unit.
    """

    name: str
    state: State
    text: str
    remedy: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        label = _coloured(self.state.ljust(4), _COLOURS[self.state])
        start = " " * (len(_INDENT) + _NAME + 2)
        width = terminal_width()
        lines = []
        for text in (self.text, self.remedy):
            if width is not None and width > len(start) + _NARROW:
                lines += textwrap.wrap(text, width - len(start), break_on_hyphens=False)
            elif text:
                lines.append(text)
        first, *others = lines
        head = f"{label}  {self.name.ljust(_NAME)}  {first}"
        return "\n".join([head, *(f"{start}{line}" for line in others)])


def run_checks(
    makers: Iterable[tuple[str, Callable[[], DoctorCheck | Iterable[DoctorCheck]]]],
) -> Iterator[DoctorCheck]:
    """Run checks one after the other; one that raises an error is a failed check."""
    for name, make in makers:
        try:
            found = make()
            yield from [found] if isinstance(found, DoctorCheck) else found
        except VersionError:  # the first check says so, with the remedy
            yield DoctorCheck(name, "warn", "not checked: this needs TVM in another version")
        except Exception as error:  # whatever is wrong here, the other checks go on
            text = first_line(f"{type(error).__name__}: {error}")
            yield DoctorCheck(
                name, "fail", text, "schedlang --debug shows more where a verb fails too"
            )


def verdict(checks: Sequence[DoctorCheck]) -> str:
    """Say in one line how many checks are well."""
    counts = {state: sum(one.state == state for one in checks) for state in _COLOURS}
    if counts["fail"]:
        return f"{counts['fail']} of {len(checks)} checks failed, {counts['warn']} warn"
    if counts["warn"]:
        return f"nothing failed; {counts['warn']} of {len(checks)} checks warn"
    return f"all {len(checks)} checks are well"


def _coloured(text: str, colour: str) -> str:
    """Colour a text where it is seen: on a terminal, unless NO_COLOR asks for none."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if plain or terminal_width() is None or not sys.stdout.isatty():
        return text
    return typer.style(text, fg=colour)


# What an extra is for.
_EXTRAS = {
    "torch": ("torch", "models of PyTorch; run --bench against it"),
    "onnx": ("onnx", "ONNX files"),
    "pandas": ("dataframe", "TuneResult.to_dataframe"),
    "tornado": ("rpc", "measuring on boards and phones"),
}


def check_versions() -> DoctorCheck:
    """Compare the installed packages with what this version of schedlang needs."""
    wanted = requirements()
    found = {name: version_of(name) for name in wanted}
    wrong = {
        name: (found[name], spec)
        for name, spec in wanted.items()
        if found[name] is None or not fits(found[name] or "", spec)
    }
    shown = [f"schedlang {sl.__version__}"]
    shown += [f"{name} {found[name]}" for name in (TVM, FFI) if found.get(name)]
    shown.append(f"Python {platform.python_version()}")
    figures = {"schedlang": sl.__version__, **found, "python": platform.python_version()}
    if not wanted:
        return DoctorCheck(
            "versions", "warn", ", ".join(shown), "what is needed is not known: pip install ."
        )
    if not wrong:
        return DoctorCheck("versions", "ok", ", ".join(shown), figures=figures)
    texts = [
        f"{name} {version or 'is not installed'}, needed {spec or 'in any version'}"
        for name, (version, spec) in wrong.items()
    ]
    remedy = install_command({name: spec for name, (_, spec) in wrong.items()})
    if FFI in wrong:
        remedy += "  (with another one, TVM ends the process while tuning)"
    return DoctorCheck("versions", "fail", "; ".join(texts), remedy, figures)


def check_tvm() -> DoctorCheck:
    """Import TVM, and say what it was built with."""
    from schedlang.tvm import codegen

    found = codegen.versions()
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    return DoctorCheck("tvm", "ok", text, figures=found)


def check_extras() -> DoctorCheck:
    """Say which optional packages are there."""
    there = {name: version for name in _EXTRAS if (version := version_of(name))}
    missing = [
        f"{name} ({purpose}: pip install 'schedlang[{extra}]')"
        for name, (extra, purpose) in _EXTRAS.items()
        if name not in there
    ]
    text = ", ".join(f"{name} {version}" for name, version in there.items()) or "none is installed"
    if missing:
        text += f"; without {', '.join(missing)}"
    return DoctorCheck("extras", "ok", text, figures=there)


def check_compiler() -> DoctorCheck:
    """Look for the C compiler that links libraries."""
    from schedlang.tvm import codegen

    if codegen.has_linker():
        return DoctorCheck("C compiler", "ok", "found: libraries can be exported")
    return DoctorCheck(
        "C compiler",
        "warn",
        "none: kernels can be tuned and called, and no library can be exported",
        "install gcc or clang: apt-get install g++",
    )


def check_environment() -> DoctorCheck:
    """Name environment variables that change what is measured."""
    names = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "TVM_BIND_THREADS", "TVM_LOG_DEBUG")
    there = {name: os.environ[name] for name in names if name in os.environ}
    if not there:
        return DoctorCheck("environment", "ok", "no variable changes TVM's threads")
    text = ", ".join(f"{name}={value}" for name, value in there.items())
    return DoctorCheck(
        "environment",
        "warn",
        f"{text} is set, which TVM reads",
        f"unset {' '.join(there)}, unless a deployed program needs it",
        there,
    )


_NAMED = 3


def check_database(path: Path) -> DoctorCheck:
    """Open a database, which checks the file, and apply the best record of each workload."""
    from schedlang.database import best_first
    from schedlang.database.file import is_alive
    from schedlang.database.programs import Unreadable, replayed
    from schedlang.targets import toolchain_key

    name = "database"
    if path.is_dir():
        return DoctorCheck(name, "fail", f"{path} is a folder", "give the file of a database")
    if not path.is_file():
        return DoctorCheck(
            name, "fail", f"{path}: there is no such file", "tune --database makes one"
        )
    try:
        opened = sl.open_database(path, read_only=True)
    except sl.DatabaseError as error:
        reason, _, remedy = str(error).partition("; ")
        return DoctorCheck(name, "fail", reason, remedy)
    key, toolchain = sl.Target("cpu").key, toolchain_key()
    with opened:
        workloads, runs, unreadable = opened.workloads(), opened.runs(), Unreadable()
        total = opened.count()
        here = usable = 0
        for workload_key, workload_name in workloads:
            here += opened.count(workload_key, key, toolchain)
            found = best_first(opened, workload_key, key)
            program = unreadable.workload(opened, workload_key, workload_name)
            if found and program is not None:
                usable += replayed(found[0], program, unreadable=unreadable) is not None
    unfinished = [run for run in runs if not run.outcome]
    alive = [run for run in unfinished if run.owner and is_alive(run.owner)]
    figures = {
        "records": total,
        "records_of_this_machine": here,
        "workloads": len(workloads),
        "usable": usable,
        "runs": len(runs),
        "runs_not_ended": len(unfinished),
    }
    text = (
        f"{path} is sound: {total:,} records of {len(workloads)} workloads, {here:,} of them from "
        f"this machine and toolchain; {len(runs)} runs"
    )
    if unreadable:
        return DoctorCheck(
            name,
            "warn",
            f"{text}; some rows cannot be used: {unreadable}",
            "they were written by another version, or are damaged; the others are used",
            figures,
        )
    if unfinished and len(alive) < len(unfinished):
        ids = ", ".join(f"#{run.id}" for run in unfinished[:_NAMED])
        more = "" if len(unfinished) <= _NAMED else f" and {len(unfinished) - _NAMED} more"
        return DoctorCheck(
            name, "ok", f"{text}; not ended: {ids}{more}, the same call continues", figures=figures
        )
    return DoctorCheck(name, "ok", text, figures=figures)
