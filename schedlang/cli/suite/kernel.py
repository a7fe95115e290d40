"""One kernel of a suite: its program, and how torch computes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from schedlang.cli.bench.torch_expression import Expression
from schedlang.cli.naming.programs import check_program, workload_of
from schedlang.cli.verb import UsageError
from schedlang.cli.words import TORCH_DTYPES
from schedlang.printed import nearest

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload


@contextmanager
def within(place: str) -> Iterator[None]:
    """Begin the message of a UsageError with its place."""
    try:
        yield
    except UsageError as error:
        raise type(error)(f"{place}: {error}") from error.__cause__


@dataclass(frozen=True)
class Kernel:
    """A kernel, as a suite gives it.

    Attributes
    ----------
    name: its own in the suite.
    program: what ``schedlang tune`` takes; empty where the expression of torch is the program.
    sizes: of the program, or numbers of the expression, by name.
    torch: an expression of torch; empty for an operator of ``schedlang.workloads``, whose
        counterpart in torch is known.
    inputs: shapes of the tensors of the expression, by name, in which texts are names of sizes;
        empty where there is a program, whose arguments they are.
    dtype: element type of these tensors.
    trials: maximum number of candidates to measure; None where the suite does not say.
    """

    name: str
    program: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    torch: str = ""
    inputs: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    dtype: str = TORCH_DTYPES[0]
    trials: int | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors of the expression, in elements. UsageError for a wrong one."""
        return {
            tensor: tuple(self._extent(tensor, one) for one in shape)
            for tensor, shape in self.inputs.items()
        }

    def _extent(self, tensor: str, given: int | str) -> int:
        if isinstance(given, str) and given not in self.sizes:
            hint = nearest(given, self.sizes)
            raise UsageError(f"{tensor} has the extent {given!r}, which is no size{hint}")
        value = self.sizes[given] if isinstance(given, str) else given
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{tensor} has the extent {value!r}; give a whole number, 1 or more")
        return value

    @property
    def words(self) -> list[str]:
        """The sizes as ``schedlang tune`` takes them."""
        return [f"--{name.replace('_', '-')}={_word(one)}" for name, one in self.sizes.items()]

    def check(self) -> None:
        """UsageError that names the wrong field, as far as that is known without TVM."""
        if self.program:
            with within("workload"):
                check_program(self.program, [])
            with within("sizes"):
                check_program(self.program, self.words)
            return
        with within("inputs"):
            shapes = self.shapes
            named = {one for shape in self.inputs.values() for one in shape}
        with within("torch"):
            expression = self._expression(list(shapes))
        with within("sizes"):
            for name, value in self.sizes.items():
                if isinstance(value, str):
                    raise UsageError(f"{name} = {value!r}; give a number")
                if name not in named and not expression.reads(name):
                    raise UsageError(f"neither inputs nor torch read {name!r}: leave it out")

    def workload(self) -> Workload:
        """Return its program, under the name of the kernel. A file of the user's is run."""
        if not self.program:
            shapes = self.shapes
            return self._expression(list(shapes)).workload(self.name, shapes, self.dtype)
        return replace(workload_of(self.program, self.words), name=self.name)

    def in_torch(self, workload: Workload) -> Expression | None:
        """Return how torch computes its workload; None where it is an operator that is known."""
        if not self.torch:
            return None
        read = [one.name for one in workload.args if one.role == "input"]
        with within("torch"):
            return self._expression(read if self.program else list(self.inputs))

    def _expression(self, tensors: Sequence[str]) -> Expression:
        return Expression(self.torch, tensors, self.sizes)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
