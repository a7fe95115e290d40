"""Checking the settings that a search is made with."""

from __future__ import annotations


def check_setting(fits: bool, name: str, value: object, wanted: str) -> None:
    """Raise a ValueError that names the setting, its value and what is wanted, unless it fits."""
    if not fits:
        raise ValueError(f"{name}={value!r}: give {wanted}")
