"""The program of the processes that make default schedules.

Started as ``python -m schedlang.tuning.default_worker``.
"""

from __future__ import annotations

from typing import Any

from schedlang.targets import Target
from schedlang.targets.kinds import load
from schedlang.targets.worker.protocol import Request, serve
from schedlang.tuning.defaults import choose_schedule
from schedlang.tvm import program
from schedlang.workloads.construct import from_prim_func


class _Worker:
    """Answers two requests: ``start`` with a target, and ``schedule`` with a program."""

    def __init__(self) -> None:
        self._target: Target

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the header of the reply; a request that fails is not ``ok``."""
        header = request.header
        try:
            if header["request"] == "start":
                self._target = load(header["kind"])(**header["target"])
                return {"ok": True}
            func = program.from_json(header["program"])[program.MAIN]
            schedule = choose_schedule(from_prim_func(func, header["name"]), self._target)
            return {"ok": True, "trace": schedule.trace.to_json()}
        except Exception as error:  # whoever asked makes it, and meets the error
            return {"ok": False, "message": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    serve(_Worker().answer)
