"""A tracker or server of TVM's as its own program, started again whenever it fails.

``python -m schedlang.targets.rpc.service server --tracker HOST:PORT --key KEY`` on a device. TVM's
own ``tvm.exec.rpc_server`` stops listening after the first candidate that crashes, and its process
stays; this one forks a new server, which takes no time. It binds to 127.0.0.1 unless told
otherwise: TVM's RPC has no authentication.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time
from collections.abc import Callable

from schedlang import host
from schedlang.targets.worker.fork_server import end_with
from schedlang.tvm.codegen import runtime as rpc

_POLL_SECONDS = 0.1
_FAILURES = 5
_CANNOT_START = 3


def parse_address(text: str) -> tuple[str, int]:
    """``"host:port"``; ValueError if it is something else."""
    name, colon, port = text.rpartition(":")
    if not (colon and name and port.isdigit()):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return name, int(port)


def supervise(run: Callable[[], None], *, watch_input: bool) -> int:
    """Run it in a child process, again and again; returns an exit status when that is hopeless.

    With ``watch_input`` this process and its group end when standard input does: when whoever holds
    the other end of the pipe is gone.
    """
    failures = 0
    while failures < _FAILURES:
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _serve(run, parent)
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if not watch_input:
                time.sleep(_POLL_SECONDS)
            elif select.select([0], [], [], _POLL_SECONDS)[0] and not os.read(0, 1):
                os.killpg(0, signal.SIGKILL)
        # A crash while it served, however early, is a candidate's fault.
        started = os.waitstatus_to_exitcode(ended[1]) != _CANNOT_START
        failures = 0 if started else failures + 1
        time.sleep(0 if started else _POLL_SECONDS)
    print(f"cannot start after {failures} attempts", file=sys.stderr)
    return 1


def _serve(run: Callable[[], None], parent: int) -> None:
    end_with(parent, signal.SIGKILL)
    # A session of this server must not outlive it, nor hold its port.
    os.register_at_fork(after_in_child=lambda: end_with(os.getppid(), signal.SIGKILL))
    try:
        run()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(_CANNOT_START)
    finally:
        os._exit(1)


def _use_cpus(cpus: tuple[int, ...]) -> None:
    """Have sessions run one thread on each of ``cpus``."""
    os.environ["TVM_NUM_THREADS"] = str(len(cpus))
    # TVM would bind its threads to CPU 0, 1, ... whatever this process may use.
    os.environ["TVM_BIND_THREADS"] = "0"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


def main() -> int:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m schedlang.targets.rpc.service")
    parser.add_argument("service", choices=("tracker", "server"))
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to")
    parser.add_argument("--port", type=int, default=0, help="9190 for a tracker, 9090 for a server")
    parser.add_argument("--tracker", type=parse_address, help="HOST:PORT of the server's tracker")
    parser.add_argument("--key", help="what the tracker calls this sort of device")
    parser.add_argument("--cpus", help="logical CPUs, one a thread: 0,1,2; by default one a core")
    parser.add_argument("--watch-input", action="store_true", help="end with standard input")
    options = parser.parse_args()
    address: str = options.host
    if options.service == "tracker":
        port = options.port or 9190
        return supervise(lambda: rpc.run_tracker(address, port), watch_input=options.watch_input)
    if options.tracker is None or not options.key:
        parser.error("a server needs --tracker and --key")
    chosen = options.cpus.split(",") if options.cpus else host.one_cpu_per_core(host.usable_cpus())
    _use_cpus(tuple(map(int, chosen)))
    port = options.port or 9090
    return supervise(
        lambda: rpc.run_server(address, port, options.tracker, options.key),
        watch_input=options.watch_input,
    )


if __name__ == "__main__":
    sys.exit(main())
