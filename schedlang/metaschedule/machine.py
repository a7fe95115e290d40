"""The machine of a record: schedlang's target from one of TVM's, or from its stored form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from schedlang.errors import TargetError, TraceFormatError
from schedlang.formats.document import short
from schedlang.targets import as_target
from schedlang.tvm.codegen import llvm_target
from schedlang.tvm.metaschedule import kind_of

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget

_MOST_CORES = 1 << 16


class Machine(Protocol):
    """The part of ``schedlang.Target`` that is used here."""

    @property
    def key(self) -> str:
        """The key; equal for machines whose records can be exchanged."""
        ...

    def tvm_target(self) -> CompilerTarget:
        """Return TVM's target for it."""
        ...


def as_machine(target: Machine | str | Any) -> Machine:
    """Return a target from a target, its name, or one of TVM's targets of kind llvm."""
    if hasattr(target, "key") and hasattr(target, "tvm_target"):
        machine: Machine = target
        return machine
    return as_target(target)


def machine_of_stored(stored: Any, given: Machine | None) -> Machine:
    """Return the machine of a record, from the target stored in it.

    ``given`` is the machine that the user names; then only its kind is compared. Raises
    ``TraceFormatError`` for what is no target, ``TargetError`` for one that is unknown or of
    another kind.
    """
    where = "target"
    if not isinstance(stored, dict) or not isinstance(stored.get("kind"), str):
        raise TraceFormatError(where, f"must be an object with a kind, not {short(repr(stored))}")
    kind = stored["kind"]
    if given is not None:
        wanted = kind_of(given.tvm_target())
        if kind != wanted:
            raise TargetError(f"it is for a target of kind {short(kind)}, not {wanted}")
        return given
    if kind != "llvm":
        raise TargetError(f"it is for a target of kind {short(kind)}; give target=... to read it")
    cores, mcpu, triple = stored.get("num-cores"), stored.get("mcpu", ""), stored.get("mtriple", "")
    features = stored.get("mattr", [])
    if type(cores) is not int or not 1 <= cores <= _MOST_CORES:
        raise TargetError("its target says no number of cores; give target=... to read it")
    if not (isinstance(mcpu, str) and mcpu):
        raise TargetError("its target says no CPU (mcpu); give target=... to read it")
    if not isinstance(triple, str) or not isinstance(features, list):
        raise TraceFormatError(where, "mtriple must be a text and mattr a list")
    if not all(isinstance(feature, str) for feature in features):
        raise TraceFormatError(where, "mattr must be a list of texts")
    return as_target(llvm_target(mcpu, cores, triple, tuple(features)))
