"""What all orders of a call have in common: the arguments that a host needs, pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

from schedlang.database import Database
from schedlang.errors import HostError, users_code
from schedlang.measurement import Measurer
from schedlang.measurement.problem import Verify
from schedlang.printed import first_line
from schedlang.search import MakeStrategy, Strategy
from schedlang.spaces.space import Space
from schedlang.targets import Target, measurer as own_measurer
from schedlang.tuning.options import NETWORK_TRIALS, TUNE_NETWORK
from schedlang.tuning.session import Call
from schedlang.tuning.tasks import TunedTask, task_of_network
from schedlang.workloads.workload import Workload

_NEEDS_CLOUDPICKLE = (
    'functions that no module has by name need cloudpickle: pip install "schedlang[hosts]"'
)

MakeMeasurer = Callable[[Target], Measurer]
"""Makes a measurer on a host, which is bound to one program after the other."""


@dataclass(frozen=True)
class Given:
    """The arguments of a call of ``tune`` or ``tune_network`` that a host needs.

    Attributes
    ----------
    space: None for the target's own.
    compared: which of inputs, tolerance and reference are given.
    make_measurer: None for the target's own.
    The others are as in ``tune``.
    """

    target: Target
    space: Space | None
    search: str | MakeStrategy
    trials: int | None
    seconds: float | None
    seed: int
    batch: int | None
    verify: Verify
    transfer: bool
    finals: int
    compared: Mapping[str, Any] = field(default_factory=dict)
    make_measurer: MakeMeasurer | None = None

    def pack(self) -> bytes:
        """Return it pickled; HostError where a part of it cannot be."""
        pickler: Any = pickle
        with suppress(ImportError):  # it takes what the user's own file and a notebook define
            pickler = import_module("cloudpickle")
        try:
            with users_code("pickling it"):
                return bytes(pickler.dumps(self))
        except Exception as error:  # of any object of the user's
            more = "" if pickler is not pickle else f"; {_NEEDS_CLOUDPICKLE}"
            raise HostError(
                f"a part of this call cannot be sent to hosts: {first_line(str(error))}{more}"
            ) from error

    @staticmethod
    def unpack(text: bytes) -> Given:
        """Read what ``pack`` returned: **this runs code of the call**."""
        try:
            with users_code("reading it"):
                found = pickle.loads(text)
        except Exception as error:  # such as a module that is not installed here
            said = first_line(str(error))
            raise HostError(f"it cannot read the call: {type(error).__name__}: {said}") from error
        if not isinstance(found, Given):
            raise HostError(f"expected the arguments of a call, got {type(found).__name__}")
        return found

    @property
    def measures_itself(self) -> bool:
        """Whether hosts measure with the target's own measurer, and not with one of the user's."""
        made = getattr(self.make_measurer, "func", self.make_measurer)
        return made is None or made is own_measurer

    def call(self, database: Database, measurer: Measurer, used: float) -> Call:
        """Return the call of ``tune_network`` as a host makes it, ``used`` seconds later."""
        values = {
            **{option.name: option.default for option in TUNE_NETWORK},
            **self.compared,
            "target": self.target,
            "seconds": self.seconds,
            "trials": self.trials,
            "seed": self.seed,
            "batch": self.batch,
            "verify": self.verify,
            "transfer": self.transfer,
            "finals": self.finals,
            "database": database,
            "measurer": measurer,
        }
        call = Call(TUNE_NETWORK, values, NETWORK_TRIALS)
        call.budget.earlier = used
        return call

    @cached_property
    def _default_space(self) -> Space:
        return self.target.default_space()

    def task(self, workload: Workload, seed: int, *, moves_data: bool) -> TunedTask:
        """Return what a session of ``tune_network`` tunes for a program."""
        return task_of_network(
            workload,
            self.target,
            self._default_space if self.space is None else self.space,
            self.search,
            seed,
            self.compared,
            moves_data=moves_data,
            own=self.space is not None,
        )


def given_of(
    call: Call,
    *,
    space: Space | None,
    search: str | MakeStrategy | Strategy,
    measurer: Any,
) -> Given:
    """Return what hosts need of a call, which was opened.

    ValueError for a strategy that was made already, as each run makes its own; TypeError for a
    measurer that was.
    """
    if isinstance(search, Strategy):
        raise ValueError(
            f"search: this {search.name!r} was made here, and hosts make searches of their own; "
            "give its class, or a function that makes it"
        )
    made = hasattr(measurer, "measure") and not isinstance(measurer, type)
    if measurer is not None and (made or not callable(measurer)):
        raise TypeError(
            f"measurer: with hosts, give a function that makes one on each host, f(target) -> "
            f"Measurer, and no {type(measurer).__name__}"
        )
    return Given(
        target=call.target,
        space=space,
        search=search,
        trials=call.trials,
        seconds=None if not call.budget.limited else call.budget.seconds,
        seed=call.seed,
        batch=call.batch,
        verify=call.verify,
        transfer=call.transfer,
        finals=call.finals,
        compared=call.problem.given(),
        make_measurer=measurer,
    )
