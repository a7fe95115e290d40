"""Programs that harm their process: each is followed by others, which must not profit or suffer.

Each of them also leaves its output at zero, so that none is right.
"""

from __future__ import annotations

from schedlang.measurement import Status
from tests.trust.attack import OUTSIDE, Subject, body, tensors, wrong

_ZEROS = """
for i, j in T.grid(32, 32):
    y[i, j] = T.float32(0)
"""
_SUM = """
for i, j in T.grid(32, 32):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = x[vi, vj] + T.float32(1)
"""
_ANY = frozenset({Status.WRONG_RESULT, Status.CRASHED, Status.RUN_TIMEOUT, Status.RUN_ERROR})


def _call(*calls: str) -> str:
    return "\n".join(f'T.evaluate(T.call_extern("int32", {call}))' for call in calls) + _ZEROS


# What its copies answer is right, too; it must not count for the programs behind it.
_RIGHT_COPIES = (
    """
for i in range(4):
    T.evaluate(T.call_extern("int32", "fork"))
"""
    + _SUM
)
_DAEMON = (
    """
if T.call_extern("int32", "fork") == 0:
    T.evaluate(T.call_extern("int32", "setsid"))
    if T.call_extern("int32", "fork") == 0:
        T.evaluate(T.call_extern("int32", "sleep", 1000))
    T.evaluate(T.call_extern("int32", "_exit", 0))
"""
    + _ZEROS
)
_SLEEPING_COPY = (
    """
if T.call_extern("int32", "fork") == 0:
    T.evaluate(T.call_extern("int32", "usleep", 300000))
"""
    + _ZEROS
)
_CLOSE_EVERYTHING = (
    """
for descriptor in range(40):
    T.evaluate(T.call_extern("int32", "close", descriptor))
"""
    + _ZEROS
)
_NOISE = (
    """
for descriptor in range(3, 12):
    T.evaluate(T.call_extern("int32", "dprintf", descriptor, "this is no message\\n"))
"""
    + _ZEROS
)
_FLOOD = (
    """
for i in range(3000):
    T.evaluate(T.call_extern("int32", "dprintf", 1, "%0999d\\n", i))
"""
    + _ZEROS
)
_SUCCESSOR = (
    """
if T.call_extern("int32", "fork") != 0:
    T.evaluate(T.call_extern("int32", "_exit", 0))
"""
    + _ZEROS
)

PROCESSES = Subject(
    "processes",
    tensors(x=("float32", 32, 32), y=("float32", 32, 32)),
    _SUM,
    (
        wrong("16 copies of the worker", "processes", body(_call(*["'fork'"] * 4)), caught=_ANY),
        wrong(
            "16 copies of the worker with right results",
            "processes",
            body(_RIGHT_COPIES),
            caught=_ANY | {Status.OK},
        ),
        wrong("a copy that comes late", "processes", body(_SLEEPING_COPY), caught=_ANY),
        wrong("a copy takes the worker's place", "processes", body(_SUCCESSOR), caught=_ANY),
        wrong("a daemon", "processes", body(_DAEMON), caught=_ANY),
        wrong("exits 0", "processes", body(_call("'_exit', 0")), caught=_ANY),
        wrong("kills its process group", "processes", body(_call("'kill', 0, 15")), caught=_ANY),
        wrong("an alarm that goes off later", "processes", body(_call("'alarm', 1")), caught=_ANY),
        wrong("closes all files", "processes", body(_CLOSE_EVERYTHING), caught=_ANY),
        wrong("writes to all files", "processes", body(_NOISE), caught=_ANY),
        wrong("floods its output", "processes", body(_FLOOD), caught=_ANY),
        wrong(
            "rounds upwards from now on",
            "processes",
            body(_call("'fesetround', 2048")),
            caught=_ANY,
        ),
        wrong(
            "damages its heap",
            "processes",
            body("for i in range(4096):\n    x[0 - 1, i] = T.float32(1)" + _ZEROS),
            caught=OUTSIDE,
        ),
    ),
    # They might pass off what its copies answer as their own.
    followers=(wrong("zeros", "", body(_ZEROS)),) * 8,
)
