"""Declarations of the instructions, in groups; ``Schedule`` is made of them.

Each method declares an instruction: its signature gives the arguments, its docstring one line of
loops before and one after.
"""
