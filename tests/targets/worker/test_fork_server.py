"""Workers are forked from one process, and each is as if it had been started by itself."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlang.host import children_of, descendants
from schedlang.targets.worker import fork_server, forking, process as worker_process
from schedlang.targets.worker.forking import Child
from schedlang.targets.worker.process import WorkerProcess, wait_any
from tests.processes import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")

ROOT = Path(__file__).resolve().parents[3]
TELL = """
import json, os, resource, sys, threading, warnings
told = {
    "variables": dict(os.environ),
    "folder": os.getcwd(),
    "arguments": sys.argv[1:],
    "name": __name__,
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "cores": sorted(os.sched_getaffinity(0)),
    "files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "threads": threading.active_count(),
    "parents": [os.getppid()],
}
os.write(1, json.dumps(told).encode())
"""


@pytest.fixture(autouse=True)
def own_servers() -> Iterator[None]:
    """The servers of other tests stay out of this."""
    before = dict(forking._servers)
    forking._servers.clear()
    yield
    for one in forking._servers.values():
        one.close()
    forking._servers.clear()
    forking._servers.update(before)


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Start a worker that tells what it is in."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "telling.py").write_text(TELL)
    return lambda: heard(start())


def start() -> Child:
    return worker_process.start_child("telling", worker_process.worker_environment(1))


def heard(child: Child) -> dict[str, Any]:
    """What it tells; it ends then."""
    try:
        text, end = b"", time.monotonic() + 60
        while not text.endswith(b"}") and time.monotonic() < end:
            text += child.stdout.read() or b""
            time.sleep(0.005)
        found: dict[str, Any] = json.loads(text)
        return found
    finally:
        child.end()


def servers() -> set[int]:
    return {one._process.pid for one in forking._servers.values()}


def test_one_process_forks_all_and_each_is_a_program_of_its_own(
    tell: Callable[[], dict[str, Any]],
) -> None:
    first = tell()
    before = servers()
    second = tell()
    assert servers() == before and len(before) == 1
    assert first["parents"] != second["parents"]  # a guard each
    for one in (first, second):
        assert one["arguments"] == [] and one["name"] == "__main__"
        assert one["files"] == [0, 1, 2] and one["threads"] == 1


def test_workers_that_are_ordered_together_have_no_files_of_each_other(
    tell: Callable[[], dict[str, Any]],
) -> None:
    del tell
    for child in [start() for _ in range(5)]:
        assert heard(child)["files"] == [0, 1, 2]


def test_many_open_files_and_signals_that_are_blocked_change_nothing(
    tell: Callable[[], dict[str, Any]],
) -> None:
    """``select`` knows no descriptors above 1023; whoever starts a process hands its mask on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2000:
        pytest.skip("the system allows fewer files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, before[1]))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    try:
        assert tell()["files"] == [0, 1, 2]
        child = start()
        begun = time.monotonic()
        child.end()
        assert child.has_ended and time.monotonic() - begun < 1.5
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for file in opened:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("closed", [(0,), (0, 1, 2)])
def test_a_program_without_standard_streams_has_workers(
    closed: tuple[int, ...], tell: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    del tell
    script = (
        "import os, sys\n"
        f"for stream in {closed}: os.close(stream)\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.targets.worker.test_fork_server import heard, start\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write(repr(heard(start())['files']))\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    assert (tmp_path / "told").read_text() == "[0, 1, 2]"


@pytest.mark.slow
def test_who_does_not_listen_is_told_later(tiny_worker: str, tmp_path: Path) -> None:
    """250 workers begin and end, unheard: the socket holds fewer than 300 reports."""
    (tmp_path / f"{tiny_worker}.py").write_text("raise SystemExit(3)")
    started = [
        worker_process.start_child(tiny_worker, worker_process.worker_environment(1))
        for _ in range(250)
    ]
    assert wait_for(lambda: all(child.stdout.read() == b"" for child in started))
    assert wait_for(lambda: all(child.has_ended for child in started))
    assert {child.code for child in started} == {3}
    for child in started:
        child.end()


def test_a_worker_has_the_environment_and_the_folder_of_its_start(
    tell: Callable[[], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_USER_S", "first \udcff\n=")
    assert tell()["variables"]["A_USER_S"] == "first \udcff\n="
    before = servers()
    monkeypatch.delenv("A_USER_S")
    monkeypatch.setenv("ANOTHER", "x" * 100_000)
    monkeypatch.chdir(tmp_path)
    found = tell()
    assert servers() == before
    assert "A_USER_S" not in found["variables"] and len(found["variables"]["ANOTHER"]) == 100_000
    assert found["variables"] == worker_process.worker_environment(1)
    assert found["folder"] == str(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError):
        os.getcwd()
    (tmp_path / "telling.py").write_text(
        TELL.replace("os.getcwd()", "os.readlink('/proc/self/cwd')")
    )
    assert tell()["folder"].startswith(str(gone))


def files_in_use() -> int:
    return max(map(int, os.listdir("/proc/self/fd")))


def allow_files(count: int) -> None:
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setenv("OMP_NUM_THREADS", "1"),
        lambda patch: patch.setenv("PYTHONHASHSEED", "7"),
        lambda patch: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        lambda patch: allow_files(files_in_use() + 200),
    ],
    ids=["threads of a library", "Python's settings", "cores", "limits"],
)
def test_what_is_taken_over_at_the_start_makes_another_server(
    tell: Callable[[], dict[str, Any]],
    change: Callable[[pytest.MonkeyPatch], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores, files = os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    tell()
    (before,) = servers()
    try:
        change(monkeypatch)
        found = tell()
        assert found["cores"] == sorted(os.sched_getaffinity(0))
        assert found["files_limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert len(servers()) == 1 and servers() != {before}
        assert before not in children_of(os.getpid()), "one that nobody needs stays"
    finally:
        os.sched_setaffinity(0, cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)


def test_a_killed_server_takes_its_workers_along_and_is_replaced(tiny_worker: str) -> None:
    process = WorkerProcess(1, tiny_worker)
    process.send({})
    wait_any([process], time.monotonic() + 60)
    assert process.take_reply() is not None
    (before,) = servers()
    os.kill(before, signal.SIGKILL)
    wait_any([process], time.monotonic() + 60)
    assert process.exited and process.ended() == -signal.SIGKILL
    another = WorkerProcess(1, tiny_worker)
    another.send({})
    wait_any([another], time.monotonic() + 60)
    assert another.take_reply() is not None
    assert servers() != {before}
    another.kill()


def test_the_processes_of_a_killed_guard_end(tiny_worker: str, tmp_path: Path) -> None:
    """The worker ends with it, and what the worker had started comes to the server."""
    (tmp_path / f"{tiny_worker}.py").write_text(
        "import os\nos.system('setsid sleep 600 &')\nos.write(1, b'x')\nos.read(0, 1)\n"
    )
    child = worker_process.start_child(tiny_worker, worker_process.worker_environment(1))
    assert wait_for(lambda: bool(child.stdout.read()))
    (known,) = servers()
    assert isinstance(child, forking._Forked) and not child.has_ended and child.guard is not None
    family = set(descendants(known))
    assert len(family) == 3
    os.kill(child.guard, signal.SIGKILL)
    assert wait_for(lambda: not children_of(known))
    assert child.has_ended and child.code == -signal.SIGKILL
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)
    child.end()


def test_a_system_that_starts_no_process_costs_one_worker(tiny_worker: str, tmp_path: Path) -> None:
    full = tmp_path / "full"
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nfork = os.fork\n"
        "def fork_or_fail():\n"
        f"    if os.path.exists({str(full)!r}):\n"
        "        raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "    return fork()\n"
        "os.fork = fork_or_fail\n"
    )

    def answers(process: WorkerProcess) -> bool:
        process.send({})
        wait_any([process], time.monotonic() + 60)
        return process.take_reply() is not None

    first = WorkerProcess(1, tiny_worker)
    assert answers(first)
    full.touch()
    second = WorkerProcess(1, tiny_worker)
    assert not answers(second) and second.exited and second.ended() == 1
    assert second.stderr == "no process can be started: Resource temporarily unavailable\n"
    full.unlink()
    third = WorkerProcess(1, tiny_worker)
    assert answers(third) and answers(first) and len(servers()) == 1
    for process in (first, third):
        process.kill()


def test_without_workers_it_ends_after_a_while(
    tell: Callable[[], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets no order any more some seconds before."""
    tell()
    ((key, one),) = forking._servers.items()
    assert one.usable and one.idle
    monkeypatch.setattr(one, "_used", time.monotonic() - fork_server.IDLE_SECONDS + 1)
    assert not one.usable
    tell()
    assert forking._servers[key] is not one


def test_a_copy_of_this_process_has_servers_of_its_own(
    tell: Callable[[], dict[str, Any]],
) -> None:
    tell()
    (before,) = servers()
    copy = os.fork()
    if not copy:
        try:
            tell()
            right = servers() != {before}
            for one in forking._servers.values():
                one.close()
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0
    tell()
    assert servers() == {before}
