"""The age of an answer counts from the moment at which the first row of its second was due."""

import numpy as np
import pyarrow as pa

from bench.answers import REPORTS_PER_S, ages_of


def test_ages_of_answers_in_two_files() -> None:
    second = np.repeat(np.arange(3), REPORTS_PER_S)  # each second has the rows of a second
    times = [second, np.repeat(np.arange(6), REPORTS_PER_S // 2)]  # the second expressway has half as many
    early = pa.table({"XWay": [0, 0, 1], "Time": [0, 2, 4]})
    late = pa.table({"XWay": [1], "Time": [5]})
    ages = ages_of({"early": early, "late": late}, {"early": 103.0, "late": 104.5}, times, 100.0)
    assert ages.tolist() == [3.0, 1.0, 1.0, 2.0]
