"""How values are made that every batch makes anew, and how changed copies of values are made."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def hot_dataclass(cls: type[T]) -> type[T]:
    """Make a slotted dataclass of which every batch makes new ones; frozen, as mypy sees it.

    Not while it runs: there, freezing a class makes its ``__init__`` take three to four times as
    long, and some thirty of these are made for a batch.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


if TYPE_CHECKING:
    # Checked field by field, for dataclasses and for messages.
    from dataclasses import replace as replace  # noqa: PLC0414, TID251
else:

    def replace(value, /, **changes):
        """Return a copy of a dataclass or a message in which some fields have other values.

        It is ``copy.replace`` of Python 3.13. Raises TypeError for a field that is not there.
        """
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **changes)
        return dataclasses.replace(value, **changes)  # noqa: TID251
