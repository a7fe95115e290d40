"""The command line: each verb is a thin shell over the public API.

Nothing here imports TVM, torch or altair before a verb needs it, so that ``--help`` and completion
answer at once.
"""

from schedlang.cli.app import main

__all__ = ["main"]
