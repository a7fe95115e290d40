"""The one door to TVM: every scheduling and codegen API of TVM is used from this package only.

TVM renames its Python API in every release; an upgrade touches this folder and nothing else.
"""
