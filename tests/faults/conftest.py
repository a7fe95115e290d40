"""What the fault suite knows about the workers."""

from tests.targets.conftest import environment, survivors, worker_pids

__all__ = ["environment", "survivors", "worker_pids"]
