"""A model at several sizes: one network for each, with the weights in common."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

from schedlang.errors import NetworkError
from schedlang.networks.convention import TorchConvention
from schedlang.networks.network import Network
from schedlang.networks.sizes.labels import Shapes, labels, shapes_text
from schedlang.networks.sizes.shared_arrays import SharedArrays
from schedlang.networks.tasks import Task
from schedlang.networks.verification import Verification, merged
from schedlang.printed import show_text
from schedlang.workloads.wrong_kind import not_a_network

_MIB = 2**20


class NetworkSet(Sequence[Network]):
    """One model at several batch sizes or lengths: a network of static shapes for each.

    ``import_network(model, [(example,), (other,)])`` makes one. ``NetworkSet([network, other])``
    makes one of networks of one model that were imported one by one.

    It is a sequence of networks. They share their weights: what has the same bytes is in the same
    memory. ``tune_network`` tunes it as a whole, and ``compile_network`` makes one executable of
    it, which looks at the shapes of its inputs.

    Parameters
    ----------
    networks: with the same inputs, but for their shapes, and called in the same way.
    name: to display; by default that of the first network.
    weights: how often each size is called, in relation to the others; tuning minimizes the sum of
        the latencies times these. By default all are equal.

    Attributes
    ----------
    name, weights: as given.
    networks: in the order given, each named by its size too.
    sizes: a text for each network, made of the extents that differ: ``"16"``, or ``"4x128"``.

    Raises ``NetworkError`` that names the network for inputs or outputs that differ in number,
    name, axes or element type, for two with the same shapes, and for weights that are no
    frequencies.
    """

    def __init__(
        self,
        networks: Sequence[Network],
        *,
        name: str | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        given = _checked(networks)
        self.name = name or given[0].name
        self.weights = _weights(weights, len(given))
        self.sizes = labels([shapes_of(one) for one in given])
        arrays = SharedArrays()
        self.networks = tuple(
            replace(one, name=f"{self.name} {size}", parameters=arrays.shared(one.parameters))
            for one, size in zip(given, self.sizes, strict=True)
        )

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The distinct tasks of all networks; each as the first network has it that calls it."""
        found: dict[str, Task] = {}
        for network in self.networks:
            for task in network.tasks:
                found.setdefault(task.workload.exact_key, task)
        return tuple(found.values())

    @cached_property
    def shapes(self) -> tuple[Shapes, ...]:
        """For each network the shapes of its inputs."""
        return tuple(map(shapes_of, self.networks))

    @property
    def nbytes(self) -> int:
        """Bytes of the weights of all networks; what they share counts once."""
        arrays = (value for one in self.networks for value in one.parameters.values())
        return sum({(one.ctypes.data, one.nbytes): one.nbytes for one in arrays}.values())

    @property
    def verifiable(self) -> bool:
        """Whether there is an original model to compare with."""
        return all(one.verifiable for one in self.networks)

    def verify(self, *, seed: int = 0, tolerance: float | None = None) -> Verification:
        """Compare the outputs of each unscheduled network with those of the original model.

        Random inputs are drawn for each size; see ``Network.verify``. The result has the outputs
        of all sizes, whose names begin with the size.
        """
        found = (one.verify(seed=seed, tolerance=tolerance) for one in self.networks)
        return merged(dict(zip(self.sizes, found, strict=True)))

    @overload
    def __getitem__(self, place: int) -> Network: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Network]: ...
    def __getitem__(self, place: int | slice) -> Network | Sequence[Network]:
        """Return the network at a place, in the order given."""
        return self.networks[place]

    def __len__(self) -> int:
        """Return the number of sizes."""
        return len(self.networks)

    def __iter__(self) -> Iterator[Network]:
        """Return the networks in the order given."""
        return iter(self.networks)

    def __repr__(self) -> str:
        """Write the name and the sizes."""
        return f"<NetworkSet {self.name} at {', '.join(self.sizes)}>"

    _repr_pretty_ = show_text

    def __str__(self) -> str:
        """Write a line for each size."""
        lines = [
            f"network {self.name} at {len(self)} sizes: {self.nbytes / _MIB:.1f} MiB of weights, "
            f"{len(self.tasks)} tasks",
        ]
        width = max(map(len, self.sizes))
        for network, size in zip(self.networks, self.sizes, strict=True):
            names = [tensor.name for tensor in network.inputs]
            lines.append(
                f"  {size:>{width}}  {len(network.tasks)} tasks, {network.flops:.3g} operations; "
                f"{shapes_text(names, shapes_of(network))}"
            )
        return "\n".join(lines)


def shapes_of(network: Network) -> Shapes:
    """Return the shapes of a network's inputs."""
    return tuple(tensor.shape for tensor in network.inputs)


def _checked(networks: Any) -> tuple[Network, ...]:
    if isinstance(networks, Network) or not isinstance(networks, Sequence):
        raise not_a_network("NetworkSet takes a list of networks", networks)
    if not networks:
        raise NetworkError("the list of networks is empty: give one for each size")
    for place, one in enumerate(networks):
        if not isinstance(one, Network):
            raise not_a_network(f"item {place} of the networks must be a network", one)
    first = networks[0]
    seen: dict[Shapes, int] = {}
    for place, one in enumerate(networks):
        difference = _difference(first, one)
        if difference:
            raise NetworkError(f"network {place} is not network 0 at another size: {difference}")
        shapes = shapes_of(one)
        if shapes in seen:
            text = shapes_text([tensor.name for tensor in one.inputs], shapes)
            raise NetworkError(
                f"networks {seen[shapes]} and {place} take the same shapes ({text}): leave one out"
            )
        seen[shapes] = place
    return tuple(networks)


def _difference(first: Network, other: Network) -> str:
    """Return what of two networks differs besides the sizes; empty where nothing does."""
    for kind, ours, theirs in (
        ("inputs", first.inputs, other.inputs),
        ("outputs", first.outputs, other.outputs),
    ):
        if len(ours) != len(theirs):
            return f"it has {len(theirs)} {kind}, not {len(ours)}"
        for one, two in zip(ours, theirs, strict=True):
            if one.name != two.name:
                return f"of the {kind}, {two.name!r} stands where {one.name!r} does"
            if one.dtype != two.dtype:
                return f"{one.name!r} has elements of {two.dtype}, not {one.dtype}"
            if len(one.shape) != len(two.shape):
                return f"{one.name!r} has {len(two.shape)} axes, not {len(one.shape)}"
    return _convention_difference(first, other)


def _convention_difference(first: Network, other: Network) -> str:
    ours, theirs = first.convention, other.convention
    if isinstance(ours, TorchConvention) and isinstance(theirs, TorchConvention):
        if ours.takes != theirs.takes or ours.returns != theirs.returns:
            return "its arguments or its result have another structure"
        for kind, some, others in (
            ("argument", ours.fixed_inputs, theirs.fixed_inputs),
            ("result", ours.fixed_outputs, theirs.fixed_outputs),
        ):
            for place, (one, two) in enumerate(zip(some, others, strict=True)):
                if one != two:
                    return f"{kind} {place} is {_shown(two)} there and {_shown(one)} here"
    elif type(ours) is not type(theirs):
        return "it is called in another way"
    return ""


def _shown(fixed: Any) -> str:
    return "a tensor" if fixed is None else repr(fixed.value)


def _weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    given = tuple(float(one) for one in weights)
    if len(given) != count:
        raise NetworkError(f"weights={list(given)}: {len(given)} for {count} sizes")
    for one in given:
        if not 0.0 <= one < math.inf:
            raise NetworkError(f"weights={list(given)}: {one} is not how often a size is called")
    if not any(given):
        raise NetworkError(f"weights={list(given)}: no size is ever called")
    return given
