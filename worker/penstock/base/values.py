"""How values are made that every batch makes anew."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def hot_dataclass(cls: type[T]) -> type[T]:
    """Make a slotted dataclass of which every batch makes new ones; frozen, as mypy sees it.

    Not while it runs: there, freezing a class makes its ``__init__`` take three to four times as
    long, and some thirty of these are made for a batch.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
