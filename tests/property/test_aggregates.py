"""Every aggregate over every accepted type is right, or raises an error with step, column and record.

The expected values are computed with integers of Python, which have no bounds, with fractions, and with
floats that are added in the order of rows.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import UserCodeError
from penstock.contract.columns import NUMERIC_TYPES, ORDERED_TYPES
from penstock.contract.graph import Compute, Function
from penstock.graph.arrow import arrow_type
from penstock.keyed_state.hot import HotTable
from penstock.steps.keyed import KeyColumns, RunningAggregate

FLOATS = ("float", "double")
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -2.5e-320, 1.8e308, 1e16, -1e16, 0.1]
LAST_DIGITS = 2.0**-51  # error of a mean: its sum and its quotient are each rounded once


def bounds(kind: pa.DataType) -> tuple[int, int]:
    """Return the smallest and largest value of a type as a whole number."""
    if pa.types.is_boolean(kind):
        return 0, 1
    if pa.types.is_time(kind):
        return 0, 86_399
    info = np.iinfo(f"u{kind.bit_width // 8}" if "uint" in str(kind) else f"i{kind.bit_width // 8}")
    return int(info.min), int(info.max)


def values_of(name: str) -> st.SearchStrategy[Any]:
    kind = arrow_type(name)
    if name == "double":
        return st.floats() | st.sampled_from(SPECIAL)
    if name == "float":
        small = [v for v in SPECIAL if not 1e38 < abs(v) < math.inf]
        return st.floats(width=32) | st.sampled_from(small).map(lambda v: float(np.float32(v)))
    low, high = bounds(kind)
    edges = st.sampled_from([low, high, low + 1, high - 1, min(high, 2**53 + 1), 0, 1])
    return edges | edges | st.integers(low, high) | st.integers(max(low, -9), min(high, 9))


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Make a column of whole numbers, as the type counts them, or of floats."""
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(
        [None if v is None else bool(v) for v in values] if pa.types.is_boolean(kind) else values,
        kind,
    )


def plain(array: pa.Array) -> list[Any]:
    """Return what the type counts: whole numbers, or floats."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return [int(v) if isinstance(v, bool) else v for v in array.to_pylist()]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Fraction):
        return abs(Fraction(found) - wanted) <= abs(wanted) * Fraction(LAST_DIGITS)
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return type(found) is type(wanted) and bool(found == wanted)


def ordered(value: Any) -> tuple[bool, Any]:
    nan = isinstance(value, float) and math.isnan(value)
    return nan, 0 if nan else value


class Model:
    """The values of one key until now."""

    def __init__(self, name: str) -> None:
        self.floating = name in FLOATS
        self.range = (0, 2**64 - 1) if name == "uint64" else (-(2**63), 2**63 - 1)
        self.rows = 0
        self.seen: list[Any] = []
        self.sum: Any = 0

    def add(self, value: Any) -> None:
        self.rows += 1
        if value is not None:
            self.sum = self.sum + value if self.seen else value
            self.seen.append(value)

    @property
    def fits(self) -> bool:
        return self.floating or self.range[0] <= self.sum <= self.range[1]

    def wanted(self, function: Function) -> Any:
        if function is Function.COUNT:
            return len(self.seen)
        if not self.seen:
            return None
        match function:
            case Function.SUM:
                return self.sum
            case Function.MEAN:
                total = self.sum / len(self.seen) if self.floating else None
                return Fraction(self.sum, len(self.seen)) if total is None else total
            case Function.LAST:
                return self.seen[-1]
            case _:  # NaN is the largest, as in Spark
                pick = min if function is Function.MIN else max
                return pick(self.seen, key=ordered)


def step_of(name: str, functions: list[Function]) -> tuple[RunningAggregate, list[pa.RecordBatch]]:
    kind = arrow_type(name)
    given_schema = pa.schema([("k", pa.int64()), ("v", kind)])
    keys = KeyColumns(given_schema, ["k"], 16)
    compute = tuple(Compute(str(f), f, "v") for f in functions)
    total = {"uint64": pa.uint64(), "float": pa.float64(), "double": pa.float64()}.get(name)
    types = {
        Function.COUNT: pa.int64(),
        Function.SUM: total or pa.int64(),
        Function.MEAN: pa.float64(),
    }
    output = pa.schema([("k", pa.int64()), *((str(f), types.get(f, kind)) for f in functions)])
    step = RunningAggregate("sums", keys, compute, (given_schema, output), HotTable)
    out: list[pa.RecordBatch] = []
    step.bind({"main": out.append})
    return step, out


@st.composite
def inputs(draw: st.DrawFn) -> tuple[str, list[Any], list[int]]:
    name = draw(st.sampled_from(ORDERED_TYPES) | st.sampled_from(("uint64", "int64", "double")))
    value = st.none() | values_of(name)
    rows = draw(st.lists(st.tuples(st.integers(0, 2), value), min_size=1, max_size=30))
    cuts = draw(st.lists(st.integers(0, len(rows)), max_size=3).map(sorted))
    return name, rows, cuts


@given(inputs())
def test_aggregates_agree_with_numbers_without_bounds(drawn: Any) -> None:
    name, rows, cuts = drawn
    kind = arrow_type(name)
    numeric = name in NUMERIC_TYPES
    functions = [f for f in Function if numeric or f not in (Function.SUM, Function.MEAN)]
    step, out = step_of(name, functions)
    models = {key: Model(name) for key, _ in rows}
    given_rows = pa.RecordBatch.from_arrays(
        [pa.array([k for k, _ in rows], pa.int64()), column([v for _, v in rows], kind)],
        names=["k", "v"],
    )
    ends = [0, *cuts, len(rows)]
    for start, stop in itertools.pairwise(ends):
        wanted = []
        fits = True
        for key, value in rows[start:stop]:
            models[key].add(value)
            fits = fits and models[key].fits
            wanted.append({str(f): models[key].wanted(f) for f in functions})
        batch = given_rows.slice(start, stop - start)
        if numeric and not fits:
            with pytest.raises(UserCodeError, match=r"step 'sums'.*column 'v' leaves 64 bits"):
                step.on_batch(batch)
            return
        step.on_batch(batch)
        found = [plain(c) for c in out.pop().columns[1:]]
        for row, values in zip(wanted, zip(*found, strict=True), strict=True):
            for function, value in zip(functions, values, strict=True):
                assert same(value, row[str(function)]), (function, name)
        if stop > start:
            check_state(step, functions, models, rows[start:stop])


def check_state(step: RunningAggregate, functions: list[Function], models: dict[int, Model], rows: list[Any]) -> None:
    """Read the state of the keys as a window does when it fires."""
    keys = sorted({key for key, _ in rows})
    encoded = step._keys.codec.keys([pa.array(keys, pa.int64())])
    computed = step._aggregates.results(step._state, step._state.rows(encoded))
    for function, array in zip(functions, computed, strict=True):
        for key, value in zip(keys, plain(array), strict=True):
            assert same(value, models[key].wanted(function)), function


def test_a_sum_of_uint64_does_not_wrap() -> None:
    step, out = step_of("uint64", [Function.SUM])
    step.on_batch(pa.record_batch({"k": [1, 1], "v": pa.array([2**63 + 5, 1], pa.uint64())}))
    assert out[0].column(1).to_pylist() == [2**63 + 5, 2**63 + 6]
    with pytest.raises(UserCodeError, match=r"9223372036854775814 \+ 9223372036854775807: .* 'v' leaves 64 bits"):
        step.on_batch(pa.record_batch({"k": [1], "v": pa.array([2**63 - 1], pa.uint64())}))


def test_a_mean_of_whole_numbers_does_not_lose_the_small_ones() -> None:
    step, out = step_of("int64", [Function.MEAN])
    step.on_batch(pa.record_batch({"k": [1] * 4, "v": [2**62, 2**62, 6, -(2**63)]}))
    assert out[0].column(1).to_pylist()[-1] == 1.5
