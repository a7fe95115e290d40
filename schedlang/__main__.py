"""``python -m schedlang``: the command line."""

from schedlang.cli import main

main()
