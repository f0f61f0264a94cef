"""Durations like ``10s`` and quantities like ``64Mi``, as Go and Kubernetes spell them.

What a user wrote is never re-formatted; these functions only read. They raise ValueError with
what was expected; the caller knows the place.
"""

import re
from decimal import Decimal

DURATION_CHARS_MAX = 32
QUANTITY_CHARS_MAX = 24
_WHOLE_AND_FRACTION = r"(\.[0-9]{1,9})?"
# Largest unit first, each once: what a user may write is bounded (a sum fits 64 bits of
# nanoseconds), and one pattern says it to Python and to the API server (RE2).
_DURATION_PARTS = tuple(
    f"([0-9]{{1,{digits}}}{_WHOLE_AND_FRACTION}{unit})"
    for unit, digits in (("d", 4), ("h", 6), ("m", 6), ("s", 9), ("ms", 12), ("us", 12))
)
DURATION_PATTERN = "0|" + "".join(f"{part}?" for part in _DURATION_PARTS)
SIGNED_DURATION_PATTERN = (
    "-?(0|"
    + "|".join(
        part + "".join(f"{later}?" for later in _DURATION_PARTS[number + 1 :])
        for number, part in enumerate(_DURATION_PARTS)
    )
    + ")"
)
QUANTITY_PATTERN = r"[0-9]{1,15}(\.[0-9]{1,6})?(Ki|Mi|Gi|Ti|k|M|G|T)?"
# Amounts of cpu, memory and the like, as Kubernetes takes them (never negative here).
RESOURCE_PATTERN = r"([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"

_DURATION_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_DURATION = re.compile(DURATION_PATTERN)
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h|d)")
_QUANTITY = re.compile(QUANTITY_PATTERN)
_QUANTITY_PART = re.compile(r"([0-9.]+)([A-Za-z]*)")
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
_RESOURCE = re.compile(RESOURCE_PATTERN)
_RESOURCE_UNIT = {
    "": Decimal(1),
    **{name: Decimal(1000) ** n for n, name in enumerate("kMGTPE", 1)},
    **{name + "i": Decimal(1024) ** n for n, name in enumerate("KMGTPE", 1)},
    **{name: Decimal(1000) ** -n for n, name in enumerate("mun", 1)},
}


def duration_us(text: str) -> int:
    """Return a duration such as ``10s``, ``1m30s`` or ``1.5h`` in whole microseconds."""
    if not text or len(text) > DURATION_CHARS_MAX or not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration: write a number and us, ms, s, m, h or d, like 10s")
    return round(sum(float(p[1]) * _DURATION_US[p[2]] for p in _DURATION_PART.finditer(text)))


def signed_duration_us(text: str) -> int:
    """Return a duration that may be negative, such as ``10m`` or ``-5m``, in whole microseconds."""
    plain = text.removeprefix("-")
    try:
        return duration_us(plain) if plain == text else -duration_us(plain)
    except ValueError:
        raise ValueError(f"{text!r} is no duration: write a number and us, ms, s, m, h or d, like 10m or -5m") from None


def duration_s(text: str) -> float:
    """Return a duration such as ``500ms`` in seconds."""
    return duration_us(text) / 1_000_000


def span_text(seconds: float) -> str:
    """Spell a duration as one would write it: ``10m``, ``1h30m``, ``2.5s``, ``200ms``."""
    left, parts = round(seconds * 1_000_000), []
    if 0 < left < 1_000_000 and left % 1_000 == 0:
        return f"{left // 1_000}ms"
    for unit in ("h", "m"):
        whole, left = divmod(left, _DURATION_US[unit])
        if whole:
            parts.append(f"{whole}{unit}")
    if left or not parts:
        parts.append(f"{left / 1_000_000:g}s")
    return "".join(parts)


def quantity_bytes(value: str | int) -> int:
    """Return a quantity such as ``64Mi``, ``1.5G`` or a plain number in bytes."""
    text = str(value)
    parts = _QUANTITY_PART.match(text)
    if parts is None or len(text) > QUANTITY_CHARS_MAX or not _QUANTITY.fullmatch(text):
        raise ValueError(f"{value!r} is no quantity: write a number and Ki, Mi, Gi, k, M or G, like 64Mi")
    return round(float(parts[1]) * _QUANTITY_UNIT[parts[2]])


def quantity_text(value: int) -> str | int:
    """Spell a quantity as one would write it: ``64Mi``, or the number where no unit fits."""
    fitting = [n for n, size in _QUANTITY_UNIT.items() if n.endswith("i") and value % size == 0]
    return f"{value // _QUANTITY_UNIT[fitting[-1]]}{fitting[-1]}" if value and fitting else value


def resource_amount(value: str) -> Decimal:
    """Return a Kubernetes amount such as ``500m``, ``2Gi`` or ``1e3`` exactly."""
    if not _RESOURCE.fullmatch(value):
        raise ValueError(f"{value!r} is no amount: write a number and a unit, like 500m or 2Gi")
    number = value.rstrip("numkMGTPEiK")
    unit = value[len(number) :]
    return Decimal(number) * _RESOURCE_UNIT[unit]
