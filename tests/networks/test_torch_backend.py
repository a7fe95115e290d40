"""``torch.compile(backend="schedlang")``: what runs in our kernels, what torch runs, and why."""

from __future__ import annotations

import importlib.metadata
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import NetworkError
from schedlang.networks import EagerGraphWarning, torch_graphs
from schedlang.networks.torch_backend import backend

torch = pytest.importorskip("torch", reason="needs torch: pip install 'schedlang[torch]'")
nn = torch.nn
_EARLIER: set[Any] = set()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Each test has its own graphs, and records no gradients."""
    torch._dynamo.reset()
    _EARLIER.clear()
    _EARLIER.update(torch_graphs())  # a test that failed keeps its own
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def compiled(model: Any, **options: Any) -> Any:
    """Compile a model; what it then gives is compared by ``same``."""
    return torch.compile(model, backend=backend, options=options or None)


def same(fast: Callable[..., Any], model: Callable[..., Any], *args: Any, calls: int = 2) -> None:
    """The first call is torch's, the second one is ours."""
    for _ in range(calls):
        torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5)


def graphs() -> tuple[int, list[str]]:
    """The number of graphs that are compiled, and why others are not."""
    found = [one for one in torch_graphs() if one not in _EARLIER]
    return sum(one.compiled for one in found), sorted(one.eager for one in found if one.eager)


def test_a_model_is_compiled() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    same(compiled(model), model, torch.randn(3, 8))
    assert graphs() == (1, [])
    [graph] = torch_graphs()
    assert graph.operators == 3 and graph.seconds > 0


def test_torch_finds_the_backend_by_its_name() -> None:
    points = importlib.metadata.entry_points(group="torch_dynamo_backends", name="schedlang")
    if not points:
        pytest.skip("schedlang is not installed, and torch looks for installed packages")
    model = nn.Linear(8, 4).eval()
    same(torch.compile(model, backend="schedlang"), model, torch.randn(3, 8))
    assert graphs() == (1, [])


def test_records_are_made_and_used(tmp_path: Path) -> None:
    model, x = nn.Linear(32, 16).eval(), torch.randn(4, 32)
    file = tmp_path / "tune.db"
    same(compiled(model, database=file), model, x)
    assert not file.exists(), "nothing was tuned"
    torch._dynamo.reset()
    same(compiled(model, database=file, trials=3), model, x)
    with sl.open_database(file, read_only=True) as database:
        records = database.count()
        assert records >= 3
    torch._dynamo.reset()
    same(compiled(model, database=file), model, x)
    [graph] = torch_graphs()
    [program] = graph._programs.values()
    assert program.network.summary.complete
    with sl.open_database(file, read_only=True) as database:
        assert database.count() == records


def test_structures_and_numbers() -> None:
    def model(pair: Any, *, scale: float) -> Any:
        one, two = pair
        return {"sum": one + two, "rest": [one * scale, None, one.shape[0]]}, two

    fast = compiled(model)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for scale in (2.0, 2.0, 3.0):
        ours, same_y = fast((x, y), scale=scale)
        theirs, _ = model((x, y), scale=scale)
        torch.testing.assert_close(ours["sum"], theirs["sum"])
        torch.testing.assert_close(ours["rest"][0], theirs["rest"][0])
        assert ours["rest"][1:] == [None, 3]
        assert same_y is y


def test_graph_breaks_and_branches() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.one(x))
            if y.sum() > 3:
                y = y * 2
            torch._dynamo.graph_break()
            return self.two(y)

    model = Model().eval()
    fast = compiled(model)
    for factor in (0.0, 100.0, 0.0, 100.0):
        same(fast, model, torch.ones(2, 6) * factor, calls=1)
    count, eager = graphs()
    assert count >= 2 and not eager


@pytest.mark.slow
def test_sizes_that_change() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    fast = compiled(model)
    for rows in (2, 3, 3, 5, 2, 5):
        same(fast, model, torch.randn(rows, 8), calls=1)
    assert graphs()[0] >= 2
    with pytest.warns(EagerGraphWarning, match="its sizes or weights changed 8 times"):
        for rows in range(6, 20):
            same(fast, model, torch.randn(rows, 8), calls=1)
    assert graphs()[0] >= 2, "those that there are stay in use"


@pytest.mark.slow
def test_weights_that_change_are_read_again() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    fast, x = compiled(model), torch.randn(3, 8)
    same(fast, model, x)
    model[0].weight.mul_(2)
    same(fast, model, x)
    model[1].running_mean.add_(1)
    same(fast, model, x)
    model.load_state_dict({name: one + 0.1 for name, one in model.state_dict().items()})
    same(fast, model, x)
    assert graphs() == (1, [])


def test_tensors_of_inference_mode() -> None:
    with torch.inference_mode():
        model = nn.Linear(8, 4).eval()
        fast, x = compiled(model), torch.randn(3, 8)
        same(fast, model, x)
        model.weight.mul_(2)  # torch does not count that
        same(fast, model, x)


def test_what_torch_runs_and_why() -> None:
    x = torch.randn(4, 4)
    for model, reason in (
        (lambda x: torch.linalg.det(x) + 1, "linalg"),
        (lambda x: (x.add_(1), x * 2)[1], "it changes a tensor that it is given"),
        (lambda x: (x + 1).chunk(2), "shares memory"),
        (lambda x: x.t() if x.sum() is not None else x, ""),
        (lambda x: torch.fft.fft(x).real + x, "fft"),
    ):
        torch._dynamo.reset()
        fast = compiled(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EagerGraphWarning)
            for _ in range(2):
                torch.testing.assert_close(fast(x.clone()), model(x.clone()))
        said = [str(one.message) for one in caught if one.category is EagerGraphWarning]
        if reason:
            assert len(said) == 1 and reason in said[0], said


def test_random_numbers_stay_those_of_torch() -> None:
    def model(x: Any) -> Any:
        return nn.functional.dropout(x, 0.5, training=True) + torch.rand(4)

    fast = compiled(model)
    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerGraphWarning)
        for seed in (1, 2, 3):
            torch.manual_seed(seed)
            ours = fast(x)
            torch.manual_seed(seed)
            torch.testing.assert_close(ours, model(x))


def test_a_fused_optimiser_is_seen() -> None:
    """It changes weights without telling torch."""
    model = nn.Linear(8, 4)
    fast, x = compiled(model), torch.randn(3, 8)
    same(fast, model, x)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.5, fused=True)
    with torch.enable_grad():
        model(x).square().sum().backward()
    optimiser.step()
    same(fast, model, x, calls=3)


def written(x: Any, i: Any) -> Any:
    """Indices that writers in place change behind what they were made of."""
    small = i.to(torch.int8).long().clone()
    small.add_(5)
    small[0] = 4
    return nn.functional.embedding(small, x)


@pytest.mark.slow
def test_indices_and_divisors_are_checked_in_each_call() -> None:
    """Where a call of a network is an error, torch runs the graph, and raises its own."""
    x, i, far = torch.randn(300, 4), torch.tensor([1, 2]), 10**11
    along, table = torch.tensor([[0, 1, 2, 3]]), torch.randn(10, 4)
    seven, three, zero = torch.tensor([7, -8]), torch.tensor([2, 3]), torch.tensor([0, 3])
    aten = torch.ops.aten
    for model, right, wrong in (
        (lambda x, i: x.gather(0, i) * 2, (x, along), [along + 300, along + far, along - 1]),
        (lambda x, i: aten.gather.default(x, 0, i), (x, along), [along + 300, along + far]),
        (lambda x, i: x.scatter(0, i, x[:1]), (x, along), [along + 300, along + far, along - 1]),
        (lambda x, i: aten.scatter.value(x, 0, i, 2.0), (x, along), [along + 300, along + far]),
        (lambda x, i: x[i] * 2, (x, i), [i + 300, i + far, i - 400]),
        (lambda x, i: x.index_select(0, i), (x, i), [i + 300, i + far, i - 2]),
        (lambda x, i: aten.index_put.default(x, [i], x[:2]), (x, i), [i + 300, i + far]),
        (lambda x, i: nn.functional.embedding(i, x), (x, i), [i + 300, i + far, i - 2]),
        (written, (table, torch.tensor([1, 2])), [torch.tensor([3, 5]), torch.tensor([127, 9])]),
        (lambda a, b: a // b + 1, (seven, three), [zero]),
        (lambda a, b: aten.remainder.Tensor(a, b), (seven, three), [zero]),
        (lambda a, b: aten.floor_divide.default(a, b), (seven, three), [zero]),
    ):
        torch._dynamo.reset()
        _EARLIER.clear()
        _EARLIER.update(torch_graphs())
        fast = compiled(model)
        same(fast, model, *right)
        assert graphs() == (1, [])
        for one in wrong:
            with pytest.raises((IndexError, RuntimeError, ZeroDivisionError)) as theirs:
                model(right[0], one)
            with pytest.raises(theirs.type):
                fast(right[0], one)
            same(fast, model, *right)


def test_what_may_fail_for_some_values_is_torch_s() -> None:
    x = torch.randn(4, 4)

    def asserting(x: Any) -> Any:
        torch._assert_async((x < 100).all(), "too large")
        return x * 2

    fast = compiled(asserting)
    with pytest.warns(EagerGraphWarning, match="_assert_async.msg may fail for some values"):
        fast(x)
    with pytest.raises(RuntimeError, match="too large"):
        fast(x + 1000)
    torch._dynamo.reset()
    factor = compiled(lambda x: torch.linalg.cholesky(x) * 2)
    with pytest.warns(EagerGraphWarning, match="linalg_cholesky.default may fail for some values"):
        factor(torch.eye(4))


@pytest.mark.slow
def test_a_graph_is_cut_where_it_may_fail() -> None:
    """What is around the operator is compiled; the order and the errors are torch's."""
    layer, x = nn.Linear(16, 16).eval(), torch.randn(4, 16)

    def asserting(x: Any) -> Any:
        y = torch.relu(layer(x)) * 2
        torch._assert_async((y < 100).all(), "too large")
        return torch.tanh(layer(y)) + 1

    def factored(x: Any) -> Any:
        places, values = x.topk(3)[1], x.exp()
        factor = torch.linalg.cholesky(values @ values.T + torch.eye(4))
        return factor.sum(0) * 2 + 1, places + 1

    for model, operators, reason in (
        (asserting, 8, "torch runs 1 of the 9 operators of a graph: aten._assert_async"),
        (factored, 11, "torch runs 1 of the 12 operators of a graph: aten.linalg_cholesky"),
    ):
        torch._dynamo.reset()
        _EARLIER.clear()
        _EARLIER.update(torch_graphs())
        fast = compiled(model)
        with pytest.warns(EagerGraphWarning, match=reason) as said:
            same(fast, model, x, calls=4)
        assert len(said) == 1
        [graph] = [one for one in torch_graphs() if one not in _EARLIER]
        assert graph.compiled and all(part.compiled for part in graph.parts)
        assert sum(part.operators for part in graph.parts) == operators
    torch._dynamo.reset()
    fast = compiled(asserting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerGraphWarning)
        same(fast, asserting, x, calls=3)
    with pytest.raises(RuntimeError, match="too large"):
        fast(x * 10000)


def test_indices_that_are_in_range_are_ours() -> None:
    def model(x: Any) -> Any:
        best = x.argmax(-1)
        values, places = x.topk(2)
        return x[torch.arange(4), best], x.gather(1, places), values

    same(compiled(model), model, torch.randn(4, 4))
    assert graphs() == (1, [])


def test_results_that_are_unlike_what_networks_return() -> None:
    x = torch.randn(1, 4)
    part = nn.Linear(4, 4)

    def records(x: Any) -> Any:
        with torch.enable_grad():
            return part(x) * 2

    for model in (
        lambda x: x.sum(0, keepdim=True).expand(4, -1),
        lambda x: torch.complex(x, x).abs(),
        lambda x: (x * 2).to_sparse(),
        records,
    ):
        torch._dynamo.reset()
        fast = compiled(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EagerGraphWarning)
            for _ in range(2):
                ours, theirs = fast(x), model(x)
                assert ours.requires_grad == theirs.requires_grad
                torch.testing.assert_close(ours, theirs)


def test_zeros_prove_little() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU())
    fast = compiled(model)
    same(fast, model, torch.zeros(2, 4))
    same(fast, model, torch.randn(2, 4))
    assert graphs() == (1, [])


def test_threads_that_call_at_the_same_time() -> None:
    models = [nn.Linear(8, number + 2).eval() for number in range(3)]
    torch._dynamo.reset()
    captured: list[Any] = []
    for model in models:
        torch.compile(model, backend=lambda *args: captured.append(backend(*args)) or args[0])(
            torch.randn(2, 8)
        )
    before = list(warnings.filters)
    with ThreadPoolExecutor(6) as pool:
        x = torch.randn(2, 8)

        def call(place: int) -> None:
            with torch.no_grad():
                [ours] = captured[place](*_inputs(models[place], x))
                torch.testing.assert_close(ours, models[place](x), rtol=1e-4, atol=1e-5)

        list(pool.map(call, [0, 1, 2] * 4))
    assert warnings.filters == before
    assert all(one.compiled for one in captured)


@pytest.mark.slow
def test_first_calls_of_eight_threads() -> None:
    """Torch captures one graph while another one is exported, which its state does not allow."""
    x = torch.randn(2, 8)
    models = [nn.Sequential(nn.Linear(8, 2 + k), nn.ReLU()).eval() for k in range(8)]
    barrier = threading.Barrier(8)

    def call(model: Any) -> None:
        with torch.no_grad():
            fast = compiled(model)
            barrier.wait()
            same(fast, model, x, calls=3)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, models))
    assert graphs() == (8, [])


def _inputs(model: Any, x: Any) -> tuple[Any, ...]:
    return model.weight, model.bias, x


def test_training_is_torch_s() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    with torch.enable_grad():
        fast, x = compiled(model), torch.randn(3, 8)
        with pytest.warns(EagerGraphWarning, match="it records gradients"):
            fast(x).sum().backward()
        assert model[0].weight.grad is not None
    assert graphs()[0] == 0
    same(fast, model, x)
    assert graphs()[0] == 1


def test_layouts_of_tensors() -> None:
    model = nn.Conv2d(3, 4, 3).eval()
    fast = compiled(model)
    image = torch.randn(2, 3, 8, 8)
    same(fast, model, image)
    same(fast, model, image.contiguous(memory_format=torch.channels_last))
    turned = compiled(lambda x: (x @ x).t())
    x = torch.randn(4, 4)
    for _ in range(2):
        assert turned(x).stride() == (1, 4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64])
def test_element_types(dtype: Any) -> None:
    def model(x: Any) -> Any:
        return (x * 2 + 1).sum(1)

    x = torch.arange(12).reshape(3, 4).to(dtype)
    fast = compiled(model)
    for _ in range(2):
        torch.testing.assert_close(fast(x), model(x))
    assert graphs() == (1, [])


def test_wrong_options() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    for options, message in (
        ({"trails": 3}, "no option 'trails'; options are database, trials"),
        ({"trials": -1}, "trials=-1; expected a number of trials from 0"),
        ({"target": "gpu9"}, "gpu9"),
        ({"seconds": "10"}, "seconds='10'"),
        ({"database": 3}, "database=3; expected the path of a file"),
    ):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=message):
            compiled(model, **options)(x)
    with pytest.raises(NetworkError, match="has no mode; it has options="):
        backend(None, [], mode="max-autotune")
