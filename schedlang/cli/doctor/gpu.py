"""GPUs of this machine, and the compiler for them."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.cli.doctor.check import Check


def check_gpu() -> Iterator[Check]:
    """Say which GPUs there are, and whether programs can be compiled for them."""
    from schedlang.targets.cuda import nvcc
    from schedlang.targets.cuda.device import device_count, driver_version, read_device, why_none

    devices = [read_device(number) for number in range(device_count())]
    compiler, version = nvcc.find(), nvcc.version()
    if devices:
        text = ", ".join(one.name for one in devices) + f", driver for CUDA {driver_version()}"
        yield Check("GPU", "ok", text, figures={"devices": [one.name for one in devices]})
    else:
        yield Check("GPU", "ok", f"none: {why_none()}; CPUs can be tuned", figures={"devices": []})
    figures = {"version": None if compiler is None else version}
    if compiler is not None:
        yield Check("nvcc", "ok", f"{version}, {compiler}", figures=figures)
    elif devices:
        yield Check(
            "nvcc",
            "warn",
            "none: registers and spills of candidates are not known",
            "install the CUDA toolkit, or put its bin folder on the PATH",
            figures,
        )
    else:
        yield Check("nvcc", "ok", "none: only programs for GPUs need it", figures=figures)
