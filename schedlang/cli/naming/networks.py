"""Networks that a command line names: an ONNX file, or an object of a Python file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schedlang as sl
from schedlang.cli.naming.files import existing_file, is_python, object_of, split_name
from schedlang.cli.naming.sizes import call_with, sizes_of
from schedlang.cli.verb import UsageError
from schedlang.errors import NetworkError

if TYPE_CHECKING:
    from schedlang.networks import Network

NETWORK = (
    "An ONNX file, or file.py:function that returns a model of PyTorch with its example inputs "
    "(model, inputs), a Relax module or a Network. The file is run."
)


def check_network(what: str, words: Sequence[str]) -> None:
    """UsageError for words that name no network, as far as that is known without TVM."""
    sizes = sizes_of(words)
    path, name = split_name(what)
    if not is_python(what):
        if not what.endswith(".onnx"):
            raise UsageError(f"{what!r} is no network; give an .onnx file, or file.py:function")
        if sizes:
            raise UsageError(f"{what} takes no sizes")
    elif not name:
        raise UsageError(f"{path}: name the function that returns the model, as {path}:function")
    existing_file(Path(path))


def network_of(
    what: str, words: Sequence[str], options: Mapping[str, bool], layout: str
) -> Network:
    """Return the network that ``what`` names, called with its sizes."""
    check_network(what, words)
    if not is_python(what):
        return sl.import_network(what, layout=layout)
    sizes, (_, name) = sizes_of(words), split_name(what)
    found = object_of(what)
    if _is_function(found):
        found = call_with(found, what, sizes, options)
    elif sizes:
        raise UsageError(f"{what} is no function, and takes no sizes")
    model, inputs = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if isinstance(model, sl.Network):
        return model
    try:
        return sl.import_network(model, inputs, name=name, layout=layout)
    except NetworkError as error:
        if type(error) is not NetworkError:  # operators that cannot be imported
            raise
        raise UsageError(f"{what}: {error}") from error


def _is_function(found: Any) -> bool:
    """Whether it makes a model; a model of torch can be called, too."""
    return callable(found) and not isinstance(found, sl.Network) and not hasattr(found, "forward")
