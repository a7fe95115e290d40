"""A network as text: its inputs, outputs, weights and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from schedlang.networks.tasks import Task
from schedlang.networks.tensor import Tensor


def describe(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    parameters: Mapping[str, np.ndarray],
    tasks: Sequence[Task],
    untunable: Mapping[str, str],
) -> str:
    """Return a network's tensors, and a table of its tasks, those with most arithmetic first."""
    elements = sum(value.size for value in parameters.values())
    size = sum(value.nbytes for value in parameters.values())
    flops = sum(task.weight * task.flops for task in tasks)
    calls = sum(task.weight for task in tasks)
    moving = sum(task.moves_data for task in tasks)
    lines = [
        f"network {name}: {_short(elements)} parameters ({size / 2**20:.1f} MiB), "
        f"{_short(flops)} operations a call",
        *(f"  in   {tensor}" for tensor in inputs),
        *(f"  out  {tensor}" for tensor in outputs),
        f"{calls} calls of {len(tasks)} tasks, {moving} of them only move data",
        "  calls   share  operations  task",
    ]
    for task in sorted(tasks, key=lambda task: -task.weight * task.flops):
        share = f"{task.weight * task.flops / flops:.1%}" if flops else "-"
        amount = "moves data" if task.moves_data else _short(task.flops) if task.flops else "-"
        lines.append(f"  {task.weight:5d}  {share:>6}  {amount:>10}  {task.name}")
        lines += [f"{'':27}  = {other}" for other in task.functions[1:]]
    lines += [f"not tunable: {function}: {reason}" for function, reason in untunable.items()]
    return "\n".join(lines)


def _short(number: float) -> str:
    """``25_500_000 -> "25.5 M"``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"
