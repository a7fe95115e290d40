"""Programs of any extents, made from programs of some."""

from schedlang.tvm.symbolic.full_tiles import with_full_tiles
from schedlang.tvm.symbolic.served import Branching, Served, fitting, served_of, with_served
from schedlang.tvm.symbolic.unify import SymbolicProgram, UnifyError, unify

__all__ = [
    "Branching",
    "Served",
    "SymbolicProgram",
    "UnifyError",
    "fitting",
    "served_of",
    "unify",
    "with_full_tiles",
    "with_served",
]
