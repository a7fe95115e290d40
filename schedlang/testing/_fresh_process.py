"""Running the present test again in a fresh process, where hashes of text differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

RESULT_FILE = "SCHEDLANG_RESULT_FILE"
"""Set in the fresh process: the path to which it writes its result."""


def check_in_fresh_process(
    result: Any,
    request: pytest.FixtureRequest,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Fail unless the present test, run alone in a fresh process, computes the same result.

    ``result`` consists of JSON values. In the fresh process this function only writes it down.
    """
    if RESULT_FILE in os.environ:
        Path(os.environ[RESULT_FILE]).write_text(json.dumps(result))
        return
    path = folder / "result.json"
    config = request.config
    command = [sys.executable, "-m", "pytest", request.node.nodeid, f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    changed = {
        RESULT_FILE: str(path),
        "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *sys.path])),
    }
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=config.rootpath,
        env={**inherited, **changed, **(environment or {})},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(path.read_text()) == result
