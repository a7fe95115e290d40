"""Our targets under the contract of all targets."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.testing.target import TargetContract


class TestCPU(TargetContract):
    @pytest.fixture(params=["cpu", "x86/avx2", "aarch64/sve"])
    def target(self, request: pytest.FixtureRequest) -> sl.Target:
        return sl.Target(request.param)
