"""Put space, search, measurement and database together: ``tune``, ``best`` and ``apply``.

What the package exports is imported when it is first used: the command line reads ``options`` from
here, and answers ``--help`` without TVM.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlang.tuning._public import *  # noqa: F403  (type checkers know them)
else:
    from schedlang._lazy import attribute as _attribute

    def __getattr__(name: str) -> object:
        """Return a public name, or a file of the package, and keep it."""
        value = globals()[name] = _attribute(name, __name__)
        return value

    def __dir__() -> list[str]:
        """Return the names that are here, and the public ones."""
        return sorted({*globals(), *_attribute("__all__", __name__)})
