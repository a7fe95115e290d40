"""Values as JSON has them."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any


def plain(value: Any) -> Any:
    """Return a value made of what JSON has.

    Records are objects with their fields, numbers that are not finite are null, and what JSON has
    nothing for is its text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {one.name: plain(getattr(value, one.name)) for one in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return str(value)
