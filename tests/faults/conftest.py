"""Process fixtures of the fault suite."""

from tests.targets.conftest import survivors

__all__ = ["survivors"]
