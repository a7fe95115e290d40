"""Workloads from what users have: tensor expressions, PrimFuncs, modules and TVMScript.

A ``Template`` is a user's function of extents that returns one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlang.errors import TemplateError, WorkloadError, users_code
from schedlang.once import OncePerKey
from schedlang.printed import first_line
from schedlang.tvm import program, tensor_expressions
from schedlang.workloads.workload import Workload
from schedlang.workloads.wrong_kind import not_a_program

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction, TensorProgram
    from schedlang.tvm.tensor_expressions import TensorExpression


def from_te(
    tensors: Sequence[TensorExpression],
    name: str | None = None,
    source: str = "",
    *,
    outputs: Sequence[str] = (),
) -> Workload:
    """A workload from tensor expressions, its arguments in the order of ``tensors``.

    Parameters
    ----------
    tensors: every placeholder and every result, as ``te.create_prim_func`` takes them.
    name: a name to display; by default the last tensor's name.
    source: a Python expression that makes the workload again, if there is one.
    outputs: names of arguments that are outputs: see ``Workload.with_outputs``.

    Raises ``WorkloadError`` when something else is listed, or a placeholder is missing.
    """
    tensors = list(tensors)
    if not tensors:
        raise WorkloadError("from_te: the list is empty; list the placeholders and the results")
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, tensor_expressions.TensorExpression):
            raise WorkloadError(
                f"from_te: item {position} is a {type(tensor).__name__}, not a te.Tensor; "
                "list what te.placeholder and te.compute returned"
            )
    if found := tensor_expressions.scans(tensors):
        raise WorkloadError(
            f"from_te: {found[0]} is a te.scan, which TVM cannot schedule",
            "write it as TVMScript for from_prim_func: a function with @T.prim_func(s_tir=True) in "
            "which loops over the other axes surround a `with T.sblock(...)` and the loop over the "
            "steps is inside it",
        )
    missing = tensor_expressions.missing_placeholders(tensors)
    if missing:
        raise WorkloadError(
            f"from_te: the results read {', '.join(missing)}, which the list lacks; "
            "list every placeholder"
        )
    for tensor, axis, extent, given in tensor_expressions.symbolic_extents(tensors):
        how = "give te.placeholder" if given else "give te.compute"
        raise WorkloadError(
            f"from_te: {tensor!r} has the symbolic extent {extent} in dimension {axis}, and a "
            "workload is static",
            f"{how} a number in its place, as in a function of {extent} that returns the tensors, "
            "and make one workload for each size",
        )
    mod = program.as_main(program.create_prim_func(tensors))
    found = tensor_expressions.externs(tensors)
    if found and not any(map(program.block_realizes, program.named_functions(mod).values())):
        raise WorkloadError(
            f"from_te: {found[0]} is a te.extern, as what topi's sorts and searches return: code "
            "that TVM takes as it is, so there is nothing to schedule",
            "build it with TVM, and make workloads of the te.compute before and after it",
        )
    return Workload(mod, name or str(tensors[-1].op.name), source).with_outputs(outputs)


def from_prim_func(
    func: TensorFunction, name: str | None = None, *, outputs: Sequence[str] = ()
) -> Workload:
    """A workload from one PrimFunc; its own name serves when ``name`` is not given.

    ``outputs`` names arguments that are outputs: see ``Workload.with_outputs``.
    """
    if not isinstance(func, program.TensorFunction):
        raise WorkloadError(f"from_prim_func takes a PrimFunc, not a {type(func).__name__}")
    made = Workload(program.as_main(func), name or program.symbol(func) or program.MAIN)
    return made.with_outputs(outputs)


def from_module(
    mod: TensorProgram,
    name: str | None = None,
    function: str | None = None,
    *,
    outputs: Sequence[str] = (),
) -> Workload:
    """A workload from one PrimFunc of a module.

    Parameters
    ----------
    mod: a module; its other functions, Relax functions too, are ignored.
    name: a name to display; by default the function's name.
    function: the name of the PrimFunc; may be None if there is only one.
    outputs: names of arguments that are outputs: see ``Workload.with_outputs``.
    """
    if not isinstance(mod, program.TensorProgram):
        raise WorkloadError(f"from_module takes an IRModule, not a {type(mod).__name__}")
    functions = program.named_functions(mod)
    listed = ", ".join(functions)
    if not functions:
        raise WorkloadError(
            "from_module: the module has no PrimFunc",
            "for a Relax model net = sl.import_network(mod), then sl.tune_network(net)",
        )
    if function is None:
        if len(functions) > 1:
            raise WorkloadError(
                f"from_module: the module has {len(functions)} PrimFuncs ({listed})",
                f"name one with from_module(mod, function={next(iter(functions))!r}); for those of "
                "a Relax model net = sl.import_network(mod), then sl.tune_network(net)",
            )
        function = next(iter(functions))
    if function not in functions:
        raise WorkloadError(f"from_module: no PrimFunc {function!r} in the module; it has {listed}")
    return from_prim_func(functions[function], name or function, outputs=outputs)


def from_script(
    text: str,
    name: str | None = None,
    function: str | None = None,
    *,
    outputs: Sequence[str] = (),
) -> Workload:
    """A workload from TVMScript text: one ``@T.prim_func(s_tir=True)`` or one ``@I.ir_module``.

    ``I`` and ``T`` are known there; lines that import them are skipped. Of a module with several
    functions ``function`` names the one to take. ``outputs`` names arguments that are outputs: see
    ``Workload.with_outputs``.

    The text is **executed as Python** by TVM's parser: read only text that you trust.

    Raises ``WorkloadError`` with the line when the text does not parse.
    """
    if not isinstance(text, str):
        raise WorkloadError(f"from_script takes TVMScript text, not a {type(text).__name__}")
    try:
        parsed = program.parse_script(text)
    except WorkloadError as error:
        raise WorkloadError(f"from_script: {error}") from error.__cause__
    if isinstance(parsed, program.TensorProgram):
        return from_module(parsed, name, function, outputs=outputs)
    if function not in (None, program.symbol(parsed)):
        raise WorkloadError(
            f"from_script: no function {function!r}; the text has {program.symbol(parsed)!r}"
        )
    return from_prim_func(parsed, name, outputs=outputs)


def as_workload(obj: Any, *, outputs: Sequence[str] = ()) -> Workload:
    """``obj`` as a workload: a Workload itself, a PrimFunc, an IRModule, or a list of te.Tensor.

    ``outputs`` names arguments that are outputs: see ``Workload.with_outputs``.

    Raises ``WorkloadError`` for anything else.
    """
    if isinstance(obj, Workload):
        return obj.with_outputs(outputs)
    if isinstance(obj, program.TensorFunction):
        return from_prim_func(obj, outputs=outputs)
    if isinstance(obj, program.TensorProgram):
        return from_module(obj, outputs=outputs)
    if (
        isinstance(obj, list | tuple)
        and obj
        and all(isinstance(item, tensor_expressions.TensorExpression) for item in obj)
    ):
        return from_te(obj, outputs=outputs)
    raise not_a_program(obj)


# -- A user's function of extents that returns a program ------------------------------------------


class Template:
    """A function of extents and settings that returns a program; each program is made once.

    Parameters
    ----------
    function: returns what ``tune`` takes, for values as keyword arguments.

    Attributes
    ----------
    function: as given.
    name: of the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(
                f"a template is a function of extents that returns a program, not a "
                f"{type(function).__name__}: write "
                "def template(rows): return sl.workloads.matmul(rows, 64, 64)"
            )
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__)).strip("<>")
        self._made: OncePerKey[Workload] = OncePerKey()

    def __call__(self, values: Mapping[str, Any]) -> Workload:
        """Return the program for these values; threads make it once.

        ``TemplateError`` that names the values where the function fails, returns no program, or
        returns another program when it is called again.
        """
        return self._made.get(key_of(values), lambda: self._made_twice(values))

    def make(self, values: Mapping[str, Any]) -> Workload:
        """Return the program for these values, made anew, and without looking twice."""
        where = self.call(values)
        try:
            with users_code("it"):
                made = self.function(**values)
        except Exception as error:  # a user's function raises anything
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise TemplateError(f"{where} fails: {reason}") from error
        try:
            made = as_workload(made)
            return Workload(made.mod, where, made.source)
        except WorkloadError as error:
            raise TemplateError(f"{where} makes no program: {error}") from error
        except Exception as error:  # TVM's errors have many types
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise TemplateError(f"{where} makes no program: {reason}") from error

    def call(self, values: Mapping[str, Any]) -> str:
        """Write a call: ``dense(rows=64, width=768)``."""
        return f"{self.name}({assigned(values)})"

    def _made_twice(self, values: Mapping[str, Any]) -> Workload:
        made = self.make(values)
        if self.make(values) != made:
            raise TemplateError(
                f"{self.call(values)} returned two programs in two calls",
                "a template depends on nothing but its arguments, so that a kernel belongs to its "
                "extents",
            )
        return made


def key_of(values: Mapping[str, Any]) -> Hashable:
    """Return what is equal for equal values of the same types, those in tuples too."""
    return tuple((name, _exact(value)) for name, value in sorted(values.items()))


def _exact(value: Any) -> Hashable:
    kind = type(value)
    if kind is float:
        return kind, value.hex()  # 0.0 and -0.0 differ, and one NaN is like another
    if isinstance(value, tuple):
        return kind, tuple(map(_exact, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(_exact, value))
    return kind, value


def assigned(values: Mapping[str, Any]) -> str:
    """Write values by name: ``rows=64, width=768``."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
