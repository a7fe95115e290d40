"""Finding the workloads of a database that are a given function of a model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from schedlang.database import Database
from schedlang.database.programs import Unreadable
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.tvm import program

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction, TensorProgram


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A stored program and its structural key; ``problem`` says why it cannot be read."""

    origin_free: TensorProgram | None
    key: str
    problem: str = ""


def origin_free(func: TensorFunction) -> TensorProgram:
    """Return the function as it is compared: without a name and without attributes of origin."""
    return program.as_main(tvm_metaschedule.without_origin(func))


@lru_cache(maxsize=4096)
def _known(key: str, text: str) -> _Known:
    try:
        mod = origin_free(tvm_metaschedule.read_function(text))
    except ValueError as error:
        return _Known(None, "", str(error))
    return _Known(mod, program.structural_key(mod))


class Lookup:
    """Finds the workloads equal to a function, attributes aside; reads each workload once.

    Attributes
    ----------
    unreadable: the programs that could not be read.
    """

    def __init__(self, database: Database) -> None:
        self.unreadable = Unreadable()
        self._database = database
        self._read: set[str] = set()
        self._keys: dict[str, list[tuple[str, TensorProgram]]] = {}

    def workload_keys(self, func: TensorFunction) -> list[str]:
        """Return the keys of the workloads that are this function, oldest first."""
        self._refresh()
        mod = origin_free(func)
        candidates = self._keys.get(program.structural_key(mod), [])
        return [key for key, known in candidates if program.structurally_equal(known, mod)]

    def _refresh(self) -> None:
        for key, _ in self._database.workloads():
            if key not in self._read:
                self._read.add(key)
                known = _known(key, self._database.get_workload(key) or "")
                if known.origin_free is None:
                    self.unreadable.note_program(self._database, key, known.problem)
                else:
                    self._keys.setdefault(known.key, []).append((key, known.origin_free))
