"""Plain data to typed values and back, by the rows of :mod:`penstock.contract.schema`.

Reading is strict, and finds all problems at once. Each problem names its place: ``origin`` maps a
path like ``spec.job.graph.steps[1].split`` to ``file:line``, or to the ``--set`` that wrote the
value. A path that is not in ``origin`` has the place of its parent.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.units import duration_s, duration_us, quantity_bytes
from penstock.contract.schema import MESSAGE_CHARS_MAX, FieldRow, Kind, Plain

T = TypeVar("T")
PROBLEMS_SHOWN_MAX = 20
CLIPPED = " [...]"  # ends a text that was too long
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)
WHOLE_FLOAT_MAX = 2.0**53  # above it a float has lost digits


@dataclass(frozen=True, slots=True)
class Origin:
    """Where values were written. ``places`` maps a path to ``file:line``."""

    file: str = "the object"
    places: Mapping[str, str] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """Return the place of ``path``, or of its nearest ancestor that has one."""
        while path:
            if path in self.places:
                return self.places[path]
            cut = max(path.rfind("."), path.rfind("["))
            path = path[:cut] if cut > 0 else ""
        return self.places.get("", self.file)


class _Bad:
    """Stands for a value with a problem. No object is built from it."""


_BAD: Final = _Bad()


class Reader:
    """Collects problems while it reads; :meth:`done` raises them together.

    With ``cluster`` the fields that a cluster needs must be there. With ``lenient`` another version
    may have written the data: an unknown value of an enumeration stays a text, and a value that
    cannot be read counts as left out.
    """

    def __init__(self, origin: Origin, *, cluster: bool = False, lenient: bool = False) -> None:
        """Start without problems."""
        self.origin = origin
        self.cluster = cluster
        self.lenient = lenient
        self.problems: list[str] = []

    def complain(self, path: str, text: str) -> None:
        """Add a problem at ``path``."""
        self.problems.append(f"{self.origin.at(path)}: {path}: {text}" if path else f"{self.origin.at(path)}: {text}")

    def done(self) -> None:
        """Raise ConfigError with every problem, one a line; do nothing when there are none."""
        if self.problems:
            shown = self.problems[:PROBLEMS_SHOWN_MAX]
            hidden = len(self.problems) - len(shown)
            raise ConfigError("\n".join(shown + ([f"... and {hidden} more"] if hidden else [])))

    def whole(self, kind: type[T], row: FieldRow, plain: Plain, path: str = "") -> T:
        """Read a whole value. Raises ConfigError with every problem, one a line."""
        value = self.read(row, plain, path)
        self.done()
        assert isinstance(value, kind), "a reader without problems builds the value"
        return value

    def read(self, row: FieldRow, plain: Plain, path: str) -> object:
        """Read one value by its row. Returns a placeholder after a complaint; see :meth:`done`."""
        match row.kind:
            case Kind.OBJECT:
                return self._object(row, plain, path)
            case Kind.LIST:
                return self._list(row, plain, path)
            case Kind.TEXT_MAP:
                return self._text_map(row, plain, path)
            case Kind.OPEN if not isinstance(plain, dict):
                return self._bad(path, f"expected an object, got {shown(plain)}")
            case Kind.OPEN | Kind.ANY:
                return plain
            case _:
                return self._scalar(row, plain, path)

    # --- objects ------------------------------------------------------------------------------

    def _object(self, row: FieldRow, plain: Plain, path: str) -> object:
        if not isinstance(plain, dict):
            return self._bad(path, f"expected an object, got {shown(plain)}")
        before = len(self.problems)
        rows = {f.name: f for f in row.fields}
        for name in plain:
            if name not in rows:
                self.complain(_join(path, str(name)), unknown("field", str(name), rows))
        if len(self.problems) == before:  # a misspelt name is not also reported as a missing field
            self._check_one_of(row, plain, path)
        values = {f.target: self._member(f, plain, path) for f in row.fields}
        if len(self.problems) > before or row.make is None:
            return _BAD
        return self._make(row.make, values, path)

    def _make(self, make: Callable[..., object], values: dict[str, object], path: str) -> object:
        try:
            return make(**values)
        except ConfigError as error:
            return self._bad(path, str(error))

    def _member(self, row: FieldRow, plain: dict[str, Plain], path: str) -> object:
        value = plain.get(row.name)
        if value is None:
            if row.required or (self.cluster and row.cluster_required):
                return self._bad(path, f"field {row.name!r} is missing: {row.meaning}")
            value = row.default
        if value is None:
            return {Kind.LIST: (), Kind.TEXT_MAP: {}}.get(row.kind)
        before = len(self.problems)
        found = self.read(row, value, _join(path, row.name))
        if self.lenient and len(self.problems) > before and not row.required:
            del self.problems[before:]
            return self._member(row, {}, path)
        return found

    def _check_one_of(self, row: FieldRow, plain: dict[str, Plain], path: str) -> None:
        given = [name for name in row.one_of if plain.get(name) is not None]
        if row.one_of and len(given) != 1:
            choices = ", ".join(row.one_of)
            got = "none is there" if not given else f"{' and '.join(given)} are there"
            self.complain(path, f"exactly one of {choices} is needed; {got}")

    def _list(self, row: FieldRow, plain: Plain, path: str) -> object:
        if not isinstance(plain, list):
            return self._bad(path, f"expected a list, got {shown(plain)}")
        item = row.item()
        if self.lenient:
            return self._readable(item, plain[: row.length_max])
        if len(plain) > row.length_max:
            return self._bad(path, f"has {len(plain)} items; at most {row.length_max} are allowed")
        values = [self.read(item, v, f"{path}[{i}]") for i, v in enumerate(plain)]
        self._check_keys(row, plain, path)
        return tuple(values)

    def _readable(self, item: FieldRow, plain: list[Plain]) -> tuple[object, ...]:
        """Read the items that can be read, and leave out the others."""
        values = []
        for one in plain:
            before = len(self.problems)
            value = self.read(item, one, "")
            if len(self.problems) == before:
                values.append(value)
            del self.problems[before:]
        return tuple(values)

    def _check_keys(self, row: FieldRow, plain: list[Plain], path: str) -> None:
        seen: dict[Plain, int] = {}
        for i, item in enumerate(plain):
            key = item.get(row.key) if row.key and isinstance(item, dict) else None
            key = item if row.unique else key
            if isinstance(key, str) and seen.setdefault(key, i) != i:
                place = self.origin.at(f"{path}[{seen[key]}]")
                what = f"{row.key} {key!r}".strip()
                self.complain(f"{path}[{i}]", f"{what} is there twice (first at {place})")

    def _text_map(self, row: FieldRow, plain: Plain, path: str) -> object:
        if not isinstance(plain, dict):
            return self._bad(path, f"expected an object, got {shown(plain)}")
        if len(plain) > row.length_max:
            return self._bad(path, f"has {len(plain)} items; at most {row.length_max} are allowed")
        values = {str(name): _whole(value) for name, value in plain.items()}
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, str | int):
                where = _join(path, name)
                self.complain(
                    where,
                    f"expected a text or a whole number, got {shown(value)}: put it in quotes",
                )
            else:
                self.read(row.item(), str(value), _join(path, name))
        return {name: str(value) for name, value in values.items()}

    # --- scalars ------------------------------------------------------------------------------

    def _scalar(self, row: FieldRow, plain: Plain, path: str) -> object:
        if self.lenient and row.kind is Kind.CHOICE and isinstance(plain, str):
            known = plain in row.choices and row.make is not None
            return row.make(plain) if known and row.make is not None else plain
        try:
            value = _SCALARS[row.kind](row, plain)
            _check_bounds(row, value)
        except ValueError as error:
            return self._bad(path, str(error))
        return value

    def _bad(self, path: str, text: str) -> _Bad:
        self.complain(path, text)
        return _BAD


def read_known(kind: type[T], row: FieldRow, plain: Plain) -> T:
    """Read an object that another version may have written, like a status. None is an empty one.

    Fields that this version does not know are left out. Values that it does not know stay texts. A
    field that cannot be read counts as left out.
    """
    known = pruned(row, plain or {})
    return Reader(Origin(row.name), lenient=True).whole(kind, row, known, row.name)


def shown(plain: Plain) -> str:
    """Show a value in a message: shortened, or only its type."""
    kinds = {dict: "an object", list: "a list", type(None): "nothing", bool: "a boolean"}
    value = repr(plain)
    return kinds.get(type(plain)) or (value if len(value) <= 40 else value[:37] + "...")


def pruned(row: FieldRow, plain: Plain) -> Plain:
    """Return ``plain`` without the fields that ``row`` does not know, at any depth."""
    if isinstance(plain, list) and row.fields:
        item = row.item()
        return [pruned(item, value) for value in plain]
    if isinstance(plain, dict) and row.fields:
        rows = {f.name: f for f in row.fields}
        return {name: pruned(rows[name], v) for name, v in plain.items() if name in rows}
    return plain


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _text(row: FieldRow, plain: Plain) -> str:
    if not isinstance(plain, str):
        raise ValueError(f"expected a text, got {shown(plain)}{_hint(row, plain)}")
    if len(plain) > row.length_max:
        raise ValueError(f"has {len(plain)} characters; at most {row.length_max} are allowed")
    if len(plain) < row.length_min:
        raise ValueError("is empty")
    if row.pattern and not re.fullmatch(row.pattern, plain):
        hidden = row.secret or ("://" in plain and "@" in plain)  # an address with a user may have a password
        given = "the text, not shown here," if hidden else repr(plain)
        raise ValueError(f"{given} does not fit: {row.rule or row.pattern}")
    return plain


def _hint(row: FieldRow, plain: Plain) -> str:
    """Say how the value is written as a text; empty where that is not known."""
    if isinstance(plain, bool | int | float):
        return ": put it in quotes"
    if isinstance(plain, list) and "with commas between" in row.rule:
        items = [item for item in plain if isinstance(item, str) and not row.secret]
        example = f": '{','.join(items)}'" if items and len(items) == len(plain) else ""
        return f": it is one text, with commas between{example}"
    return ""


def _whole(plain: Plain) -> Plain:
    """Return 2.0 as 2, as kubectl does before it sends an object."""
    if isinstance(plain, float) and plain.is_integer() and abs(plain) <= WHOLE_FLOAT_MAX:
        return int(plain)
    return plain


def _integer(row: FieldRow, plain: Plain) -> int:
    plain = _whole(plain)
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise ValueError(f"expected a whole number, got {shown(plain)}")
    if not INTEGER_MIN <= plain <= INTEGER_MAX:
        raise ValueError(f"{plain} does not fit 64 bits")
    return plain


def _number(row: FieldRow, plain: Plain) -> float:
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise ValueError(f"expected a number, got {shown(plain)}")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"expected a finite number, got {plain}")
    return float(plain)


def _boolean(row: FieldRow, plain: Plain) -> bool:
    if not isinstance(plain, bool):
        raise ValueError(f"expected true or false, got {shown(plain)}")
    return plain


def _duration_s(row: FieldRow, plain: Plain) -> float:
    return duration_s(_duration_text(plain))


def _duration_us(row: FieldRow, plain: Plain) -> int:
    return duration_us(_duration_text(plain))


def _duration_text(plain: Plain) -> str:
    if not isinstance(plain, str):
        raise ValueError(f"expected a duration like 10s, got {shown(plain)}")
    return plain


def _quantity(row: FieldRow, plain: Plain) -> int:
    plain = _whole(plain)
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise ValueError(f"expected a quantity like 64Mi, got {shown(plain)}")
    return quantity_bytes(plain)


def _choice(row: FieldRow, plain: Plain) -> object:
    if not isinstance(plain, str) or plain not in row.choices:
        raise ValueError(unknown("value", str(plain), [str(c) for c in row.choices]))
    return plain if row.make is None else row.make(plain)


_SCALARS: Final[dict[Kind, Callable[[FieldRow, Plain], object]]] = {
    Kind.TEXT: _text,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
    Kind.DURATION_S: _duration_s,
    Kind.DURATION_US: _duration_us,
    Kind.QUANTITY: _quantity,
    Kind.CHOICE: _choice,
}


def _check_bounds(row: FieldRow, value: object) -> None:
    """Compare a value with the bounds of its row, which are written as in the file."""
    read = _SCALARS[row.kind]
    for bound, word, wrong in ((row.minimum, "least", -1), (row.maximum, "most", 1)):
        if bound is not None and _compare(value, read(row, bound)) == wrong:
            raise ValueError(f"must be at {word} {bound}")


def _compare(a: object, b: object) -> int:
    assert isinstance(a, int | float)
    assert isinstance(b, int | float)
    return (a > b) - (a < b)


# --- Typed values to plain data ---------------------------------------------------------------


def plain_object(row: FieldRow, value: object) -> dict[str, Plain]:
    """Write the attributes of ``value`` under the names of ``row.fields``, without those that are None.

    Raises ValueError for a value that a reader would refuse, like a list that is too long.
    """
    members = ((f, getattr(value, f.target)) for f in row.fields)
    return {f.name: _plain(f, member) for f, member in members if member is not None}


def _plain(row: FieldRow, value: object) -> Plain:
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


def _list(row: FieldRow, values: Iterable[object]) -> list[Plain]:
    item = row.item()
    items = [_plain(item, value) for value in values]
    if len(items) > row.length_max:
        raise ValueError(f"{row.name} has {len(items)} items; at most {row.length_max} fit")
    return items


def carried(row: FieldRow, old: Plain, new: dict[str, Plain]) -> dict[str, Plain]:
    """Return ``new`` with the fields of ``old`` that ``row`` does not know.

    An object inside of it keeps its unknown fields while its known fields stay the same.
    """
    if not isinstance(old, dict):
        return new
    rows = {f.name: f for f in row.fields}

    def stays(name: str, value: Plain) -> bool:
        same = isinstance(value, dict) and name in rows
        return name not in rows or (same and pruned(rows[name], value) == new.get(name))

    return {**new, **{name: value for name, value in old.items() if stays(name, value)}}


def clipped(text: str, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    """Shorten a text that is too long; :data:`CLIPPED` at its end shows that."""
    return text if len(text) <= chars_max else text[: chars_max - len(CLIPPED)] + CLIPPED


def duration_text(seconds: float) -> str:
    """Spell seconds as a duration, to the microsecond: ``0.25s``."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
