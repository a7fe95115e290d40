"""Whole networks: from PyTorch, ONNX or Relax to tensor functions, and back to one executable."""

from schedlang.networks.compiled_network import CompiledNetwork, Summary, TaskSummary
from schedlang.networks.compiling import CompiledNetworkSet, compile_network
from schedlang.networks.convention import Tensor
from schedlang.networks.importing import import_network
from schedlang.networks.network import Network, OutputError, Verification
from schedlang.networks.network_result import NetworkResult, TaskResult
from schedlang.networks.sizes import NetworkSet
from schedlang.networks.tasks import Task
from schedlang.networks.torch_backend import EagerGraphWarning, torch_graphs
from schedlang.networks.tuning import tune_network

__all__ = [
    "CompiledNetwork",
    "CompiledNetworkSet",
    "EagerGraphWarning",
    "Network",
    "NetworkResult",
    "NetworkSet",
    "OutputError",
    "Summary",
    "Task",
    "TaskResult",
    "TaskSummary",
    "Tensor",
    "Verification",
    "compile_network",
    "import_network",
    "torch_graphs",
    "tune_network",
]
