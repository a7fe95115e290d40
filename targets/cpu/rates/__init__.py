"""What the CPU of this machine reaches, as measured: arithmetic, and copies of memory."""

from schedlang.targets.cpu.rates.copying import measured_copy
from schedlang.targets.cpu.rates.peak import sampled_peak

__all__ = ["measured_copy", "sampled_peak"]
