"""Values that every batch makes anew are values like all others."""

import copy

import pytest

from penstock.base.values import hot_dataclass


@hot_dataclass
class Place:
    """Two numbers."""

    row: int
    column: int = 0


def test_a_hot_dataclass_compares_and_hashes_by_its_fields() -> None:
    assert Place(1) == Place(1, 0) == copy.deepcopy(Place(1))
    assert Place(1) != Place(1, 2)
    assert {Place(1), Place(1, 0), Place(2)} == {Place(1), Place(2)}
    assert str(Place(1)) == "Place(row=1, column=0)"


def test_a_hot_dataclass_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        object.__setattr__(Place(1), "depth", 3)
