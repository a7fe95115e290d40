"""What a figure was made with: it stands in its JSON file."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import schedlang as sl

_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "lightgbm", "numpy", "scipy")


def made_with() -> dict[str, Any]:
    """Return commit, versions and machine, as JSON values."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit or "unknown",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "target": sl.Target("cpu").key,
        "cores": os.cpu_count(),
    }
