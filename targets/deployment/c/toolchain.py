"""The C compiler and linker, and what they make of object files: a library, an archive, an object.

Only the entries of a library can be seen from outside, and the run time, which is weak: programs
take any number of libraries.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from schedlang.targets.errors import BuildError

SHARED, ARCHIVE, OBJECT = ".so", ".a", ".o"
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden")
# Threads may be in the code of a library for ever: it is not unloaded.
_SHARED = (
    *("-shared", "-pthread", "-Wl,--version-script=seen", "-Wl,--no-undefined"),
    *("-Wl,-z,nodelete", "-Wl,--strip-debug", "-Wl,--as-needed"),
)
_RESOURCES = ("schedlang.h", "kernel.h", "glue.h", "runtime.c")
_ERROR_LINES = 3


class Toolchain:
    """A C compiler with its binutils, working in a folder.

    Parameters
    ----------
    compiler: a command; by default that of the variable ``CC``, or the first that is installed.
    folder: for what it makes on the way.

    Raises ``BuildError`` where there is none.
    """

    def __init__(self, compiler: str | None, folder: Path) -> None:
        if compiler is not None and not isinstance(compiler, str):
            raise BuildError(f"compiler={compiler!r}; give the command of a C compiler as text")
        wanted = shlex.split(compiler or os.environ.get("CC") or "")
        tried = wanted[:1] or _COMPILERS
        found = next(filter(None, map(shutil.which, tried)), None)
        if found is None:
            raise BuildError(
                f"there is no C compiler {wanted[0]}: give another one"
                if wanted
                else "exporting C needs a C compiler, and there is none: install gcc or clang"
            )
        self._compiler, self.folder = [os.path.abspath(found), *wanted[1:]], folder
        for name in _RESOURCES:
            text = files(__package__).joinpath(name).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")

    def compile(self, *sources: Path) -> list[Path]:
        """Compile files, and the run time; return their objects."""
        made = []
        for source in (*sources, self.folder / "runtime.c"):
            made.append(source.with_suffix(OBJECT))
            self._run(*self._compiler, *_OPTIONS, "-c", source.name, "-o", made[-1].name)
        return made

    def rename(self, code: Path, symbols: Mapping[str, str]) -> None:
        """Give symbols of an object file other names, in the file."""
        listed = code.with_suffix(".symbols")
        lines = [f"{one} {other}\n" for one, other in symbols.items()]
        listed.write_text("".join(lines), encoding="utf-8")
        self._run(self._tool("objcopy"), f"--redefine-syms={listed.name}", code.name)

    def link(self, file: str, code: Sequence[Path], run_time: Path, names: Sequence[str]) -> Path:
        """Link code and run time into what a file's suffix says.

        Of the code, only ``names`` can be seen from outside.
        """
        form = Path(file).suffix
        if form == SHARED:
            return self._shared(file, [*code, run_time], names)
        joined = self._joined("joined.o", code)
        keep = [f"--keep-global-symbol={name}" for name in names]
        self._run(self._tool("objcopy"), "--strip-debug", *keep, joined.name)
        if form == OBJECT:
            return self._joined("linked.o", [joined, run_time])
        made = self.folder / "linked.a"
        self._run(self._tool("ar"), "rcsD", made.name, joined.name, run_time.name)
        return made

    def _shared(self, file: str, objects: Sequence[Path], names: Sequence[str]) -> Path:
        listed = "".join(f"{name}; " for name in (*names, "schedlang_*"))
        (self.folder / "seen").write_text(f"{{ global: {listed}local: *; }};\n", encoding="utf-8")
        made = self.folder / "linked.so"
        self._run(
            *self._compiler,
            *_SHARED,
            f"-Wl,-soname,{file}",
            "-o",
            made.name,
            *(one.name for one in objects),
            "-lm",
        )
        return made

    def _joined(self, name: str, objects: Sequence[Path]) -> Path:
        made = self.folder / name
        self._run(
            *self._compiler, "-r", "-nostdlib", "-o", made.name, *(one.name for one in objects)
        )
        return made

    def _tool(self, name: str) -> str:
        """Return the tool that belongs to the compiler."""
        return self._run(*self._compiler, f"-print-prog-name={name}").strip()

    def _run(self, *command: str) -> str:
        try:
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, check=True
            )
        except OSError as error:
            raise BuildError(f"cannot run {command[0]}: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            lines = [line for line in error.stderr.splitlines() if line.strip()][:_ERROR_LINES]
            said = "; ".join(lines) or f"exit status {error.returncode}"
            raise BuildError(f"{Path(command[0]).name} failed: {said}") from error
        return done.stdout
