"""Contract suites: tests that every implementation of an extension point must pass.

Subclass a suite in your tests and define its fixture.
"""

import pkgutil

import pytest

# Without this, a failing suite would say "assert False" instead of showing the values.
pytest.register_assert_rewrite(*(f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__)))
