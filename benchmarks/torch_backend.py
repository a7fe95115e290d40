"""Small models through ``torch.compile(backend="schedlang")``: right, and by whose kernels.

Forty models of a few operators, with random weights, nothing tuned. Each is called three times; the
calls after the first, which is torch's own, are compared with eager torch. "ours" counts the
operators of torch's graphs that schedlang's kernels run. The seven networks of ``networks.py`` have
the backend among their sides. Target: all models agree with eager.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from _results import store
from backend_rows.small_models import MODELS, Make

from schedlang.networks import EagerGraphWarning, torch_graphs
from schedlang.networks.torch_backend import backend

_CALLS = 3
_TOLERANCE = 1e-4


def row_of(name: str, make: Make) -> dict[str, Any]:
    """Call a model, and return what there is to know of it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    earlier = set(torch_graphs())
    model, arguments = make()
    model.eval()
    fast = torch.compile(model, backend=backend)
    started = time.perf_counter()
    agrees, error = True, ""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerGraphWarning)
        expected = model(*arguments)
        try:
            for _ in range(_CALLS):
                torch.testing.assert_close(
                    fast(*arguments), expected, rtol=_TOLERANCE, atol=_TOLERANCE
                )
        except Exception as raised:  # of any part
            agrees, error = False, f"{type(raised).__name__}: {raised}".splitlines()[0]
    graphs = [one for one in torch_graphs() if one not in earlier]
    return {
        "model": name,
        "agrees": agrees,
        "error": error,
        "graphs": len(graphs),
        "operators": sum(one.operators for one in graphs),
        "ours": sum(one.operators for one in graphs if one.compiled),
        "eager": [one.eager for one in graphs if one.eager],
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="every fifth model")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    names = [*MODELS][:: 5 if given.quick else 1]
    rows = []
    print(f"{'model':24}{'agrees':>8}{'graphs':>8}{'operators':>11}{'ours':>6}{'s':>7}")
    for name in names:
        row = row_of(name, MODELS[name])
        rows.append(row)
        agrees = "yes" if row["agrees"] else "NO"
        print(
            f"{name:24}{agrees:>8}{row['graphs']:8}{row['operators']:11}{row['ours']:6}"
            f"{row['seconds']:7.1f}",
            flush=True,
        )
        for reason in [row["error"], *row["eager"]]:
            if reason:
                print(f"    {reason[:120]}")
    operators, ours = (sum(row[key] for row in rows) for key in ("operators", "ours"))
    agree = sum(row["agrees"] for row in rows)
    print(f"{agree} of {len(rows)} agree; {ours} of {operators} operators ran in our kernels")
    if given.json is not None:
        document = {"rows": rows}
        store(document, given.json)


if __name__ == "__main__":
    main()
