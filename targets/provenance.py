"""What a latency was measured with: versions of the tools, and the machine."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

from schedlang.targets import features, host
from schedlang.targets.target import Target, schedlang_version
from schedlang.tvm import codegen


def provenance(target: Target) -> dict[str, str]:
    """Names and values, all text: ``tvm``, ``ffi``, ``llvm``, ``python``, ``schedlang``,
    ``system``, ``cpu``, ``cpu_features``. A record of the target holds them.
    """
    return {
        **codegen.versions(),
        "python": platform.python_version(),
        "schedlang": schedlang_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_name() or "unknown",
        "cpu_features": " ".join(sorted(target.features & features.KNOWN)),
    }


@cache
def _cpu_name(root: Path = Path("/")) -> str:
    """What the CPU calls itself; its architecture where nothing says more."""
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^(?:model name|Hardware|CPU part)\s*:(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else host.architecture()
