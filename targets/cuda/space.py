"""The default space of NVIDIA GPUs."""

from __future__ import annotations

from schedlang.modules.gpu.auto_bind import auto_bind
from schedlang.modules.gpu.cross_thread_reduction import cross_thread_reduction
from schedlang.modules.gpu.finish_threads import finish_threads
from schedlang.modules.gpu.thread_tiling import thread_tiling
from schedlang.modules.shared.auto_inline import auto_inline, inline_constants
from schedlang.spaces.space import Space
from schedlang.targets.cuda.machine import CUDAMachine

# Compute capability from which on memory is copied to shared memory asynchronously (cp.async).
_ASYNCHRONOUS = (8, 0)
_DEPTHS = (3, 4, 5)
# Probability of sharing a reduction among threads, which nearly always pays.
_USUAL = 0.9


def cuda_space(target: CUDAMachine, *, priors: bool = True) -> Space:
    """Tile for blocks and threads, inline, reduce across threads, bind what is left, and unroll.

    The structure is MetaSchedule's for CUDA. From compute capability 8.0 on, copies of operands may
    overlap with the computation. The prior depends on the machine: its multiprocessors, and the
    threads and the shared memory of a block; it makes programs that cannot start rare, and forbids
    none. Without ``priors`` every draw is uniform.
    """
    threads = target.max_threads_per_block
    asynchronous = target.compute_capability >= _ASYNCHRONOUS
    return Space(
        [
            thread_tiling(
                sms=target.sms,
                max_threads_per_block=threads,
                shared_bytes=target.shared_bytes,
                pipeline_depths=_DEPTHS if asynchronous else (),
                prior=priors,
            ).renamed("multi_level_tiling"),
            inline_constants,
            auto_inline(
                into_producer=True,
                inline_branches=True,
                inline_expensive=True,
                weights_ahead=False,
            ),
            cross_thread_reduction(
                max_threads_per_block=threads, prob=_USUAL if priors else 0.5, prior=priors
            ),
            auto_bind(max_threads_per_block=threads, sms=target.sms if priors else 0),
            finish_threads(max_threads_per_block=threads),
        ],
        name="cuda",
    )
