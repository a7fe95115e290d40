"""``jit``: a template of programs as a function of tensors, compiled when it is first called."""

from schedlang.errors import JitCacheWarning
from schedlang.just_in_time.jit_function import JitFunction, jit

__all__ = ["JitCacheWarning", "JitFunction", "jit"]
