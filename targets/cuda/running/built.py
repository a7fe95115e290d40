"""What a build worker leaves for the worker that runs on the GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.targets.measure.work import Requests, Work
from schedlang.targets.worker.request import Reply, Request


@dataclass(frozen=True, slots=True)
class Built:
    """The files of a program that was built.

    Attributes
    ----------
    library: the code for the CPU that launches the kernels; it holds their source too.
    cubin: their machine code; empty where there are none.
    digest: of the source, by which the library finds its machine code.
    workspaces: sizes in bytes of intermediate results in the GPU's memory.
    race: a race between its threads, in words; None if none was found.
    """

    library: Path
    cubin: Path | None
    digest: str
    workspaces: tuple[int, ...]
    race: str | None = None

    def header(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {
            "library": str(self.library),
            "cubin": "" if self.cubin is None else str(self.cubin),
            "digest": self.digest,
            "workspaces": list(self.workspaces),
            "race": self.race,
        }

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> Built:
        """Read the result of ``header()``; the mapping may hold more."""
        cubin = Path(header["cubin"]) if header["cubin"] else None
        sizes = tuple(header["workspaces"])
        return cls(Path(header["library"]), cubin, header["digest"], sizes, header["race"])


def digest_of(source: str) -> str:
    """Return the digest of a CUDA C++ source."""
    return hashlib.sha256(source.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class LoadRequests(Requests):
    """Makes requests to a worker that loads what others have built."""

    def build(self, work: Work, *, discard: bool) -> Request | Reply:
        """Load it, and forget all others first if told to ``discard`` them."""
        header = Built.read(work.built).header()
        request = {"request": "build", "id": work.serial, "discard": discard, **header}
        return Request(request, timeout=self.build_timeout)

    def built(self, work: Work, reply: Reply, late: str | None = None) -> Reply:
        """Apply the reply to loading: the time of the build is known already."""
        seconds = work.build_seconds
        found = Requests.built(self, work, reply, late)
        work.build_seconds = seconds
        return found
