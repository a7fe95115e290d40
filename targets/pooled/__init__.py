"""Measurers with worker processes: what they have in common, whatever machine they measure on."""
