"""Fixtures for scripts and the workers that they start."""

from tests.targets.conftest import environment, hear_ctrl_c, survivors, worker_pids

__all__ = ["environment", "hear_ctrl_c", "survivors", "worker_pids"]
