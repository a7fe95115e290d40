"""``jit``: a template of programs as a function of tensors, compiled when it is first called."""

from schedlang.just_in_time.cache_folder import JitCacheWarning
from schedlang.just_in_time.decorator import jit
from schedlang.just_in_time.function import JitFunction

__all__ = ["JitCacheWarning", "JitFunction", "jit"]
