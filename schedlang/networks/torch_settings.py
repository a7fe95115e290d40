"""The options of the backend: what ``torch.compile(options=...)`` takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from schedlang.database import Database
from schedlang.errors import NetworkError
from schedlang.networks.compiled_network import CompiledNetwork
from schedlang.networks.compiling import compile_network
from schedlang.networks.network import Network
from schedlang.networks.tuning import tune_network
from schedlang.targets import Target, as_target


@dataclass(frozen=True)
class Settings:
    """How graphs are compiled.

    Attributes
    ----------
    database: a file of records, made where it is missing; None keeps none.
    trials: for each graph, when it is compiled; 0 tunes nothing.
    seconds: of tuning a graph, at most.
    seed: of the tuning.
    target: a ``Target`` or its name.
    """

    database: str | os.PathLike[str] | None = None
    trials: int = 0
    seconds: float | None = None
    seed: int = 0
    target: Target | str = "cpu"

    @classmethod
    def read(cls, options: Mapping[str, Any] | None) -> Settings:
        """Read options. Raises ``NetworkError`` for unknown ones and wrong values."""
        given = dict(options or {})
        known = [field.name for field in fields(cls)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise NetworkError(
                f"torch.compile(backend='schedlang') has no option {unknown[0]!r}; options are "
                f"{', '.join(known)}"
            )
        made = cls(**given)
        if not isinstance(made.trials, int) or isinstance(made.trials, bool) or made.trials < 0:
            raise NetworkError(f"trials={made.trials!r}; expected a number of trials from 0")
        seconds = made.seconds
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise NetworkError(f"seconds={seconds!r}; expected a time above 0")
        if made.database is not None and not isinstance(made.database, str | os.PathLike):
            raise NetworkError(f"database={made.database!r}; expected the path of a file")
        if not as_target(made.target).on_host:
            raise NetworkError(f"target={made.target!r}: networks run on CPUs")
        return made

    def compile(self, network: Network) -> CompiledNetwork:
        """Compile a network with the records of the database, after tuning where that is asked."""
        tuned = self.trials > 0 or self.seconds is not None
        if tuned:
            database = _memory() if self.database is None else self.database
            result = tune_network(
                network,
                self.target,
                trials=self.trials or None,
                seconds=self.seconds,
                database=database,
                seed=self.seed,
                progress=False,
            )
            if result.interrupted:
                raise KeyboardInterrupt
            return compile_network(network, database, self.target, progress=False)
        there = self.database is not None and os.path.exists(self.database)
        return compile_network(
            network, self.database if there else None, self.target, progress=False
        )


@cache
def _memory() -> Database:
    """Return the records of this process, where there is no file for them."""
    return Database()
