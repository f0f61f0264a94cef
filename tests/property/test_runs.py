from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock_spark import runs

ROWS = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(1, 4)), max_size=30)


@given(ROWS)
def test_runs_lose_nothing(rows: list[tuple[str, int]]) -> None:
    words = pa.array([w for w, _ in rows], pa.string())
    counts = pa.array([c for _, c in rows], pa.int64())
    found = runs.runs_of(words, counts, "f", 0).to_pylist()
    for word in {w for w, _ in rows}:
        mine = sorted((r for r in found if r["word"] == word), key=lambda r: r["row"])
        spread = [c for r in mine for c in range(r["first"], r["last"] + 1)]
        assert spread == [c for w, c in rows if w == word]
        joined = [a["last"] + 1 == b["first"] for a, b in pairwise(mine)]
        assert not any(joined), "two runs that join up are one"
