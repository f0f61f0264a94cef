"""The columns of a state table, as steps declare them and tables keep them."""

from dataclasses import dataclass, field

BYTES = "bytes"
"""The ``dtype`` of a column for values of any length, or null."""

NO_TIMER = -(1 << 63)
"""The value of a timer column for a key whose timer is not set: the least int64."""


@dataclass(frozen=True, slots=True)
class Value:
    """A state column.

    ``dtype`` is the name of a numpy type (``int64``), or ``BYTES``. With ``width`` above 1, each key
    has an array of this length. A new key begins with zeros, or with null for ``BYTES``.

    For states that evolve: a row of an older file lacks a column that was added later. It gets ``added``, if this is
    not None, else what a new key begins with; only a column of width 1 has it. ``absent`` is what null stands for in a
    column of ``BYTES`` that has a default, and None in one where null is a value.
    """

    name: str
    dtype: str
    width: int = 1
    added: int | float | bytes | None = field(default=None, compare=False)
    absent: bytes | None = field(default=None, compare=False)
