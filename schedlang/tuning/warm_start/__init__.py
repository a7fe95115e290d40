"""What a run takes from earlier ones: traces to start from, a taught cost model, measurements."""

from schedlang.tuning.warm_start.warm_start import WarmStart

__all__ = ["WarmStart"]
