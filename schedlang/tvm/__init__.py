"""The interface to TVM: only this package uses its scheduling and code generation APIs.

TVM renames its Python API in every release; an upgrade changes this folder only.
"""

from schedlang.requirements import check_tvm as _check_tvm

_check_tvm()
