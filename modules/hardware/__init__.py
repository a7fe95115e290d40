"""Modules for one instruction set each, and the operand layout that dot-product sets share."""
