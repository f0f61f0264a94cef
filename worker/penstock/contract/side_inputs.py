"""Side inputs: tables that each task of a step has a copy of."""

from typing import Annotated

from penstock.contract.codec import Message
from penstock.contract.manifest import child_state
from penstock.contract.schema import Field


class SideTable(Message, tag="SideTable"):
    """Passes the rows of a table through one task, which sends them to all tasks of its readers in one order."""

    on: Annotated[tuple[str, ...], Field("keys", "key columns: a row replaces the one with the same key")]
    load_first: Annotated[
        bool, Field("loadFirst", "rows of the steps that read the table wait until it is loaded to its end")
    ] = False
    load_until: Annotated[
        str | None, Field("loadUntil", "rows of these steps wait until the table is loaded up to this event time")
    ] = None

    @property
    def loads_first(self) -> bool:
        """Return whether rows wait for the table."""
        return self.load_first or self.load_until is not None


def copy_state(table: str, reader: str) -> str:
    """Name the state of the copies that the tasks of ``reader`` have of a side table."""
    return child_state(table, reader)
