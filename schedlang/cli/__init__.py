"""The command line: each verb is a thin shell over the public API.

Nothing here imports TVM, torch or altair before a verb needs it, so that ``--help`` and completion
answer at once.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with the words of this process."""
    try:
        from schedlang.cli.app import main as run
    except KeyboardInterrupt:
        print("schedlang: interrupted", file=sys.stderr)
        sys.exit(130)
    run()
