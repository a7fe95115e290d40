"""Contract suites: tests that every implementation of an extension point must pass.

Subclass a suite in your tests and define its fixture. The suites need pytest.
"""

import pkgutil

try:
    import pytest
except ModuleNotFoundError as error:
    if error.name != "pytest":
        raise
    raise ModuleNotFoundError(
        "schedlang.testing holds tests for pytest, which is not installed: pip install pytest",
        name="pytest",
    ) from None

# Without this, a failing suite would say "assert False" instead of showing the values.
pytest.register_assert_rewrite(*(f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__)))
