"""A sum of 128 bits becomes the nearest double, as Python's ``float`` of the same whole number."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.kernels.aggregate import wide_sums

LOW = (1 << 64) - 1


@given(st.integers(-(2**127), 2**127 - 1) | st.integers(-70, 70).map(lambda n: n * 2**63 + n))
@example(-(2**63) - 1025)  # both halves, rounded apart, gave the double above
@example(2**64 + 2**11)  # half way between two doubles
@example(2**64 + 2**11 + 1)
@example(-(2**64))
@example(-(2**127))
@example(2**63)
def test_a_sum_of_128_bits_becomes_the_nearest_double(total: int) -> None:
    low = np.array([total & LOW], np.uint64).view(np.int64)
    rounded = np.empty(1)
    wide_sums((low, np.array([total >> 64], np.int64)), rounded)
    assert rounded[0] == float(total)
