"""What measuring needs to know of the tensors of a call."""

from __future__ import annotations

from typing import Protocol


class TensorSpec(Protocol):
    """The part of ``schedlang.workloads.workload.Argument`` that measuring needs."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    @property
    def role(self) -> str: ...
