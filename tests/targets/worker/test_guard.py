"""Workers end with their parent at any moment, and nothing that they start outlives them.

The programs are a few lines without TVM, so that they start at once.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlang.targets.worker import fork_server
from schedlang.targets.worker.process import WorkerProcess, wait_any
from tests.processes import marked, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guards are for Linux")

MARK = "SCHEDLANG_GUARD_TEST"
# Leaves the session of the one who starts it, and the one who started it ends.
DAEMON = "import os\nos.system('setsid sleep 600 &')\n"
SLEEP = "import time\ntime.sleep(600)\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a program, return its name. Its processes, and all below, have ``MARK``."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(MARK, str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "guarded_program.py").write_text(text)
        return "guarded_program"

    return write


def sleeps(mark: Path) -> bool:
    """Whether a marked ``sleep`` is there."""
    return any(b"sleep\x00600" in command(pid) for pid in marked(MARK, mark))


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_server_whose_parent_is_gone_already_does_not_start() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.close()  # there will be no orders
        for parent, status in ((os.getppid(), 1), (os.getpid(), 0)):
            command = [sys.executable, "-P", "-m", fork_server.__name__, str(parent)]
            done = subprocess.run([*command, str(theirs.fileno())], pass_fds=[theirs.fileno()])
            assert done.returncode == status


@pytest.mark.parametrize("text", [SLEEP, DAEMON + SLEEP], ids=["while it imports", "with a daemon"])
def test_a_killed_parent_leaves_nothing(
    text: str,
    program: Callable[[str], str],
    tmp_path: Path,
    survivors: Callable[[set[int]], set[int]],
) -> None:
    """Its standard input stays open: another process holds the pipe too."""
    name = program(text)
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import time\n"
            "from schedlang.targets.worker.process import start_child, worker_environment\n"
            f"child = start_child({name!r}, worker_environment(1))\n"
            "time.sleep(600)\n",
        ],
        stdin=subprocess.PIPE,
    )
    try:
        daemon = text != SLEEP
        assert wait_for(lambda: sleeps(tmp_path) if daemon else len(marked(MARK, tmp_path)) == 3)
        family = marked(MARK, tmp_path, servers=True)
    finally:
        parent.kill()
        parent.wait()
    assert len(family) == 4 + daemon
    assert survivors(family) == set()
    parent.communicate()


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1])
def test_it_may_be_killed_before_it_is_there(
    seconds: float, program: Callable[[str], str], tmp_path: Path
) -> None:
    process = WorkerProcess(1, program(SLEEP))
    time.sleep(seconds)
    process.kill()
    assert wait_for(lambda: not marked(MARK, tmp_path))


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), 11)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os.killpg(0, 15)", -signal.SIGTERM),
    ],
)
def test_it_ends_as_its_worker_did_and_with_what_that_left(
    end: str, code: int, program: Callable[[str], str], tmp_path: Path
) -> None:
    """The daemon has the worker's pipes: it would keep the parent waiting."""
    process = WorkerProcess(1, program(DAEMON + end))
    wait_any([process], time.monotonic() + 60)
    assert process.exited
    assert process.ended() == code
    assert marked(MARK, tmp_path) == set()


def test_a_killed_worker_takes_everything_along(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    process = WorkerProcess(1, program(DAEMON + SLEEP))
    assert wait_for(lambda: sleeps(tmp_path))
    process.kill()
    assert marked(MARK, tmp_path) == set()


def test_a_guard_that_is_told_to_end_when_its_worker_has_kills_what_that_left(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    """SIGTERM finds it between its worker's end and the end of what the worker had started."""
    for _ in range(20):
        process = WorkerProcess(1, program(DAEMON + "os._exit(0)"))
        wait_any([process], time.monotonic() + 60)
        process.kill()
        assert wait_for(lambda: not marked(MARK, tmp_path))


def test_torch_is_hidden_while_a_worker_imports_and_not_later(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    """TVM imports torch where there is one: that takes longer than all else a worker imports."""
    (tmp_path / "torch.py").write_text("")
    process = WorkerProcess(
        1,
        program(
            """
try:
    import torch
except ImportError:
    from schedlang.targets.worker.fork_server import show_torch
    show_torch()
    import torch
    raise SystemExit(3)
"""
        ),
    )
    wait_any([process], time.monotonic() + 60)
    assert process.ended() == 3


def test_without_a_guard_a_worker_ends_with_its_input(environment: dict[str, str]) -> None:
    """As on systems other than Linux."""
    code = "from schedlang.targets.worker.protocol import serve\nserve(print)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"", env=environment, capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"")
