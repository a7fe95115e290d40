"""TVM's RPC: a real tracker and real servers on 127.0.0.1."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tvm.ir import IRModule

from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Status
from schedlang.modules import pack_ahead
from schedlang.targets import Target
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.rpc import measurer as rpc_measurer, servers as rpc_launch
from schedlang.targets.rpc.measurer import RPC
from schedlang.targets.rpc.servers import Service, start_server, start_tracker
from schedlang.targets.worker.preparation import LargePolicy
from schedlang.tvm.codegen import runtime as tvm_rpc
from schedlang.tvm.packing import with_weights
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets import programs
from tests.targets.pooled_contract import QUICK, WRONG, PooledContract, measured, workers
from tests.targets.programs import from_body, scheduled_matmul, sleeping

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("tornado") is None, reason="TVM's tracker needs tornado"
    ),
]

KEY = "cpu"
ONE_CORE = Target("cpu", cores=1)
CHANGES_AN_INPUT = """
for i, j in T.grid(64, 64):
    with T.sblock("A"):
        vi, vj = T.axis.remap("SS", [i, j])
        A[vi, vj] = T.float32(0)
"""
NAP = "T.evaluate(T.call_extern('int32', 'usleep', 100000))"


@pytest.fixture(scope="module")
def tracker() -> Iterator[Service]:
    with start_tracker() as service:
        yield service


@pytest.fixture(scope="module")
def servers(tracker: Service) -> Iterator[list[Service]]:
    """Two of them, on a core each where there are two."""
    cpus = Target("cpu").cpus
    with ExitStack() as stack:
        yield [
            stack.enter_context(start_server(tracker.address, KEY, cpus=[cpu]))
            for cpu in (cpus[0], cpus[-1])
        ]


@pytest.fixture(scope="module")
def workload() -> Workload:
    return programs.matmul()


@pytest.fixture(scope="module")
def good(workload: Workload) -> IRModule:
    return scheduled_matmul(workload)


@pytest.fixture(scope="module")
def strict(workload: Workload, tracker: Service, servers: list[Service]) -> Iterator[RPC]:
    """Verifies everything, with a tight limit."""
    with RPC(
        workload,
        ONE_CORE,
        tracker=tracker.address,
        key=KEY,
        verify="all",
        run_timeout=2.0,
        timing=QUICK,
    ) as measurer:
        yield measurer


def name(service: Service) -> str:
    return f"{service.address[0]}:{service.address[1]}"


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_candidates_are_measured_on_both_servers(
    strict: RPC, servers: list[Service], good: IRModule
) -> None:
    before = strict.runs.copy()
    assert all(one.verified for one in measured(strict, *[good] * 4).values())
    after = strict.runs - before
    assert set(after) == {name(service) for service in servers}
    assert after.total() == 4


def test_results_that_change_from_call_to_call(strict: RPC) -> None:
    found = measured(strict, from_body(programs.RANDOM), WRONG)
    assert found[0].status is found[1].status is Status.WRONG_RESULT
    assert "run again it gives other results" in found[0].message
    assert "run again" not in found[1].message


def test_a_race_that_no_call_may_show(strict: RPC) -> None:
    body = "for k in T.parallel(2):\n    C[0, 0] = C[0, 0] + A[k, 0]"
    [found] = measured(strict, from_body(body)).values()
    assert found.status is Status.WRONG_RESULT
    assert found.message.endswith("run in parallel and update the same elements of 'C'")


def test_a_changed_input(strict: RPC) -> None:
    found = measured(strict, from_body(CHANGES_AN_INPUT))
    assert found[0].status is Status.WRONG_RESULT
    assert found[0].message == "argument 0 is an input, and the program changed it"


def test_candidates_that_crash_their_servers_again_and_again(
    strict: RPC, servers: list[Service], good: IRModule
) -> None:
    crashing = from_body(programs.ABORT)
    found = measured(strict, good, *[crashing] * 6, good)
    for number in range(1, 7):
        assert found[number].status is Status.CRASHED
        assert re.match(TestContract.crash, found[number].message)
    assert found[0].ok and found[7].ok
    assert all("exited unsuccessfully" in service.log for service in servers)


def test_a_server_that_hangs(
    strict: RPC, servers: list[Service], good: IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_measurer, "_CONNECT_SECONDS", 1.0)
    assert all(m.ok for m in measured(strict, good, good).values())
    before = strict.runs.copy()
    os.killpg(servers[0].pid, signal.SIGSTOP)
    try:
        assert all(m.ok for m in measured(strict, good, good, good).values())
        assert set(strict.runs - before) == {name(servers[1])}
    finally:
        os.killpg(servers[0].pid, signal.SIGCONT)
    assert until(lambda: servers[0].address in registered(strict))


def registered(measurer: RPC) -> list[tuple[str, int]]:
    return tvm_rpc.registered(measurer._servers.tracker, 5.0).get(KEY, [])


def test_a_server_that_is_killed_costs_no_candidate(workload: Workload, tracker: Service) -> None:
    with ExitStack() as stack:
        doomed, other = (
            stack.enter_context(start_server(tracker.address, "fragile", cpus=ONE_CORE.cpus))
            for _ in range(2)
        )
        measurer = stack.enter_context(
            RPC(
                workload,
                ONE_CORE,
                tracker=tracker.address,
                key="fragile",
                verify=False,
                timing=QUICK,
                server_timeout=1.0,
            )
        )
        killed = threading.Event()

        def kill_while_it_runs() -> None:
            if until(lambda: running(measurer) == {name(doomed), name(other)}):
                time.sleep(0.05)  # into the nap
                doomed.stop()
                killed.set()

        killer = threading.Thread(target=kill_while_it_runs)
        killer.start()
        found = measured(measurer, *[from_body(NAP)] * 4)
        killer.join()
        assert killed.is_set()
        assert [m.status for m in found.values()] == [Status.OK] * 4
        assert measurer.runs == {name(other): 4}
        other.stop()
        with pytest.raises(TargetError, match="no server 'fragile' for"):
            measured(measurer, workload.mod)


def running(measurer: RPC) -> set[str]:
    return {
        work.server for work, stage in list(measurer._stages.running.values()) if stage == "run"
    }


def test_in_place_and_small_types(tracker: Service, servers: list[Service]) -> None:
    signature = 'A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")'
    body = """
for i in range(8):
    with T.sblock("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = B[vi] + A[vi]{}
"""
    module = from_body(body.format(""), signature)
    workload = from_prim_func(module["main"], name="add")
    assert [arg.role for arg in workload.args] == ["input", "inout"]
    twice = from_body(body.format(" + A[vi]"), signature)
    with RPC(workload, ONE_CORE, tracker=name(tracker), key=KEY, timing=QUICK) as measurer:
        found = measured(measurer, module, twice)
    assert found[0].ok and found[0].verified
    assert found[1].status is Status.WRONG_RESULT


class Impatient(RPC):
    """Cuts off unscheduled programs after two seconds."""

    _large = LargePolicy(steps=1e3, cut_off_seconds=2.0)


def test_a_slow_unscheduled_program_is_cut_off(tracker: Service, servers: list[Service]) -> None:
    slow = sleeping(100000)  # microseconds, 64 times, however fast the machine is
    with Impatient(
        slow, ONE_CORE, tracker=tracker.address, key=KEY, verify=False, timing=QUICK
    ) as measurer:
        bound = measurer.reference_latency
        assert 0 < bound < 64 * 0.1 and not measurer.reference_complete


def test_building_while_candidates_run(
    workload: Workload, good: IRModule, tracker: Service, servers: list[Service]
) -> None:
    with RPC(
        workload,
        ONE_CORE,
        tracker=tracker.address,
        key=KEY,
        builders=1,
        overlap=True,
        timing=TimingPolicy(min_repeats=2, max_repeats=3, flush_cache=True),
    ) as measurer:
        found = measured(measurer, good, good, good)
        assert all(m.ok and m.verified for m in found.values())
        assert len(workers(measurer)) == 3


def test_another_number_of_threads_is_refused(
    workload: Workload, good: IRModule, tracker: Service, servers: list[Service]
) -> None:
    target = Target("cpu", cores=3)
    with RPC(workload, target, tracker=tracker.address, key=KEY) as measurer:
        with pytest.raises(TargetError, match="use 1 threads, and the target has 3"):
            measured(measurer, good)


def test_no_process_of_a_server_is_left(tracker: Service, group: Callable[[int], set[int]]) -> None:
    with start_server(tracker.address, "brief", cpus=ONE_CORE.cpus) as server:
        assert len(group(server.pid)) >= 2
        folder = server._log.parent
    assert not group(server.pid) and not folder.exists()


def test_a_killed_parent_leaves_no_service(
    tmp_path: Path, environment: dict[str, str], group: Callable[[int], set[int]]
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "import time\n"
        "from schedlang.targets.rpc.servers import start_tracker\n"
        "with start_tracker() as service:\n"
        "    print(service.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        leader = int(parent.stdout.readline())
        assert group(leader)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
    assert until(lambda: not group(leader))
    assert until(lambda: list(tmp_path.iterdir()) == [script])


def test_a_killed_client_leaves_no_files(
    tmp_path: Path, environment: dict[str, str], tracker: Service, servers: list[Service]
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "import time\n"
        "from schedlang.targets.rpc.measurer import RPC\n"
        "from tests.targets import programs\n"
        f"measurer = RPC(programs.matmul(), 'cpu', tracker={tracker.address!r}, key={KEY!r})\n"
        "(measurer._executor.scratch.path / 'candidate0.so').touch()\n"
        "print(flush=True)\n"
        "time.sleep(600)\n"
    )
    client = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert client.stdout is not None and client.stdout.readline() == b"\n"
    assert len(list(tmp_path.iterdir())) == 2
    client.send_signal(signal.SIGKILL)
    client.communicate()
    assert until(lambda: list(tmp_path.iterdir()) == [script])


@pytest.mark.skipif(
    importlib.util.find_spec("cloudpickle") is None, reason="TVM's own server needs cloudpickle"
)
def test_a_server_that_was_started_with_tvm(
    workload: Workload, good: IRModule, tracker: Service, environment: dict[str, str]
) -> None:
    port = rpc_launch._free_port()
    command = [sys.executable, "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1", "--silent"]
    command += ["--port", str(port), "--port-end", str(port + 1), "--key", "plain"]
    server = subprocess.Popen(
        [*command, "--tracker", name(tracker)],
        env={**environment, "TVM_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        assert until(lambda: bool(tvm_rpc.registered(tracker.address, 5.0).get("plain")))
        with RPC(
            workload, ONE_CORE, tracker=tracker.address, key="plain", timing=QUICK
        ) as measurer:
            assert all(m.ok and m.verified for m in measured(measurer, good, good).values())
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_who_is_not_there(workload: Workload, tracker: Service, servers: list[Service]) -> None:
    with pytest.raises(TargetError, match="no server with the key 'gpu'; keys with .*'cpu'"):
        RPC(workload, tracker=tracker.address, key="gpu")
    with pytest.raises(TargetError, match="does not answer"):
        RPC(workload, tracker=("127.0.0.1", rpc_launch._free_port()), key=KEY)
    with pytest.raises(TargetError, match="is not a TVM RPC tracker|no answer|does not answer"):
        RPC(workload, tracker=servers[0].address, key=KEY)


def test_a_slow_build_is_checked_before_a_tracker_is_asked(workload: Workload) -> None:
    with pytest.raises(TargetError, match=r"slow_build=1; give more than 1, or math.inf"):
        RPC(workload, tracker=("127.0.0.1", rpc_launch._free_port()), key=KEY, slow_build=1)


@pytest.mark.parametrize("wrong", ["localhost", "localhost:", ":9190", ("a", "b"), 9190])
def test_a_tracker_is_an_address(workload: Workload, wrong: object) -> None:
    with pytest.raises(TargetError, match="give .host, port. or 'host:port'"):
        RPC(workload, tracker=wrong, key=KEY)  # type: ignore[arg-type]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm_rpc, "missing_package", lambda: "tornado")
    with pytest.raises(TargetError, match="pip install tornado"):
        with start_tracker():
            pass


def test_a_server_that_cannot_start_says_why(tracker: Service) -> None:
    with pytest.raises(TargetError, match="(?s)no service at .*cannot bind"):
        with start_server(tracker.address, KEY, port=tracker.address[1]):
            pass


def test_weights_are_packed_ahead_on_the_server(
    tracker: Service, servers: list[Service], workload: Workload
) -> None:
    weighted = from_prim_func(with_weights(workload.func, [1]), "weighted")
    sch = Schedule(weighted)
    pack_ahead(sch, sch.get_block("C"), 1, [0, 1, 2], [1, 16, 1])
    with RPC(
        weighted, ONE_CORE, tracker=tracker.address, key=KEY, verify="all", timing=QUICK
    ) as measurer:
        found = measured(measurer, sch.mod, scheduled_matmul(weighted))
    assert [found[k].status for k in (0, 1)] == [Status.OK, Status.OK], found
    assert found[0].verified
    assert [found[k].packed_ahead for k in (0, 1)] == [True, False]


class TestContract(PooledContract):
    crash = r"the connection broke while it ran, on 127\.0\.0\.1:.* and then on 127\.0\.0\.1:"
    bad_inputs = ""
    most_rounds = 1

    @pytest.fixture
    def measurer(self, strict: RPC) -> RPC:
        return strict

    def runs(self, measurer: RPC) -> int:
        return measurer.runs.total()
