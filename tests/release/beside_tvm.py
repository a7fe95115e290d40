"""Call what ``export_library`` wrote with TileLang's copy of TVM; a program for TileLang's Python.

python beside_tvm.py FOLDER: which has the libraries, and the tensors that they take and write.
"""

import sys
from pathlib import Path

import numpy as np
import tilelang  # noqa: F401  (makes its TVM importable)
import tvm

folder = Path(sys.argv[1])
arrays = np.load(folder / "gemm.npz")
a, b, right = (arrays[name] for name in ("a", "b", "c"))
c = tvm.runtime.tensor(np.full_like(right, np.nan))
kernel = tvm.runtime.load_module(str(folder / "gemm_of_tvm.so"))["main"]
kernel(tvm.runtime.tensor(a), tvm.runtime.tensor(b), c)
np.testing.assert_allclose(c.numpy(), right, rtol=1e-4, atol=1e-5)

arrays = np.load(folder / "network.npz")
machine = tvm.runtime.load_module(str(folder / "network_of_tvm.so"))["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)
[output] = machine["main"](tvm.runtime.tensor(arrays["x"]))
np.testing.assert_allclose(output.numpy(), arrays["y"], rtol=1e-4, atol=1e-5)
print("TVM", tvm.__version__, "runs libraries of another TVM")
