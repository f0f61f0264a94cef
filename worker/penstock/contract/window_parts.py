"""What the parts of windows of all rows hold, and how they are put together: names and functions of columns."""

from collections.abc import Iterable

from penstock.base.errors import ConfigError
from penstock.contract.graph import Compute, Function


def _columns(compute: Compute) -> tuple[Compute, ...]:
    """Return the columns of a part from which a computed column follows."""
    if compute.function is Function.MEAN:
        sums = Compute(f"{compute.name}:sum", Function.SUM, compute.column)
        return sums, Compute(f"{compute.name}:count", Function.COUNT, compute.column)
    return (compute,)


def parts_of(compute: Iterable[Compute]) -> tuple[Compute, ...]:
    """List the columns of a part."""
    return tuple(column for each in compute for column in _columns(each))


def merged_of(compute: Iterable[Compute]) -> tuple[Compute, ...]:
    """List what is computed from the columns of parts, one column for each: counts are added up."""
    return tuple(
        Compute(part.name, Function.SUM if part.function is Function.COUNT else part.function, part.name)
        for part in parts_of(compute)
    )


def check_all(compute: Iterable[Compute]) -> None:
    """Raise ConfigError for a function whose parts cannot be put together."""
    for each in compute:
        if each.function is Function.LAST:
            raise ConfigError(f"column {each.name!r}: last: rows of several tasks have no order; use max of their time")
