"""The kernels of a suite without measuring them: are their programs and those of torch there?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedlang.cli.bench.operator import NoPeer
from schedlang.cli.bench.torch_operators import TorchOperator
from schedlang.cli.suite.kernel import Kernel
from schedlang.errors import SchedlangError
from schedlang.printed import first_line
from schedlang.targets.roofline import bytes_of


@dataclass(frozen=True)
class Listed:
    """A kernel whose program was made. Its fields are those of ``--json``.

    Attributes
    ----------
    kernel: its name.
    workload_key: of its program; empty where that could not be made.
    flops: operations of a call. bytes: of the arguments, each counted once.
    missing: why torch has no equivalent; empty where it has one.
    error: why its program could not be made; empty where it was.
    """

    kernel: str
    workload_key: str = ""
    flops: float = 0.0
    bytes: int = 0
    missing: str = ""
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"failed: {self.error}"
        size = f"{self.flops / 1e6:8.1f} MFLOP {self.bytes / 2**20:8.2f} MiB"
        return f"{size}  {self.missing or 'torch has it'}"


def list_kernels(kernels: Sequence[Kernel]) -> Iterator[Listed]:
    """Make the program of each kernel, and its equivalent in torch; nothing of them is run."""
    for kernel in kernels:
        try:
            workload = kernel.workload()
            define = kernel.in_torch(workload)
        except (Exception, SystemExit) as error:  # code of the user's raises errors of every type
            kind = "" if isinstance(error, SchedlangError) else f"{type(error).__name__}: "
            yield Listed(kernel.name, error=f"{kind}{first_line(error)}")
            continue
        try:
            TorchOperator(workload, 1, define)
            missing = ""
        except NoPeer as error:
            missing = str(error)
        yield Listed(kernel.name, workload.key, workload.flops, bytes_of(workload), missing)
