"""Typed values to plain data, by the same tables of fields as the reader: its inverse."""

from collections.abc import Iterable

from penstock.contract.reader import pruned
from penstock.contract.schema import MESSAGE_CHARS_MAX, Kind, Plain, Row

CLIPPED = " [...]"


def plain_object(row: Row, value: object) -> dict[str, Plain]:
    """Spell the attributes of ``value`` under the names of ``row.fields``; None is left out.

    Raises ValueError for a value that no reader would take, like a list that is too long.
    """
    members = ((f, getattr(value, f.target)) for f in row.fields)
    return {f.name: _plain(f, member) for f, member in members if member is not None}


def _plain(row: Row, value: object) -> Plain:
    match row.kind, value:
        case Kind.OBJECT, _:
            return plain_object(row, value)
        case Kind.LIST, tuple():
            return _list(row, value)
        case Kind.DURATION_S, float() | int():
            return duration_text(value)
        case Kind.TEXT | Kind.CHOICE, str():
            return clipped(str(value), row.length_max)
        case Kind.INTEGER | Kind.NUMBER | Kind.BOOLEAN, bool() | int() | float():
            return value
    raise ValueError(f"{row.name}: a {row.kind} is not written from {type(value).__name__}")


def _list(row: Row, values: Iterable[object]) -> list[Plain]:
    item = row.item()
    items = [_plain(item, value) for value in values]
    if len(items) > row.length_max:
        raise ValueError(f"{row.name} has {len(items)} items; at most {row.length_max} fit")
    return items


def carried(row: Row, old: Plain, new: dict[str, Plain]) -> dict[str, Plain]:
    """Return ``new`` with the fields of ``old`` that ``row`` does not know.

    A part whose known fields are as they were keeps the unknown ones, too.
    """
    if not isinstance(old, dict):
        return new
    rows = {f.name: f for f in row.fields}

    def stays(name: str, value: Plain) -> bool:
        same = isinstance(value, dict) and name in rows
        return name not in rows or (same and pruned(rows[name], value) == new.get(name))

    return {**new, **{name: value for name, value in old.items() if stays(name, value)}}


def clipped(text: str, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    """Shorten a text that is too long, so that one can see it was."""
    return text if len(text) <= chars_max else text[: chars_max - len(CLIPPED)] + CLIPPED


def duration_text(seconds: float) -> str:
    """Spell seconds as a duration, to the microsecond: ``0.25s``."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
