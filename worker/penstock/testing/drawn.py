"""Rows that Hypothesis draws for the fields of a record."""

from typing import TYPE_CHECKING, Any

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.model.declared.record_types import record_type
from penstock.model.declared.value_kinds import Binary, Boolean, Choice, Floating, Instant, Text, ValueKind, Whole

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TIME_MOST_US = 4_102_444_800_000_000  # the year 2100


def rows(record: type, *, max_rows: int = 20, **fields: Any) -> "SearchStrategy[list[Any]]":
    """Return a strategy of Hypothesis that draws lists of at most ``max_rows`` objects of a ``ps.record``.

    ``fields`` are strategies for some of its fields: ``rows(Txn, entity=st.sampled_from(["a", "b"]))``. Without one, a
    field has any value of its type; a text is short, and a time is between 1970 and 2100. Raises ConfigError for
    a class that is no record, and for a field of another type than numbers, bool, str, bytes, ``ps.Enum``
    and ``ps.Time`` that has no strategy.
    """
    try:
        from hypothesis import strategies as st  # noqa: PLC0415  a test needs it, a job does not
    except ImportError:
        raise ConfigError("rows are drawn by Hypothesis, which is not installed: pip install hypothesis") from None
    found = record_type(record)
    if found is None:
        raise ConfigError(f"rows: {record!r} is no ps.record")
    names = [field.name for field in found.fields]
    for name in fields:
        if name not in names:
            raise ConfigError(f"rows: {unknown('field', name, names)}")
    drawn: dict[str, SearchStrategy[Any]] = {}
    for field in found.fields:
        values = fields[field.name] if field.name in fields else _values(field.kind)
        if values is None:
            raise ConfigError(f"rows: give a strategy for {field.name}: rows({found.name}, {field.name}=...)")
        drawn[field.name] = st.none() | values if field.nullable and field.name not in fields else values
    return st.lists(st.builds(record, **drawn), max_size=max_rows)


def _values(kind: ValueKind) -> "SearchStrategy[Any] | None":
    from hypothesis import strategies as st  # noqa: PLC0415  a test needs it, a job does not

    match kind:
        case Whole(least=least, most=most):
            return st.integers(-9, 9).filter(lambda n: n >= least) | st.integers(least, most)
        case Floating(bits=bits):
            return st.floats(width=64 if bits == 64 else 32)
        case Boolean():
            return st.booleans()
        case Text():
            return st.text(max_size=9)
        case Binary():
            return st.binary(max_size=9)
        case Choice(values=values):
            return st.sampled_from(values)
        case Instant():
            return st.integers(0, TIME_MOST_US)
        case _:
            return None
