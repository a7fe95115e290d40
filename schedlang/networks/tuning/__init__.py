"""``tune_network``: tune the tasks of networks together."""

from schedlang.networks.tuning.network_result import NetworkResult, TaskResult
from schedlang.networks.tuning.tune_network import tune_network

__all__ = ["NetworkResult", "TaskResult", "tune_network"]
