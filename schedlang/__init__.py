"""schedlang: an embedded probabilistic language for tensor-program schedules, on Apache TVM.

Importing the package is quick: what it exports is imported when it is first used, with all that it
needs. So the command line answers ``--help``, and completes words, without waiting for TVM.
"""

import typing as _typing

from schedlang import _reports  # noqa: F401  (registers who shows results)

if _typing.TYPE_CHECKING:
    from schedlang._public import *  # noqa: F403  (type checkers know them)
else:
    from schedlang._lazy import attribute as _attribute

    def __getattr__(name: str) -> object:
        """Return a public name, or a package of the library, and keep it."""
        value = globals()[name] = _attribute(name, __name__)
        return value

    def __dir__() -> list[str]:
        """Return the names that are here, and the public ones."""
        return sorted({*globals(), *_attribute("__all__", __name__)})


__version__ = "0.1.0"
