"""A null in a key matches nothing, wherever the array has it."""

import numpy as np
import pyarrow as pa

from penstock.steps.joins.sides import null_keys


def test_a_null_among_the_values_of_a_dictionary_is_a_null() -> None:
    plain = pa.array(["a", None, "a"])
    of_values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    for column in (plain, plain.dictionary_encode(), of_values):
        found = null_keys([pa.array([1, 2, 3]), column])
        assert found is not None
        assert np.array_equal(found, [False, True, False])
    assert null_keys([pa.array([1, 2, 3])]) is None
