"""Versions of packages and of the tools that some verbs need."""

from __future__ import annotations

import os
import platform

import schedlang
from schedlang.cli.doctor.check import Check
from schedlang.requirements import FFI, TVM, fits, install_command, requirements, version_of

# What an extra is for.
_EXTRAS = {
    "torch": ("torch", "models of PyTorch; run --bench against it"),
    "onnx": ("onnx", "ONNX files"),
    "pandas": ("dataframe", "TuneResult.to_dataframe"),
    "tornado": ("rpc", "measuring on boards and phones"),
}


def check_versions() -> Check:
    """Compare the installed packages with what this version of schedlang needs."""
    wanted = requirements()
    found = {name: version_of(name) for name in wanted}
    wrong = {
        name: (found[name], spec)
        for name, spec in wanted.items()
        if found[name] is None or not fits(found[name] or "", spec)
    }
    shown = [f"schedlang {schedlang.__version__}"]
    shown += [f"{name} {found[name]}" for name in (TVM, FFI) if found.get(name)]
    shown.append(f"Python {platform.python_version()}")
    figures = {"schedlang": schedlang.__version__, **found, "python": platform.python_version()}
    if not wanted:
        return Check(
            "versions", "warn", ", ".join(shown), "what is needed is not known: pip install ."
        )
    if not wrong:
        return Check("versions", "ok", ", ".join(shown), figures=figures)
    texts = [
        f"{name} {version or 'is not installed'}, needed {spec or 'in any version'}"
        for name, (version, spec) in wrong.items()
    ]
    remedy = install_command({name: spec for name, (_, spec) in wrong.items()})
    if FFI in wrong:
        remedy += "  (with another one, TVM ends the process while tuning)"
    return Check("versions", "fail", "; ".join(texts), remedy, figures)


def check_tvm() -> Check:
    """Import TVM, and say what it was built with."""
    from schedlang.tvm import codegen

    found = codegen.versions()
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    return Check("tvm", "ok", text, figures=found)


def check_extras() -> Check:
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
    return Check("extras", "ok", text, figures=there)


def check_compiler() -> Check:
    """Look for the C compiler that links libraries."""
    from schedlang.tvm import codegen

    if codegen.has_linker():
        return Check("C compiler", "ok", "found: libraries can be exported")
    return Check(
        "C compiler",
        "warn",
        "none: kernels can be tuned and called, and no library can be exported",
        "install gcc or clang: apt-get install g++",
    )


def check_environment() -> Check:
    """Name environment variables that change what is measured."""
    names = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "TVM_BIND_THREADS", "TVM_LOG_DEBUG")
    there = {name: os.environ[name] for name in names if name in os.environ}
    if not there:
        return Check("environment", "ok", "no variable changes TVM's threads")
    text = ", ".join(f"{name}={value}" for name, value in there.items())
    return Check(
        "environment",
        "warn",
        f"{text} is set, which TVM reads",
        f"unset {' '.join(there)}, unless a deployed program needs it",
        there,
    )
