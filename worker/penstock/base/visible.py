"""Text of users and of their data as it may be shown: nothing in it steers a terminal.

An escape sequence in a row's value, in a message or in a path could clear a screen, hide a line or
write another one. Line ends and tabs stay.
"""

import re

# Control characters of ASCII and Latin-1, and those that turn the direction of text.
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return a text with each character that steers a terminal spelt as in a Python literal."""
    return _STEERS.sub(_spelt, text)


def _spelt(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode("ascii")
