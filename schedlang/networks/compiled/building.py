"""Compile a network with chosen programs; one that cannot be compiled gives way to the next."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import UntunedWarning
from schedlang.networks.compiled.function_programs import ProgramChoice
from schedlang.targets import Target
from schedlang.targets.errors import BuildError, describe
from schedlang.tvm import errors, program
from schedlang.tvm.packing import split_packing
from schedlang.tvm.relax.calls import with_packed_weights
from schedlang.tvm.relax.executable import NetworkCode, check_compiles

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.relax.network_program import NetworkProgram


class Function:
    """A function of a network and its programs.

    Parameters
    ----------
    name: in the network's module.
    programs: to take one after the other; after the last one, the function as it is.

    Attributes
    ----------
    choice: the program to take.
    """

    def __init__(self, name: str, programs: Iterator[ProgramChoice]) -> None:
        self.name = name
        self._programs = chain(programs, [ProgramChoice("unscheduled")])
        self.choice = next(self._programs)

    def take_next(self, error: BaseException) -> None:
        """Take the next program, and warn that this one cannot be compiled."""
        record = self.choice.record
        failed = f"the {self.choice.origin} schedule" if record is None else f"record {record.id}"
        text = f"{self.name}: {failed} cannot be compiled, and the next program is taken: "
        warnings.warn(text + errors.reason_of(error), UntunedWarning, stacklevel=4)
        self.choice = next(self._programs)


@dataclass(frozen=True, eq=False)
class Built:
    """A compiled network.

    Attributes
    ----------
    code: compiled functions.
    parameters: the weights that it takes, in order; some of them packed.
    packings: number of packed weights that a call takes, by the function's name.
    parallel: whether a function has parallel loops.
    """

    code: NetworkCode
    parameters: Mapping[str, np.ndarray]
    packings: Mapping[str, int]
    parallel: bool


def build(
    mod: NetworkProgram,
    parameters: Mapping[str, np.ndarray],
    functions: Collection[Function],
    target: Target,
) -> Built:
    """Compile a network as ``prepared`` returns it, with the programs of ``functions``.

    Raises ``BuildError`` where the functions cannot be compiled as they are either.
    """
    tvm_target = target.tvm_target()
    while True:
        try:
            return _built(mod, parameters, functions, tvm_target)
        except Exception as error:  # TVM raises errors of every type
            failed = [one for one in functions if _gives_way(one, tvm_target)]
            if not failed:
                raise BuildError(describe(error)) from error


def _built(
    mod: NetworkProgram,
    parameters: Mapping[str, np.ndarray],
    functions: Collection[Function],
    target: CompilerTarget,
) -> Built:
    programs = {one.name: one.choice.func for one in functions if one.choice.func is not None}
    split: dict[str, Any] = {name: split_packing(func) for name, func in programs.items()}
    split = {name: parts for name, parts in split.items() if parts is not None}
    mod = program.replace_functions(mod, programs)
    mod, taken = with_packed_weights(mod, parameters, split)
    return Built(
        NetworkCode.compile(mod, target),
        taken,
        {name: len(parts.packings) for name, parts in split.items()},
        any(program.has_parallel_loop(one) for one in program.named_functions(mod).values()),
    )


def _gives_way(function: Function, target: CompilerTarget) -> bool:
    """Take the function's next program if this one cannot be compiled."""
    func = function.choice.func
    if func is None:
        return False
    try:
        check_compiles(func, target)
    except Exception as error:  # TVM raises errors of every type
        function.take_next(error)
        return True
    return False
