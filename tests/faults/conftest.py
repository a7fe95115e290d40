"""What the fault suite knows about processes."""

from tests.targets.conftest import survivors

__all__ = ["survivors"]
