"""``jit``: a template of programs as a function of tensors, compiled when it is first called."""

from schedlang.just_in_time.jit_function import JitFunction, jit
from schedlang.just_in_time.kernel_cache import JitCacheWarning

__all__ = ["JitCacheWarning", "JitFunction", "jit"]
