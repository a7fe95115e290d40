"""One model at several sizes: its networks, which share their weights, and how they differ."""

from schedlang.networks.sizes.network_set import NetworkSet
from schedlang.networks.sizes.shared_arrays import SharedArrays

__all__ = ["NetworkSet", "SharedArrays"]
