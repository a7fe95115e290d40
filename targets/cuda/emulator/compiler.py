"""The host's C++ compiler: finds it, and makes a program of a translated source."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

from schedlang.targets.cuda.emulator.result import EmulationError, UnknownCodeError

_LOCK = threading.Lock()
_INCLUDE = Path(__file__).parent / "include"
_PARTS = ("main.cpp", "scheduler.cpp", "memory.cpp", "checks.cpp", "wgmma.cpp")
_FLAGS = ("-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", f"-I{_INCLUDE}")
# The thread sanitizer's calls are ours (checks.cpp); its library is not linked.
_KERNEL_FLAGS = (
    "-include", "emulator.h", "-fsanitize=thread", "-fsanitize=bounds", "-fno-exceptions",
    "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off",
)  # fmt: skip
_POISON_FLAG = "-ftrivial-auto-var-init=pattern"
_NOT_DECLARED = re.compile(
    r"error: (?:'|‘|use of undeclared identifier ')(?:\w+::)*(?P<name>\w+)"
    r"(?:'|’)?(?: was not declared| has not been declared| does not name a type|'|$)"
    r"|fatal error: '?(?P<header>[\w./]+)'?(?:: No such file| file not found)"
)


@cache
def find_compiler() -> str:
    """Return the C++ compiler of this machine: ``$CXX``, or c++, g++ or clang++.

    Raises ``EmulationError`` where there is none.
    """
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)) is not None:
            return path
    raise EmulationError(
        "the emulator compiles generated CUDA C++ with the host's C++ compiler, and there is none: "
        "install one (apt-get install g++, conda install gxx, xcode-select --install) or name it "
        "in the environment variable CXX"
    )


def build(source: str) -> Path:
    """Compile a translated source; return the program, which is cached for this process.

    Raises ``UnknownCodeError`` for a name that the emulator does not declare, and
    ``EmulationError`` for other errors of the compiler.
    """
    with _LOCK:
        return _build(source)


def _build(source: str) -> Path:
    folder = _folder()
    program = folder / hashlib.sha256(source.encode()).hexdigest()[:24]
    if not program.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            text, code, made = (Path(scratch, name) for name in ("k.cpp", "k.o", "program"))
            text.write_text(source)
            _run([*_FLAGS, *_KERNEL_FLAGS, *_poison_flags(), "-c", str(text), "-o", str(code)])
            _run([str(code), *map(str, _runtime()), "-o", str(made)])
            made.replace(program)
    return program


@cache
def _folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="schedlang-emulator-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


@cache
def _runtime() -> tuple[Path, ...]:
    """Compile the scheduler and the checks, once."""
    made = []
    for part in _PARTS:
        code = _folder() / Path(part).with_suffix(".o")
        _run([*_FLAGS, "-c", str(_INCLUDE / part), "-o", str(code)])
        made.append(code)
    return tuple(made)


@cache
def _poison_flags() -> tuple[str, ...]:
    """Local arrays start as garbage of one value, where the compiler can do that (GCC 12)."""
    command = [find_compiler(), _POISON_FLAG, "-fsyntax-only", "-x", "c++", os.devnull]
    known = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return (_POISON_FLAG,) if known else ()


def _run(arguments: list[str]) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        [find_compiler(), *arguments], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    for line in errors:
        if (found := _NOT_DECLARED.search(line)) is not None:
            name = found["name"] or found["header"]
            raise UnknownCodeError(
                f"the generated code uses {name!r}, which the emulator does not know", name
            )
    reason = errors[0] if errors else done.stderr.strip()[-500:]
    raise EmulationError(f"{find_compiler()} does not compile the generated code: {reason}")
