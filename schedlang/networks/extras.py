"""Optional packages, imported when a model needs them."""

from __future__ import annotations

import importlib
from typing import Any

from schedlang.errors import MissingExtraError


def require(package: str, purpose: str) -> Any:
    """Import an optional package, which is also the name of the extra that installs it.

    Raises ``MissingExtraError`` where it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f'{purpose} needs {package}: pip install "schedlang[{package}]"'
        ) from error
