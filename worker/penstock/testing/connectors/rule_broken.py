"""What all checks share: the error that names a rule, and the comparison of rows."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

ROWS_SHOWN_MAX = 3


class RuleBroken(AssertionError):
    """A connector breaks a rule. The text begins with the name of the rule."""

    def __init__(self, rule: str, found: str) -> None:
        super().__init__(rule, found)  # as it is made, so that another process can hand it over
        self.rule = rule

    def __str__(self) -> str:
        return ": ".join(self.args)


def must(holds: object, rule: str, found: str) -> None:
    """Raise RuleBroken unless ``holds``."""
    if not holds:
        raise RuleBroken(rule, found)


def counted(rows: Iterable[Any]) -> Counter[str]:
    """Count rows by their values; the order of columns does not matter."""
    return Counter(repr(sorted(row.items())) for row in rows)


def shown(rows: Counter[str]) -> str:
    """Spell how many rows there are, and the first of them."""
    first = ", ".join(list(rows)[:ROWS_SHOWN_MAX])
    return f"{rows.total()} rows, {first}" + (" ..." if len(rows) > ROWS_SHOWN_MAX else "")
