"""Durations like ``10s`` and quantities like ``64Mi``, as Go and Kubernetes spell them.

What a user wrote is never re-formatted; these functions only read. They raise ValueError with
what was expected; the caller knows the place.
"""

import re

_DURATION_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_QUANTITY_UNIT = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def duration_us(text: str) -> int:
    """Return a duration such as ``10s``, ``1m30s`` or ``1.5h`` in whole microseconds."""
    if text == "0":
        return 0
    position = 0
    total = 0.0
    for part in _DURATION_PART.finditer(text):
        if part.start() != position:
            break
        total += float(part[1]) * _DURATION_US[part[2]]
        position = part.end()
    if position == 0 or position != len(text):
        raise ValueError(f"{text!r} is no duration: write a number and us, ms, s, m or h, like 10s")
    return round(total)


def duration_s(text: str) -> float:
    """Return a duration such as ``500ms`` in seconds."""
    return duration_us(text) / 1_000_000


def quantity_bytes(value: str | int) -> int:
    """Return a quantity such as ``64Mi``, ``1.5G`` or a plain number in bytes."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(
            f"{value!r} is no quantity: write a number and Ki, Mi, Gi, k, M or G, like 64Mi"
        )
    return round(float(match[1]) * _QUANTITY_UNIT[match[2] or ""])
