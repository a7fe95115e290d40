"""Contract suites: every extension point is tested by the same tests as ours.

Subclass a suite in your own tests and give its fixture; pytest does the rest.
"""

import pkgutil

import pytest

# Without this, a failing suite would say "assert False" instead of showing the values.
pytest.register_assert_rewrite(*(f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__)))
