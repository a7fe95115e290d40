"""What a library records about itself: its functions, its target, and what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlang.targets.deployment.signature import Signature
from schedlang.targets.errors import LibraryError
from schedlang.tvm import codegen

_VERSION = 1
# Versions whose machine code and run time fit together agree in this many numbers.
_RELEASE_NUMBERS = {"tvm": 2, "ffi": 2}


@dataclass(frozen=True)
class Manifest:
    """What a library records.

    Attributes
    ----------
    functions: signatures of the functions it exports.
    target: what ``Target.deployment`` returned; ``kind`` and ``key`` are always there.
    device_type: DLPack's number of the device that runs the functions.
    software: versions of TVM, its FFI and LLVM.
    entries: of a library for C, the name there of each function; it needs no ``software``.
    sizes: whether its functions are one program at several sizes.
    """

    functions: tuple[Signature, ...]
    target: Mapping[str, Any]
    device_type: int
    software: Mapping[str, str]
    entries: Mapping[str, str] = field(default_factory=dict)
    sizes: bool = False

    @property
    def threads(self) -> int:
        """Number of threads that its parallel loops were tuned for; 0 if they have none."""
        return int(self.target.get("threads", 0))

    def to_json(self) -> str:
        """Write it as one line of JSON."""
        return json.dumps(
            {
                "version": _VERSION,
                "functions": [function.to_json() for function in self.functions],
                "target": dict(self.target),
                "device_type": self.device_type,
                "software": dict(self.software),
                "entries": dict(self.entries),
                "sizes": self.sizes,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what ``to_json`` wrote. Raises LibraryError for anything else."""
        try:
            value = json.loads(text)
            version = value["version"]
            if version == _VERSION:
                functions = tuple(map(Signature.from_json, value["functions"]))
                target, software = dict(value["target"]), dict(value["software"])
                entries = dict(value.get("entries", {}))
                sizes = bool(value.get("sizes", False))
                made = cls(functions, target, int(value["device_type"]), software, entries, sizes)
                _ = made.threads, target["kind"], target["key"]
                return made
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LibraryError(f"what the library records is damaged: {error!r}") from error
        raise LibraryError(
            f"the library has a record of version {version!r}, and this schedlang reads version "
            f"{_VERSION}: export it again, or install the schedlang that wrote it"
        )

    def check_software(self) -> None:
        """Raise LibraryError if another release of TVM made the library, and it needs that one."""
        if self.entries:
            return
        here = codegen.versions()
        for name, numbers in _RELEASE_NUMBERS.items():
            made = self.software.get(name, "unknown")
            if made.split(".")[:numbers] != here[name].split(".")[:numbers]:
                package = {"tvm": "apache-tvm", "ffi": "apache-tvm-ffi"}[name]
                raise LibraryError(
                    f"the library was made with {package} {made}, and this process has "
                    f"{here[name]}: export it again here, or install {package}=={made}"
                )
