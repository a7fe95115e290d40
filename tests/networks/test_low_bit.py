"""Networks with quantised weights, which stay in few bits and are unpacked in the product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.tvm.relax import low_bit_weights

models = pytest.importorskip(
    "tests.networks.models", reason="needs torch: pip install 'schedlang[torch]'"
)
torch, nn = models.torch, models.nn
K, M, GROUP = 256, 192, 32


@pytest.fixture(autouse=True)
def small_networks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of small weights read packed ones, as those of large weights do."""
    monkeypatch.setattr(low_bit_weights, "_LEAST_BYTES", 0)


def drawn(*shape: int, high: int = 16, dtype: Any = None) -> Any:
    made = torch.randint(0, high, shape, generator=torch.Generator().manual_seed(0))
    return made.to(dtype or torch.uint8)


class Nibbles(nn.Module):  # type: ignore[misc]
    """Two weights in a byte, in groups with a scale and a zero point."""

    def __init__(self, k: int = K, m: int = M) -> None:
        super().__init__()
        self.shape = m, k // GROUP, GROUP
        self.register_buffer("w", drawn(m, k // 2, high=256))
        self.register_buffer("s", models.image(m, k // GROUP, 1).abs())
        self.register_buffer("z", drawn(m, k // GROUP, 1))

    def weight(self) -> Any:
        q = torch.stack([self.w & 15, self.w >> 4], -1).reshape(self.shape)
        w = (q.to(torch.float32) - self.z.to(torch.float32)) * self.s
        return w.reshape(self.shape[0], -1)

    def forward(self, x: Any) -> Any:
        return nn.functional.linear(x, self.weight())


class Words(nn.Module):  # type: ignore[misc]
    """Eight weights in a word of 32 bits along k, as GPTQ stores them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", drawn(K // 8, M, high=2**31, dtype=torch.int32))
        self.register_buffer("z", drawn(K // GROUP, M // 8, high=2**31, dtype=torch.int32))
        self.register_buffer("s", models.image(K // GROUP, M).abs())
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32))

    def forward(self, x: Any) -> Any:
        w = torch.bitwise_right_shift(self.w[:, None], self.shifts[None, :, None]) & 15
        z = torch.bitwise_right_shift(self.z[..., None], self.shifts) & 15
        w = w.reshape(K // GROUP, GROUP, M) - z.reshape(K // GROUP, 1, M)
        return x @ (w * self.s[:, None]).reshape(K, M)


class Bytes(nn.Module):  # type: ignore[misc]
    """Weights of 8 bits with signs, and a scale for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", drawn(M, K, high=256).to(torch.int8))
        self.register_buffer("s", models.image(M, 1).abs())

    def forward(self, x: Any) -> Any:
        return x @ (self.w.to(torch.float32) * self.s).T


class FloatZeros(Nibbles):
    """Zero points that are no integers: no integer times a scale."""

    def weight(self) -> Any:
        q = torch.stack([self.w & 15, self.w >> 4], -1).reshape(self.shape)
        return (q * self.s + self.z / 3).reshape(self.shape[0], -1)


def imported(model: Any, *rows: int) -> tuple[sl.Network, Any, Any]:
    """A network, an input, and what torch computes of it."""
    x = models.image(*rows, K)
    with torch.no_grad():
        return sl.import_network(model, (x,)), x.numpy(), model(x).numpy()


def stored_bytes(network: sl.Network) -> int:
    return sum(value.nbytes for value in network.parameters.values())


LAYERS = {"nibbles": (Nibbles, 4), "words": (Words, 4), "bytes": (Bytes, 8)}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("rows", [(1,), (2, 3)])
def test_products_read_packed_weights(name: str, rows: tuple[int, ...]) -> None:
    make, bits = LAYERS[name]
    network, x, expected = imported(make(), *rows)
    [task] = network.tasks
    assert "low_bit_matmul" in task.name
    assert stored_bytes(network) <= M * K * (bits / 8 + 5 / GROUP)
    assert {1, 2} <= set(task.constants)
    found = sl.compile_network(network)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_what_follows_is_a_part_of_the_product() -> None:
    model = nn.Sequential(Nibbles(), nn.ReLU(), Nibbles(M, 64), nn.Sigmoid())
    network, x, expected = imported(model, 1)
    assert len(network.tasks) == 2
    np.testing.assert_allclose(sl.compile_network(network)(x), expected, rtol=1e-3, atol=1e-4)


def test_records_of_the_operator_fit_the_network() -> None:
    network, _, _ = imported(Nibbles(), 1)
    made = sl.workloads.quantized_matmul(1, M, K, group=GROUP, zero_points=True)
    assert network.tasks[0].workload.exact_key == made.exact_key


@pytest.mark.parametrize(
    ("make", "rows"), [(FloatZeros, 1), (Nibbles, 9), (lambda: nn.Linear(K, M), 1)]
)
def test_others_read_plain_numbers(make: Any, rows: int) -> None:
    network, x, expected = imported(make(), rows)
    assert not any("low_bit" in task.name for task in network.tasks)
    found = sl.compile_network(network)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_weights_that_two_products_share_are_stored_once() -> None:
    class Twice(Nibbles):
        def forward(self, x: Any) -> Any:
            w = self.weight()
            return nn.functional.linear(x, w) + nn.functional.linear(x.abs(), w)

    network, x, expected = imported(Twice(), 1)
    assert stored_bytes(network) <= M * K * (1 / 2 + 5 / GROUP)
    np.testing.assert_allclose(sl.compile_network(network)(x), expected, rtol=1e-3, atol=1e-3)


def test_a_weight_that_others_read_too_stays_beside_its_packed_form() -> None:
    class Both(Nibbles):
        def forward(self, x: Any) -> Any:
            w = self.weight()
            return nn.functional.linear(x, w) + (w * x.sum()).sum(1)

    network, x, expected = imported(Both(), 1)
    assert any("low_bit" in task.name for task in network.tasks)
    np.testing.assert_allclose(sl.compile_network(network)(x), expected, rtol=1e-3, atol=1e-2)


def test_it_is_tuned_and_compiled_with_packed_weights() -> None:
    network, x, expected = imported(nn.Sequential(Nibbles(), nn.ReLU()), 1)
    with sl.open_database() as database:
        sl.tune_network(network, trials=8, progress=False, database=database)
        found = sl.compile_network(network, database)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_torch_compile_takes_them() -> None:
    model = nn.Sequential(Nibbles(), nn.ReLU(), Bytes2())
    x = models.image(1, K)
    with torch.no_grad():
        found = torch.compile(model, backend="schedlang")(x)
        np.testing.assert_allclose(found, model(x), rtol=1e-3, atol=1e-3)


class Bytes2(nn.Module):  # type: ignore[misc]
    """A layer of 8 bits behind one of 4."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", drawn(64, M, high=256).to(torch.int8))
        self.register_buffer("s", models.image(64, 1).abs())

    def forward(self, x: Any) -> Any:
        return x @ (self.w.to(torch.float32) * self.s).T


def test_small_networks_read_plain_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fast caches hold takes longer to unpack than to read."""
    monkeypatch.undo()
    network, _, _ = imported(Nibbles(), 1)
    assert not any("low_bit" in task.name for task in network.tasks)
    network, _, _ = imported(nn.Sequential(Nibbles(K, 4096), nn.ReLU(), Nibbles(4096, 64)), 1)
    assert all("low_bit" in task.name for task in network.tasks)
