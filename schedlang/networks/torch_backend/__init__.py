"""``torch.compile(model, backend="schedlang")``: graphs of torch as compiled networks."""

from schedlang.networks.torch_backend.backend import backend, torch_graphs
from schedlang.networks.torch_backend.graph import EagerGraphWarning, Graph

__all__ = ["EagerGraphWarning", "Graph", "backend", "torch_graphs"]
