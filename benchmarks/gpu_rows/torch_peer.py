"""torch on the same GPU, timed as schedlang times its programs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

_WARM_UP_SECONDS = 0.2
_SAMPLES = 50
_LEAST_FLUSH_BYTES = 64 << 20


class TorchPeer:
    """Times calls of torch by the GPU's clock, each after a write that empties the L2 cache.

    Parameters
    ----------
    device: number of the GPU.
    l2_bytes: size of its L2 cache.
    """

    def __init__(self, device: int, l2_bytes: int) -> None:
        import torch

        self.torch = torch
        self.device = torch.device("cuda", device)
        torch.cuda.set_device(self.device)
        torch.manual_seed(0)
        # float32 means float32, as in the programs that it is compared with.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        size = max(2 * l2_bytes, _LEAST_FLUSH_BYTES)
        self._flush = torch.empty(size, dtype=torch.uint8, device=self.device)

    def random(self, *shape: int, dtype: str = "float16") -> Any:
        """Return random numbers: a product of zeros runs faster."""
        return self.torch.randn(*shape, device=self.device).to(getattr(self.torch, dtype))

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the median time of a call in seconds."""
        torch = self.torch
        end = time.perf_counter() + _WARM_UP_SECONDS
        while time.perf_counter() < end:
            call()
            torch.cuda.synchronize()
        samples = []
        for _ in range(_SAMPLES):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._flush.zero_()
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(stop) / 1e3)
        return statistics.median(samples)

    def copy_rate(self, size: int) -> float:
        """Return the bytes a second, read and written, of a copy of ``size`` bytes."""
        source = self.random(size // 4, dtype="float32")
        target = self.torch.empty_like(source)
        return 2 * size / self.seconds(lambda: target.copy_(source))

    def versions(self) -> dict[str, str]:
        """Return torch's version and those of its libraries."""
        torch = self.torch
        return {
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
        }
