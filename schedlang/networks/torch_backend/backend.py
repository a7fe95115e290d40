"""The backend of ``torch.compile``, which torch finds by its name."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.errors import NetworkError
from schedlang.networks.torch_backend.graph import Graph
from schedlang.networks.torch_backend.settings import Settings

_graphs: list[weakref.ref[Graph]] = []


def backend(
    module: Any, _: Sequence[Any], *, options: Mapping[str, Any] | None = None, **others: Any
) -> Graph:
    """Compile a graph of torch: ``torch.compile(model, backend="schedlang", options=...)``.

    ``docs/torch_compile.md`` has the options: database, trials, seconds, seed, target. Raises
    ``NetworkError`` for others.
    """
    for name, value in others.items():
        if value is not None:
            raise NetworkError(f"torch.compile(backend='schedlang') has no {name}; it has options=")
    graph = Graph(module, Settings.read(options))
    _graphs[:] = [*(one for one in _graphs if one() is not None), weakref.ref(graph)]
    return graph


# Torch names a backend by this in its messages.
backend.__name__ = "schedlang"


def torch_graphs() -> list[Graph]:
    """Return the graphs that ``torch.compile`` has given to the backend and still has, in order."""
    return [graph for one in _graphs if (graph := one()) is not None]
