"""One model at several sizes: its networks, which share their weights, and how they differ.

``NetworkSet`` has a network of static shapes for each size. Sizes are named by short texts of
what differs between them; arrays with the same bytes are kept once.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from schedlang.errors import NetworkError
from schedlang.networks.convention import TorchConvention
from schedlang.networks.network import Network, Verification, merged
from schedlang.networks.tasks import Task
from schedlang.printed import show_text
from schedlang.workloads.wrong_kind import not_a_network

# -- The set of networks --------------------------------------------------------------------------

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


# -- The extents that differ, as a short text for each size ---------------------------------------

Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input of a model."""


def differing(shapes: Sequence[Shapes]) -> list[tuple[int, ...]]:
    """Return, for each size, the extents that differ between sizes.

    Axes that always have the same extent, such as the lengths of tokens and of their mask, count
    once. All sizes have as many inputs, and these as many axes.
    """
    flat = [tuple(extent for shape in one for extent in shape) for one in shapes]
    columns = dict.fromkeys(column for column in zip(*flat, strict=True) if len(set(column)) > 1)
    return [tuple(column[place] for column in columns) for place in range(len(shapes))]


def labels(shapes: Sequence[Shapes]) -> tuple[str, ...]:
    """Return a text for each size, such as ``"16"``, or ``"4x128"`` where two extents differ."""
    if len(shapes) == 1:
        extents = [extent for shape in shapes[0] for extent in shape]
        return ("x".join(map(str, extents)) or "1",)
    return tuple("x".join(map(str, extents)) for extents in differing(shapes))


def shapes_text(names: Sequence[str], shapes: Shapes) -> str:
    """Return ``input_ids [1, 16], mask [1, 16]``."""
    return ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))


# -- Arrays with the same bytes in one memory -----------------------------------------------------


class SharedArrays:
    """Arrays that were seen, to be taken in place of others with the same bytes.

    Shapes may differ: a weight that was reshaped is in the same memory.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str, int], list[np.ndarray]] = defaultdict(list)
        self._by_address: dict[tuple[int, str, int], np.ndarray] = {}

    def shared(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the same values, each in the memory of the first array that had its bytes.

        An array that is not contiguous, or whose bytes nothing had, stays as it is.
        """
        return {name: self._shared(array) for name, array in arrays.items()}

    def _shared(self, array: np.ndarray) -> np.ndarray:
        if not array.flags.c_contiguous or not array.size:
            return array
        place = (array.ctypes.data, str(array.dtype), array.nbytes)
        known = self._by_address.get(place)
        if known is None:
            known = self._equal(array)
            # By the address of what is kept: other memory may be freed, and hold other bytes then.
            self._by_address[known.ctypes.data, str(known.dtype), known.nbytes] = known
        return known.reshape(array.shape)

    def _equal(self, array: np.ndarray) -> np.ndarray:
        """Return the first array with these bytes; this one where there was none."""
        raw = _bytes(array)
        alike = self._seen[zlib.crc32(raw.data), str(array.dtype), array.nbytes]
        for other in alike:
            if np.array_equal(_bytes(other), raw):
                return other
        alike.append(array)
        return array


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)
