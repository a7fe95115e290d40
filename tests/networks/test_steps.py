"""Recurrent networks: one task for the same computation of all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

import schedlang as sl  # noqa: E402
from schedlang.tvm.relax import lowering  # noqa: E402
from schedlang.tvm.relax.calls import LONGEST, short_name  # noqa: E402
from tests.networks import models  # noqa: E402
from tests.networks.models import Built, Function, image, seeded  # noqa: E402

FEW, MANY = 5, 8


def layer(kind: Callable[..., nn.Module], steps: int, batch: int, **options: Any) -> Built:
    first = options.get("batch_first", False)
    shape = (batch, steps, 4) if first else (steps, batch, 4)
    return seeded(kind(4, 6, **options)), (image(*shape),)


def loop(
    cell: type[nn.Module], steps: int, take: Callable[[Any, int], Any], join: Callable[..., Any]
) -> Built:
    """A loop over time steps of [batch, time, feature], as one writes it by hand."""

    def forward(self: Any, x: Any) -> Any:
        state = None
        outputs = []
        for step in range(steps):
            state = self.cell(take(x, step), state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return join(outputs, 1)

    return seeded(Function(forward, cell=cell(4, 6))), (image(2, steps, 4),)


def joined(outputs: list[Any], axis: int) -> Any:
    return torch.cat([one.unsqueeze(axis) for one in outputs], axis)


def at(x: Any, step: int) -> Any:
    return x[:, step]


def unbound(x: Any, step: int) -> Any:
    return x.transpose(0, 1).unbind(0)[step]


def words(steps: int, batch: int) -> Built:
    """A loop over indices into a table, which are int64."""

    def forward(self: Any, ids: Any) -> Any:
        state = None
        for step in range(steps):
            state = self.cell(self.table(ids[:, step]), state)
        return state

    drawn = torch.randint(0, 7, (batch, steps), generator=torch.Generator().manual_seed(1))
    return seeded(Function(forward, table=nn.Embedding(7, 4), cell=nn.GRUCell(4, 6))), (drawn,)


MODELS: dict[str, Callable[[int], Built]] = {
    "GRU": lambda steps: layer(nn.GRU, steps, 1),
    "GRU, both directions": lambda steps: layer(nn.GRU, steps, 2, bidirectional=True),
    "GRU, two layers": lambda steps: layer(nn.GRU, steps, 2, num_layers=2, batch_first=True),
    "LSTM": lambda steps: layer(nn.LSTM, steps, 2),
    "LSTM, all of it": lambda steps: layer(
        nn.LSTM, steps, 2, num_layers=2, bidirectional=True, batch_first=True
    ),
    "RNN": lambda steps: layer(nn.RNN, steps, 2, nonlinearity="relu"),
    "GRUCell, stack": lambda steps: loop(nn.GRUCell, steps, at, torch.stack),
    "LSTMCell, cat": lambda steps: loop(nn.LSTMCell, steps, at, joined),
    "words": lambda steps: words(steps, 1),
    "words, a batch": lambda steps: words(steps, 2),
    "RNNCell, unbind": lambda steps: loop(nn.RNNCell, steps, unbound, torch.stack),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_tasks_does_not_depend_on_the_number_of_steps(name: str) -> None:
    few, many = (sl.import_network(*MODELS[name](steps)) for steps in (FEW, MANY))
    assert len(few.tasks) == len(many.tasks)
    assert max(len(task.name) for task in many.tasks) <= LONGEST
    steps = {task.workload.exact_key: task.weight for task in few.tasks}
    grown = {task.workload.exact_key: task.weight for task in many.tasks}
    assert any(grown[key] > weight for key, weight in steps.items() if key in grown), (
        "the tasks of a step are the same in both"
    )
    compiled = sl.compile_network(many)
    assert (found := compiled.verify()).passed, found


def thirds(tensors: int) -> Built:
    """Queries, keys and values as parts of one tensor, along the last axis."""

    def forward(self: Any, x: Any) -> Any:
        q, k, v = self.all(x).split(8, 2)
        return torch.relu(q) + torch.relu(k) * torch.relu(v), torch.tanh(x[:, 0])

    return seeded(Function(forward, all=nn.Linear(16, 24))), (image(tensors, 6, 16),)


def quarters(tensors: int) -> Built:
    """Groups of channels, each convolved with the result of the one before."""

    def forward(self: Any, x: Any) -> Any:
        first, *others = x.chunk(4, 1)
        made = [first]
        for convolution, part in zip(self.convolutions, others, strict=True):
            made.append(convolution(part + made[-1]))
        return torch.cat(made, 1)

    layers = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=1) for _ in range(3)])
    return seeded(Function(forward, convolutions=layers)), (image(tensors, 16, 8, 8),)


def test_networks_without_steps_keep_their_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def tasks() -> list[list[tuple[str, str, int]]]:
        builds = [models.convolutions(), models.perceptron(), thirds(2), quarters(1)]
        networks = [sl.import_network(*built) for built in builds]
        return [
            [(task.name, task.workload.exact_key, task.weight) for task in network.tasks]
            for network in networks
        ]

    found = tasks()
    monkeypatch.setattr(lowering, "with_shared_functions", lambda mod: mod)
    assert found == tasks()


def test_a_copy_of_a_part_is_a_view_and_outputs_share_nothing() -> None:
    """``q, k, v = x[0], x[1], x[2]``: no call is left of it."""

    def forward(self: Any, x: Any) -> Any:
        y = torch.relu(x + 1)
        z = torch.tanh(y) * 2 + y.flip(0)
        return y[0], y[1], y[2], z.sum(0) * y[1], y[1]

    network = sl.import_network(Function(forward), (image(3, 5, 7),))
    assert not [task.name for task in network.tasks if "slice" in task.name and task.moves_data]
    compiled = sl.compile_network(network)
    for executable in (None, lambda inputs: list(compiled(*inputs))):
        assert network.verify(executable=executable).passed
    outputs = compiled(image(3, 5, 7).numpy())
    for place, one in enumerate(outputs):
        for other in outputs[:place]:
            assert not np.shares_memory(one, other)


def test_long_names_are_shortened_and_stay_apart() -> None:
    long = "fused_conv2d3_add1_tir_sigmoid_multiply_add1_relu_max_pool2d"
    first = short_name(long)
    assert first == "fused_conv2d_add_sigmoid_to_pool2d"
    second = short_name(long.replace("conv2d3", "conv2d4"), {first})
    assert second == first + "2"
    assert len(short_name("f" * 100)) <= LONGEST
    assert len(short_name("_".join(["multiply"] * 30))) <= LONGEST
