"""The built-in aggregates of the Python API; each makes one computed column."""

from dataclasses import dataclass

from penstock.contract.graph import Function


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate over a column. The keyword names it: ``aggregate("step", total=ps.sum("x"))``.

    ``column`` is None when all rows are counted.
    """

    function: Function
    column: str | None = None


def count(column: str | None = None) -> Aggregation:
    """Count rows, or only the rows in which ``column`` is not null. The result is int64."""
    return Aggregation(Function.COUNT, column)


def sum_(column: str) -> Aggregation:
    """Add up ``column``. Nulls are left out.

    The result is int64 for whole numbers, uint64 for uint64, and double for floats. A sum of whole
    numbers is exact. If it does not fit into 64 bits, the step fails.
    """
    return Aggregation(Function.SUM, column)


def min_(column: str) -> Aggregation:
    """Keep the smallest value of ``column``. The result has the type of the column."""
    return Aggregation(Function.MIN, column)


def max_(column: str) -> Aggregation:
    """Keep the largest value of ``column``. The result has the type of the column."""
    return Aggregation(Function.MAX, column)


def mean(column: str) -> Aggregation:
    """Average ``column``. The result is double. For whole numbers the exact sum is divided."""
    return Aggregation(Function.MEAN, column)


def last(column: str) -> Aggregation:
    """Keep the newest value of ``column``, in the order in which rows arrive.

    The result has the type of the column.
    """
    return Aggregation(Function.LAST, column)
