"""Recorded spaces in the formats of other tuners, for ``schedlang export``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import schedlang as sl
from schedlang.cli.naming.files import existing_file
from schedlang.cli.naming.stored import writable
from schedlang.cli.verb import Answer, UsageError
from schedlang.cli.words import SCRIPT
from schedlang.files import write_text


class SpaceFiles(NamedTuple):
    """The JSON files to write; None for a format that is not wanted."""

    t1: Path | None
    t4: Path | None
    kernel_tuner: Path | None

    @property
    def given(self) -> dict[str, Path]:
        """The files that are wanted, by their options."""
        named = {f"--{name.replace('_', '-')}": path for name, path in self._asdict().items()}
        return {option: path for option, path in named.items() if path is not None}


def export_space(what: str | None, words: Sequence[str], files: SpaceFiles) -> Answer:
    """Write a recorded space in other formats.

    Parameters
    ----------
    what: path of the recorded space.
    words: further words of the command line; there must be none.
    files: what to write; one file at least.

    UsageError for a file that is not there or cannot be written, and for two names of one file.
    RecordingError for one that is no recorded space.
    """
    option = next(iter(files.given))
    if what is None:
        raise UsageError(f"{option} is of a recorded space: give its file, mm.space {option} FILE")
    if words:
        raise UsageError(f"{what} takes no sizes: leave out {' '.join(words)!r}")
    space = existing_file(Path(what))
    program = None if files.t1 is None else files.t1.with_suffix(SCRIPT)
    outputs = [*files.given.values(), *([] if program is None else [program])]
    for output in outputs:
        writable(output)
    if len({path.resolve() for path in (space, *outputs)}) < 1 + len(outputs):
        raise UsageError(f"{', '.join(files.given)}: give each a file of its own")
    recorded = sl.load_survey(space)
    from schedlang.measurement.recorded import to_kernel_tuner, to_t1, to_t4

    texts: dict[Path, str] = {}
    if program is not None:
        texts[program] = recorded.workload.mod.script()
        if program.exists() and program.read_text(encoding="utf-8") != texts[program]:
            raise UsageError(
                f"{program} is another program, and --t1 writes one there: give --t1 another name"
            )
    if files.t1 is not None and program is not None:
        cache = None if files.kernel_tuner is None else str(files.kernel_tuner)
        texts[files.t1] = json.dumps(to_t1(recorded, program.name, cache), allow_nan=False)
    if files.t4 is not None:
        texts[files.t4] = json.dumps(to_t4(recorded), allow_nan=False)
    if files.kernel_tuner is not None:
        texts[files.kernel_tuner] = json.dumps(to_kernel_tuner(recorded), allow_nan=False)
    for path, text in texts.items():
        write_text(path, text)
    document = {
        "space": str(space),
        "workload": recorded.workload.name,
        "ways": len(recorded.ways),
        "programs": len(recorded.programs),
        "files": [str(path) for path in texts],
    }
    said = (
        f"{recorded.workload.name}: {len(recorded.ways):,} ways to {len(recorded.programs):,} "
        "programs"
    )
    return Answer("\n".join([said, *(f"wrote {path}" for path in texts)]), document)
