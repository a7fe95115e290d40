"""What the measurer does not see through yet: the name of each program, and why.

A test of each is expected to fail, so that this list cannot outlive the hole.
"""

from __future__ import annotations

_ONE_SIGN = "no draw has a whole row of negative numbers"
_RARE_TRUTH = "half of the drawn truth values are True: a long row is never all True or all False"
_LAST = "no draw makes a single element decide"

OPEN: dict[str, str] = {
    "computes only over NaN": "outputs hold NaN before each call that is compared",
    "an input changed and restored": "inputs are compared after a call, when they are right again",
    "maximum starts at zero": _ONE_SIGN,
    "maximum of 1000 starts at zero": _ONE_SIGN,
    "maximum without its last": _LAST,
    "all without the last": _LAST,
    "any without the last": _LAST,
    "all of the first half": _RARE_TRUTH,
    "all is False": _RARE_TRUTH,
    "any is True": _RARE_TRUTH,
    "last of a million terms dropped": "one term of a million is within the tolerance",
    "epsilon outside the root": "no draw has small numbers only",
    "halves rounded away from zero": "no draw has halves",
    "int64 in int32": "integers of a product stay below 2**31, so that it does not overflow",
    "uint32 compared as signed": "integers beside a product stay below 2**31",
}
