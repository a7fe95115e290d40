"""Surveys: all programs of a space are measured."""
