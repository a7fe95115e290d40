"""Right programs that leave their process changed, for what runs behind them.

Behind each of them its worker goes over to another workload, and finds the right results of that.
Then come wrong programs that are right in the state that was left, and right ones.
"""

from __future__ import annotations

import platform

from schedlang.measurement import Status
from tests.trust.attack import Attack, Subject, append, edit, prepend, tensors, wrong

_KIND = "state left behind"
_REFUSED = frozenset({Status.RUN_ERROR})
_ON_ARM = platform.machine() == "aarch64"
_UPWARDS = 0x400000 if _ON_ARM else 0x800  # FE_UPWARD
_FLUSH = (
    'T.evaluate(T.call_llvm_intrin("void", "llvm.aarch64.set.fpcr", T.int64(0x1000000)))'
    if _ON_ARM
    else """
control = T.sblock_alloc_buffer((1,), "uint32")
control[0] = T.uint32(0x9FC0)
T.evaluate(T.call_llvm_intrin("void", "llvm.x86.sse.ldmxcsr", T.address_of(control[0])))
"""
)
_FEW_FILES = """
limits = T.sblock_alloc_buffer((2,), "uint64")
for i in range(2):
    limits[i] = T.uint64(64)
T.evaluate(T.call_extern("int32", "setrlimit", 7, T.address_of(limits[0])))
"""
_ANOTHER_THREAD = """
for i in T.parallel(2):
    if i == 1:
        T.evaluate(T.call_extern("int32", {}))
"""


def _leaves(name: str, text: str, threads: int = 1) -> Attack:
    """A program that is right, and changes its process."""
    return wrong(name, _KIND, prepend(text), caught=_REFUSED, threads=threads)


def _calls(name: str, call: str) -> Attack:
    return _leaves(name, f'T.evaluate(T.call_extern("int32", {call}))')


_PLAIN = """
for i in T.serial(256):
    with T.sblock("y"):
        vi = T.axis.spatial(256, i)
        y[vi] = x[vi] + T.float32(1)
"""
_SIGNATURE = tensors(x=("float32", 256), y=("float32", 256))
_ROUNDING = Subject(
    "rounding to integers",
    _SIGNATURE,
    _PLAIN.replace("x[vi] + T.float32(1)", "T.nearbyint(x[vi] * T.float32(8))"),
    (),
)
_TINY = Subject(
    "denormal products",
    _SIGNATURE,
    _PLAIN.replace("x[vi] + T.float32(1)", "x[vi] * T.float32(1e-20) * T.float32(1e-20)"),
    (),
)

STATE = Subject(
    "state left behind",
    _SIGNATURE,
    _PLAIN,
    (
        _calls("rounds upwards behind itself", f'"fesetround", {_UPWARDS}'),
        _leaves(
            "rounds upwards in a thread of parallel loops",
            _ANOTHER_THREAD.format(f'"fesetround", {_UPWARDS}'),
            threads=2,
        ),
        wrong(
            "rounds upwards by a function that it calls pure",
            _KIND,
            append(
                'y[0] = y[0] + T.Cast("float32", '
                f'T.call_pure_extern("int32", "fesetround", {_UPWARDS}))'
            ),
            caught=_REFUSED,
        ),
        _calls("runs less urgently from now on", '"nice", 1'),
        _leaves(
            "a thread of parallel loops runs less urgently",
            _ANOTHER_THREAD.format('"nice", 1'),
            threads=2,
        ),
        _calls("other rights of new files", '"umask", 511'),
        _calls("another variable in the environment", '"setenv", "SCHEDLANG_LEFT", "1", 1'),
        _calls("another working directory", '"chdir", "/"'),
        _calls("a signal that is ignored", '"signal", 15, T.int64(1)'),
        _calls("ends with its parent by another signal", '"prctl", 1, 10, 0, 0, 0'),
        _calls("may not gain rights", '"prctl", 38, 1, 0, 0, 0'),
        _leaves("few open files allowed", _FEW_FILES),
        _calls("a file left open", '"dup", 2'),
        _calls("standard error goes nowhere", '"dup2", 0, 2'),
    ),
    followers=(
        wrong("up in place of the nearest", "", edit("T.nearbyint", "T.ceil")),
        wrong("down in place of the nearest", "", edit("T.nearbyint", "T.floor")),
    ),
    behind=_ROUNDING,
)

FLUSHING = Subject(
    "flushing left behind",
    _SIGNATURE,
    _PLAIN,
    (_leaves("denormal numbers are zero from now on", _FLUSH),),
    followers=(wrong("zeros in place of denormal numbers", "", edit("x[vi]", "T.float32(0)")),),
    behind=_TINY,
)
