"""The built-in aggregates of the Python API; each makes one computed column."""

from dataclasses import dataclass

from penstock.contract.graph import Function


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate over a column, not yet named: ``aggregate("step", total=ps.sum("x"))``."""

    function: Function
    column: str | None = None


def count(column: str | None = None) -> Aggregation:
    """Count rows, or the rows where ``column`` is not null. int64."""
    return Aggregation(Function.COUNT, column)


def sum_(column: str) -> Aggregation:
    """Add up ``column``: int64 of whole numbers, uint64 of uint64, double of floats.

    A sum of whole numbers is exact; one that leaves 64 bits is an error.
    """
    return Aggregation(Function.SUM, column)


def min_(column: str) -> Aggregation:
    """Keep the smallest value of ``column``; its type."""
    return Aggregation(Function.MIN, column)


def max_(column: str) -> Aggregation:
    """Keep the largest value of ``column``; its type."""
    return Aggregation(Function.MAX, column)


def mean(column: str) -> Aggregation:
    """Average ``column``: double; of whole numbers the exact sum is divided."""
    return Aggregation(Function.MEAN, column)


def last(column: str) -> Aggregation:
    """Keep the newest value of ``column``, in the order in which rows arrive; its type."""
    return Aggregation(Function.LAST, column)
