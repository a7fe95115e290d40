"""The right results of a workload in a file, for the worker that takes the place of a lost one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from schedlang.targets.measure.expected.reference import Reference
from schedlang.targets.worker.protocol import encode, read_message
from schedlang.workloads.workload import Argument


def write_results(path: Path, reference: Reference, unreached: Sequence[str]) -> None:
    """Write what ``read_results`` reads; the file appears when it is complete.

    Not for results with bounds of their own: those of narrow sums of small programs.
    """
    if any(bound is not None for one in reference.results for bound in one.wide):
        return
    header, blobs = reference.pack()
    partial = path.with_suffix(".part")
    partial.write_bytes(encode({"reference": header, "unreached": list(unreached)}, blobs))
    os.replace(partial, path)


def read_results(path: Path, args: Sequence[Argument]) -> tuple[Reference, list[str]] | None:
    """Return the results, and the sides of branches that no inputs take; None without a file."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        message = read_message(stream)
    if message is None:
        return None
    found = Reference.unpack(message.header["reference"], message.blobs, args)
    return found, list(message.header["unreached"])
