"""The command line: each verb is a thin shell over the public API."""

from schedlang.cli.app import main

__all__ = ["main"]
