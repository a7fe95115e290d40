"""Changes of a process and its threads: ``python -m`` makes each, and prints what was noticed.

Most cannot be taken back, so that they are made in a process of their own.
"""

from __future__ import annotations

import ctypes
import locale
import mmap
import os
import platform
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from schedlang.targets.worker.process_state import ProcessState
from schedlang.tvm.codegen import runtime
from schedlang.tvm.codegen.runtime import in_each_thread

ON_ARM = platform.machine() == "aarch64"
UPWARDS = 0x400000 if ON_ARM else 0x800  # FE_UPWARD
_IOPRIO_SET = 30 if ON_ARM else 251  # number of the system call
_MXCSR = 28  # place in x86-64's fenv_t


def library() -> Any:
    """Return the C library."""
    return ctypes.CDLL(None)


def _set_bits(place: int, bits: int) -> None:
    """Flip bits of this thread's floating-point environment."""
    memory = (ctypes.c_uint32 * 128)()
    library().fegetenv(memory)
    memory[place // 4] ^= bits
    library().fesetenv(memory)


def _in_thread(change: Callable[[], Any]) -> None:
    """Change the last thread of parallel loops only."""
    last = runtime.thread_count() - 1
    in_each_thread(lambda number: change() if number == last else None)


def _open_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))


def _start_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def _block_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


def _make_timer() -> None:
    library().timer_create(1, None, ctypes.byref(ctypes.c_void_p()))


def _use_x87_register() -> None:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xd9\xe8\xc3")  # fld1; ret
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def _use_other_locale() -> None:
    known = library()
    known.newlocale.restype = ctypes.c_void_p
    known.uselocale(ctypes.c_void_p(known.newlocale(1 << 6, b"C", None)))


_round_upwards = partial(library().fesetround, UPWARDS)
flush = partial(_set_bits, 0, 1 << 24) if ON_ARM else partial(_set_bits, _MXCSR, 0x8000)

CHANGES: dict[str, Callable[[], Any]] = {
    "the rounding mode": _round_upwards,
    "the rounding mode: in a thread of parallel loops": lambda: _in_thread(_round_upwards),
    "how denormal numbers are computed with": flush,
    "how denormal numbers are computed with: in a thread": lambda: _in_thread(flush),
    "its file mode mask": lambda: os.umask(0o77),
    "its environment": lambda: library().setenv(b"SCHEDLANG_LEFT", b"1", 1),
    "its environment: less": lambda: library().unsetenv(b"SCHEDLANG_LEFT"),
    "its working directory": lambda: os.chdir("/"),
    "what signals do": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "what signals do: another handler": lambda: library().signal(
        signal.SIGINT, ctypes.cast(library().abs, ctypes.c_void_p)
    ),
    "the signals that it blocks": _block_signal,
    "the signals that it blocks: in a thread": lambda: _in_thread(_block_signal),
    "its timers": lambda: signal.alarm(1000),
    "its timers: made": _make_timer,
    "its resource limits": _open_files,
    "its open files": lambda: os.dup(0),
    "its open files: redirected": lambda: os.dup2(os.open(os.devnull, os.O_RDWR), 2),
    "its open files: do not block": lambda: os.set_blocking(0, False),
    "its death signal": lambda: library().prctl(1, signal.SIGUSR1, 0, 0, 0),
    "whether it can be dumped": lambda: library().prctl(4, 0, 0, 0, 0),
    "its name": lambda: library().prctl(15, b"other", 0, 0, 0),
    "the slack of its timers": lambda: library().prctl(29, 1000, 0, 0, 0),
    "whose orphans it adopts": lambda: library().prctl(36, 1, 0, 0, 0),
    "whether it may gain rights": lambda: library().prctl(38, 1, 0, 0, 0),
    "whether it has huge pages": lambda: library().prctl(41, 1, 0, 0, 0),
    "its priority": lambda: os.nice(1),
    "its priority: in a thread": lambda: _in_thread(lambda: os.nice(1)),
    "how it is scheduled": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
    "its priority of input and output": lambda: library().syscall(_IOPRIO_SET, 1, 0, 2 << 13 | 6),
    "its locale": _use_other_locale,
    "the language of its messages": lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"),
    "how soon it is killed for memory": lambda: _write("/proc/self/oom_score_adj", "900"),
    "its locked memory": lambda: library().mlock(ctypes.create_string_buffer(1), 1),
    "its personality": lambda: library().personality(0x0040000),  # ADDR_NO_RANDOMIZE
    "its process group": os.setsid,
    "its threads": _start_thread,
    "the number of threads of parallel loops": lambda: runtime.configure_threads([0]),
}
if not ON_ARM:
    CHANGES |= {
        "which floating-point exceptions trap": partial(_set_bits, _MXCSR, 1 << 11),
        "the precision of the x87 registers": partial(_set_bits, 0, 0x300),
        "which x87 registers are in use": _use_x87_register,
    }


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _report(name: str, change: Callable[[], Any]) -> None:
    state = ProcessState()
    change()
    print(name, ", ".join(state.changes()) or "nothing", sep="\t", flush=True)


def main() -> None:
    """Make all changes, one after the other, each behind a note of the state before."""
    cpus = sorted(os.sched_getaffinity(0))
    runtime.configure_threads([cpus[0], cpus[-1]])
    _report("no change", lambda: None)
    _report("threads of parallel loops that run", lambda: in_each_thread(lambda number: None))
    for name, change in CHANGES.items():
        _report(name, change)


if __name__ == "__main__":
    sys.exit(main())
