"""The kinds of targets there are, by name: a new kind is a line here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError

if TYPE_CHECKING:
    from schedlang.tvm.codegen import CodeGenerator

KINDS = {
    "cpu": "schedlang.targets.cpu.target:CPUTarget",
    "cuda": "schedlang.targets.cuda.target:CUDATarget",
}
"""Where the class of each kind is, as ``"module:Class"``; it is imported when it is needed."""
# What others call a kind, TVM for one, in lower case.
_OTHER_NAMES = {
    "llvm": "cpu",
    "cpu": "cpu",
    "host": "cpu",
    "native": "cpu",
    "gpu": "cuda",
    "nvidia": "cuda",
    "cuda": "cuda",
}
# How a machine of a kind is numbered: others write "cuda:1".
_NUMBERED = {"cuda": "device"}
_OPTIONS = {"cpu": "cores=4, mcpu=...", "cuda": 'arch="sm_90"'}


def load(kind: str) -> Any:
    """Return the class of a kind, a subclass of ``Target``."""
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)


def package(kind: str) -> ModuleType:
    """Return the package that the class of a kind is in: ``schedlang.targets.<kind>``."""
    return import_module(KINDS[kind].partition(":")[0].rpartition(".")[0])


def classes() -> list[Any]:
    """Return the classes of all kinds."""
    return [load(kind) for kind in KINDS]


def all_names() -> tuple[str, ...]:
    """Return the names of all targets, by kind."""
    return tuple(name for kind in KINDS for name in dict.fromkeys((kind, *load(kind).names())))


def class_of(name: str) -> Any:
    """Return the class of the kind that has a target called ``name``.

    A kind's own name is in the table; for others, each kind is asked for its names.
    """
    if not isinstance(name, str):
        raise TargetError(f"{name!r} ({type(name).__name__}) is not the name of a target")
    if name in KINDS:
        return load(name)
    for cls in map(load, KINDS):
        if is_among(name, cls.names()):
            return cls
    raise unknown_target(name)


def is_among(name: str, names: Iterable[str]) -> bool:
    """Tell whether one of ``names`` is called ``name``: in full, or by what follows its slash."""
    return any(name in (full, full.partition("/")[2]) for full in names)


def unknown_target(name: str, names: Iterable[str] = ()) -> TargetError:
    """Return the error for a name that no target has: it lists the names, and the nearest one.

    ``names`` are those of all targets; by default their classes are asked, which imports them.
    """
    names = tuple(names) or all_names()
    word, _, number = name.strip().partition(":")
    kind = _OTHER_NAMES.get(word.lower(), "")
    if kind in _NUMBERED and number.isdecimal():
        hint = f"did you mean Target({kind!r}, {_NUMBERED[kind]}={int(number)})? Known"
        return TargetError(f"unknown target {name!r}; {hint}: {', '.join(names)}")
    word, _, options = name.strip().partition(" ")
    if word.lower() in _OTHER_NAMES:
        kind = _OTHER_NAMES[word.lower()]
        given = f", with options as arguments: Target({kind!r}, {_OPTIONS[kind]})"
        hint = f"did you mean {kind!r}{given if options else ''}? Known"
        return TargetError(f"unknown target {name!r}; {hint}: {', '.join(names)}")
    # Users write avx512-vnni, AVX512VNNI, arm/sve: compare without separators and case.
    known = {
        _plain(text): full
        for full in names
        if "/" in full
        for text in (full.partition("/")[2], full)
    }
    close = difflib.get_close_matches(_plain(name), known, n=1)
    hint = f"did you mean {known[close[0]]!r}? Known" if close else "known"
    return TargetError(f"unknown target {name!r}; {hint}: {', '.join(names)}")


def code_generator(spec: Mapping[str, Any]) -> CodeGenerator:
    """Make, in any process, the code generator that the ``spec()`` of a target describes."""
    made: CodeGenerator = load(spec["kind"]).code_generator(spec)
    return made


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
