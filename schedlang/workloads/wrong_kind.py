"""What users give in place of a program or of a network, and what they can do instead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from schedlang.errors import NetworkError, WorkloadError
from schedlang.tvm import program, tensor_expressions

_IMPORT = "net = sl.import_network(model, (example,)), then sl.tune_network(net)"
_PROGRAMS = "it is one program, no model: sl.tune(program) tunes it"
_ARRAYS = (
    "describe what is computed, as sl.workloads.matmul(64, 64, 64) or with te.compute; arrays to "
    "run it on go to tune(..., inputs=[...])"
)
_MODEL_FIRST = "the model comes first, then its inputs: sl.import_network(model, (array,))"
_MOST = 60


class WrongKind(NamedTuple):
    """Something else than was asked for.

    Attributes
    ----------
    what: it is, with its article.
    for_program: what to do where one program is asked for; may be empty.
    for_network: what to do where a model or a network is asked for; may be empty.
    """

    what: str
    for_program: str = ""
    for_network: str = ""


def not_a_program(given: object) -> WorkloadError:
    """Return the error for something else than a program, where one is asked for."""
    wrong = wrong_kind(given)
    return WorkloadError(
        "expected a Workload, a PrimFunc, an IRModule with one PrimFunc, or a list of te.Tensor "
        f"(placeholders and results), not {wrong.what}",
        wrong.for_program,
    )


def not_a_network(expected: str, given: object) -> NetworkError:
    """Return the error for another thing than the model or network that ``expected`` asks for."""
    wrong = wrong_kind(given)
    remedy = wrong.for_network or "sl.import_network(model, example_inputs) makes a network"
    return NetworkError(f"{expected}, not {wrong.what}; {remedy}")


def wrong_kind(given: object) -> WrongKind:
    """Describe what was given. No optional library is imported for it."""
    if given is None:
        return WrongKind("None", "the function that was to make it may lack a return")
    if isinstance(given, str | os.PathLike):
        return _text(given)
    if isinstance(given, type):
        return _class(given)
    names = _names(type(given))
    for name, found in _KNOWN.items():
        if name in names:
            return found._replace(what=found.what.format(type(given).__name__))
    if isinstance(given, Sequence):
        return _list(given)
    if isinstance(given, tensor_expressions.TensorExpression):
        return WrongKind(
            "a te.Tensor", "list the placeholders and the results: [a, b, c]", _PROGRAMS
        )
    if isinstance(given, program.TensorFunction):
        return WrongKind("a PrimFunc", "", _PROGRAMS)
    if callable(given):
        return _function(given)
    return WrongKind(_a(type(given).__name__))


def _names(kind: type) -> set[str]:
    return {f"{one.__module__}.{one.__name__}" for one in kind.__mro__}


_MODULE = "torch.nn.modules.module.Module"
# By the names of a class or of one that it derives from; the first that fits counts.
_KNOWN = {
    "torch.jit._script.ScriptModule": WrongKind(
        "a torch.jit.ScriptModule ({})",
        "import the torch.nn.Module that it was made from: " + _IMPORT,
        "give the torch.nn.Module that it was made from",
    ),
    "torch.jit._script.ScriptFunction": WrongKind(
        "a torch.jit.ScriptFunction",
        "put the function that it was made from into a torch.nn.Module: " + _IMPORT,
        "put the function that it was made from into a torch.nn.Module, as its forward",
    ),
    _MODULE: WrongKind(
        "a torch.nn.Module ({})",
        "a model is a network of many programs: " + _IMPORT,
        "import it first: net = sl.import_network(model, (example,))",
    ),
    "torch.export.exported_program.ExportedProgram": WrongKind(
        "a torch ExportedProgram",
        "a model is a network of many programs: net = sl.import_network(exported), then "
        "sl.tune_network(net)",
        "import it first: net = sl.import_network(exported)",
    ),
    "onnx.onnx_ml_pb2.ModelProto": WrongKind(
        "an ONNX model",
        "a model is a network of many programs: net = sl.import_network(model), then "
        "sl.tune_network(net)",
        "import it first: net = sl.import_network(model)",
    ),
    "torch.Tensor": WrongKind("a torch tensor", _ARRAYS, _MODEL_FIRST),
    "numpy.ndarray": WrongKind("a numpy array", _ARRAYS, _MODEL_FIRST),
    "schedlang.networks.network.Network": WrongKind(
        "a Network",
        "sl.tune_network(network) tunes all its programs; network.tasks[0].workload is one of them",
        "it is imported already: give it to sl.tune_network or sl.compile_network",
    ),
    "schedlang.networks.sizes.NetworkSet": WrongKind(
        "a NetworkSet",
        "sl.tune_network(networks) tunes all its programs; networks.tasks[0].workload is one of "
        "them",
        "it holds several: give it alone to sl.tune_network or sl.compile_network",
    ),
    "schedlang.networks.tasks.Task": WrongKind(
        "a Task", "give its program: task.workload", _PROGRAMS
    ),
    "schedlang.workloads.workload.Workload": WrongKind("a Workload", "", _PROGRAMS),
    "schedlang.language.schedule.Schedule": WrongKind(
        "a Schedule", "give its program: schedule.workload", _PROGRAMS
    ),
    "schedlang.language.schedule.Trace": WrongKind(
        "a Trace", "give its program: trace.workload", _PROGRAMS
    ),
    "schedlang.spaces.space.Space": WrongKind(
        "a Space", "the program comes first: sl.tune(program, space=space)"
    ),
    "schedlang.tuning.result.TuneResult": WrongKind(
        "a TuneResult", "give its program: result.workload", _PROGRAMS
    ),
    "schedlang.targets.target.Target": WrongKind(
        "a Target", "the program comes first: sl.tune(program, target)"
    ),
    "tvm.ir.module.IRModule": WrongKind(
        "an IRModule", "", "import it first: net = sl.import_network(mod)"
    ),
}


def _text(given: str | os.PathLike[str]) -> WrongKind:
    text = os.fspath(given)
    shown = repr(text if len(text) <= _MOST else text[: _MOST - 3] + "...")
    if text.endswith(".onnx"):
        how = f"net = sl.import_network({shown})"
        return WrongKind(
            f"the path {shown}",
            f"a model is a network of many programs: {how}, then sl.tune_network(net)",
            f"import it first: {how}",
        )
    if text.endswith(".py"):
        how = "import the file and give {} of it; the command line takes file.py:name"
        return WrongKind(f"the path {shown}", how.format("a program"), how.format("a model"))
    if text.endswith(".tvmscript"):
        return WrongKind(
            f"the path {shown}",
            "read it: sl.workloads.from_script(Path(...).read_text())",
            _PROGRAMS,
        )
    if "prim_func" in text or "ir_module" in text:
        return WrongKind("TVMScript text", "sl.workloads.from_script(text) reads it", _PROGRAMS)
    return WrongKind(
        f"the text {shown}",
        "for TVMScript text use sl.workloads.from_script(text), for an operator "
        "sl.workloads.get(name)",
        "an ONNX file is named by its path; an operator is a program: "
        "sl.tune(sl.workloads.get(name))",
    )


def _class(given: type) -> WrongKind:
    name = given.__name__
    what = f"the class {name}, not an instance of it"
    if _MODULE in _names(given):
        made = f"sl.import_network({name}(...), (example,))"
        return WrongKind(what, f"make one, and import it: net = {made}", f"make one: {made}")
    return WrongKind(what, f"make one: {name}(...)", f"make one: {name}(...)")


def _list(given: Sequence[Any]) -> WrongKind:
    what = "a list" if isinstance(given, list) else _a(type(given).__name__)
    if not given:
        return WrongKind(
            f"{what} without items",
            "list the placeholders and the results",
            "give one network or more",
        )
    if all(isinstance(one, tensor_expressions.TensorExpression) for one in given):
        return WrongKind(f"{what} of te.Tensor", "", _PROGRAMS)
    place, other = next(
        (k, one)
        for k, one in enumerate(given)
        if not isinstance(one, tensor_expressions.TensorExpression)
    )
    inner = wrong_kind(other)
    if "workload" in type(other).__module__ or isinstance(other, program.TensorFunction):
        one = "tune one program at a time: for program in programs: sl.tune(program)"
        return WrongKind(f"{what} with {inner.what} as item {place}", one, one)
    return inner._replace(what=f"{what} with {inner.what} as item {place}")


def _function(given: Any) -> WrongKind:
    name = str(getattr(given, "__name__", type(given).__name__))
    if _of_torch(given):
        return WrongKind(
            f"the torch function {name}",
            "write what it computes with te.compute, or put it into a torch.nn.Module: " + _IMPORT,
            "put it into a torch.nn.Module, as its forward",
        )
    return WrongKind(
        f"the function {name}",
        "call it, and give what it returns",
        "call it where it makes a model; where it is one, put it into a torch.nn.Module",
    )


def _of_torch(given: Any) -> bool:
    # Those written in C are methods of a class.
    places = (given, getattr(given, "__self__", None), type(given))
    modules = (str(getattr(place, "__module__", None)) for place in places)
    return any(module.partition(".")[0] == "torch" for module in modules)


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
