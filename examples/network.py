"""Tune a small residual network on this CPU, compile it, and compare it with where it started.

It needs no framework: the network is written in Relax, with random weights. With PyTorch, give
``import_network`` the model instead: see README.md.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

import schedlang as sl

SIZE, CLASSES = 56, 10
STAGES = ((32, 1), (64, 2), (128, 2))  # channels and stride of each residual block


def residual_network(seed: int = 0) -> IRModule:
    """Return an image classifier: a convolution, three residual blocks, a mean, a dense layer."""
    rng, op = np.random.default_rng(seed), relax.op
    builder = relax.BlockBuilder()

    def weight(*shape: int) -> Any:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        return relax.const((scale * rng.standard_normal(shape)).astype("float32"))

    def convolution(x: Any, inputs: int, outputs: int, kernel: int, stride: int) -> Any:
        weights = weight(outputs, inputs, kernel, kernel)
        x = op.nn.conv2d(x, weights, strides=stride, padding=kernel // 2)
        return builder.emit(op.add(x, weight(1, outputs, 1, 1)))

    image = relax.Var("image", relax.TensorType((1, 3, SIZE, SIZE), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            channels = STAGES[0][0]
            value = builder.emit(op.nn.relu(convolution(image, 3, channels, 3, 1)))
            for outputs, stride in STAGES:
                straight = convolution(value, channels, outputs, 1, stride)
                value = builder.emit(op.nn.relu(convolution(value, channels, outputs, 3, stride)))
                value = builder.emit(op.add(convolution(value, outputs, outputs, 3, 1), straight))
                value, channels = builder.emit(op.nn.relu(value)), outputs
            means = builder.emit(op.mean(value, axis=(2, 3)))
            scores = builder.emit(op.matmul(means, weight(channels, CLASSES)))
            output = builder.emit_output(op.nn.softmax(scores))
        builder.emit_func_output(output)
    return builder.get()


def milliseconds(run: Callable[[], Any], calls: int = 30) -> float:
    """Return the median time of a call."""
    samples = []
    for _ in range(calls):
        started = time.perf_counter()
        run()
        samples.append(time.perf_counter() - started)
    return 1e3 * statistics.median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=160, help="candidates of all tasks together")
    parser.add_argument("--database", default="network.db", help="where measurements are kept")
    options = parser.parse_args()

    network = sl.import_network(residual_network(), name="residual network")
    print(network)
    image = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype("float32")
    untuned = sl.compile_network(network)  # default schedules: nothing was measured
    result = sl.tune_network(network, trials=options.trials, database=options.database)
    print(f"\n{result}\n")
    tuned = result.compile()  # raises where its outputs are not those of the original
    print(tuned.verify())
    unscheduled = network.compile()
    print(
        f"unscheduled {milliseconds(lambda: unscheduled([image]), 5):.2f} ms, "
        f"default schedules {milliseconds(lambda: untuned(image)):.2f} ms, "
        f"tuned {milliseconds(lambda: tuned(image)):.2f} ms"
    )
    print(f"{options.database} keeps every measurement: the same command with more trials goes on.")


if __name__ == "__main__":
    main()
