"""The interface to TVM: only this package uses its scheduling and code generation APIs.

TVM renames its Python API in every release; an upgrade changes this folder only.
"""
