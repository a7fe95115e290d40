"""Old module paths, for programs that were printed and scripts that were written before a move.

A printed program imports what it uses; it must run for as long as a record may be kept.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

MOVED = {
    **dict.fromkeys(
        (
            "schedlang.handles",
            "schedlang.kinds",
            "schedlang.module",
            "schedlang.replay",
            "schedlang.schedule",
            "schedlang.space",
            "schedlang.trace",
            "schedlang.workload",
        ),
        "schedlang",
    ),
    "schedlang.einsum": "schedlang.analysis.einsum",
    "schedlang.intrinsics": "schedlang.analysis.intrinsics",
    "schedlang.layouts": "schedlang.analysis.layouts",
    "schedlang.mutation": "schedlang.spaces.mutation",
    "schedlang.progress": "schedlang.tuning.live",
    "schedlang.structure": "schedlang.workloads.keys.structure",
    "schedlang.tune": "schedlang.tuning",
    "schedlang.search.drawing": "schedlang.search.prior",
    "schedlang.search.saved_state": "schedlang.search.state",
    "schedlang.targets.assembly": "schedlang.targets.cpu.assembly",
    "schedlang.targets.cpu_space": "schedlang.targets.cpu.space",
    "schedlang.targets.local_cpu": "schedlang.targets",
    **dict.fromkeys(
        (
            "schedlang.modules.add_rfactor",
            "schedlang.modules.auto_bind",
            "schedlang.modules.auto_inline",
            "schedlang.modules.compute_location",
            "schedlang.modules.cross_thread_reduction",
            "schedlang.modules.decompose_reduction",
            "schedlang.modules.dot_tile",
            "schedlang.modules.finish",
            "schedlang.modules.inline_constants",
            "schedlang.modules.layout_rewrite",
            "schedlang.modules.metaschedule_finish",
            "schedlang.modules.multi_level_tiling",
            "schedlang.modules.pack_operand",
            "schedlang.modules.pad_einsum",
            "schedlang.modules.parallel_vectorize_unroll",
            "schedlang.modules.place_padded_result",
            "schedlang.modules.register_tile",
            "schedlang.modules.tensorize",
            "schedlang.modules.use_bf16_dot",
            "schedlang.modules.use_vnni",
            "schedlang.modules.vector_math",
        ),
        "schedlang.modules",
    ),
}
"""The module that holds the same objects now, by the path that a module had before."""


class _Moved(ModuleType):
    """Stands at an old path; it has what the module that is now there has."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, f"It is now ``{new}``.")
        self._new = new

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(self._new), name)


def keep_old_paths() -> None:
    """Make ``from <old path> import name`` give the object that ``name`` is now.

    The paths are entered as they are, not imported: importing a submodule would bind its name in
    its package, where a module of the language may have that name. What they stand for is imported
    when it is used.
    """
    for old, new in MOVED.items():
        sys.modules.setdefault(old, _Moved(old, new))
