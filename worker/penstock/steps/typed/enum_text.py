"""Texts of ``ps.Enum`` as functions get them: ordinary texts that also have their code.

A state keeps the code. So ``s.last.append(r.state)`` fits a ``Ring[ps.int8, 5]`` without a look-up.
"""

from collections.abc import Mapping
from functools import cache


class EnumText(str):
    """A text of an Enum. ``code`` is its place among the texts of the Enum, from 0."""

    __slots__ = ("code",)
    code: int


@cache
def enum_texts(values: tuple[str, ...]) -> Mapping[str, EnumText]:
    """Return the texts of an Enum by themselves, in the order of their codes."""
    found = {}
    for code, text in enumerate(values):
        found[text] = made = EnumText(text)
        made.code = code
    return found
