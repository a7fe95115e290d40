"""The command line as a process: what it imports, and where its output goes."""

from __future__ import annotations

import os
import subprocess
import sys

import schedlang as sl
from tests.cli.conftest import Tuned

LISTED = """
import contextlib, sys
import schedlang.cli
for words in (["--help"], ["tune", "--help"], ["doctor", "--help"]):
    sys.argv = ["schedlang", *words]
    with contextlib.suppress(SystemExit):
        schedlang.cli.main()
import os
os.environ["_SCHEDLANG_COMPLETE"] = "complete_bash"
os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "schedlang tune mat", "2"
sys.argv = ["schedlang"]
with contextlib.suppress(SystemExit):
    schedlang.cli.main()
print("imported:", *sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_help_and_completion_are_quick() -> None:
    """TVM takes seconds to import; who asks for help must not wait for it."""
    words = [sys.executable, "-c", LISTED]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "--trials" in said and "matmul" in said.splitlines()
    imported = said.rpartition("imported:")[2].split()
    assert "typer" in imported
    assert not {"tvm", "torch", "altair", "numpy", "scipy", "lightgbm"} & set(imported)


def test_python_m() -> None:
    words = [sys.executable, "-m", "schedlang", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert said.stdout == f"schedlang {sl.__version__}\n"


def test_whoever_reads_the_output_may_stop(tuned: Tuned) -> None:
    """As ``| head -1`` does: no error, and no message."""
    script = 'set -o pipefail; "$0" -m schedlang show "$1" --as json | head -c 1'
    words = ["bash", "-c", script, sys.executable, str(tuned.file)]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
