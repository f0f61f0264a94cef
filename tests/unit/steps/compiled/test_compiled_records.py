"""Compiled loops, batch to batch over a real state table, against Python over a real state of records."""

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.keyed_state.hot import HotTable
from penstock.model.declared.field_kinds import SET, RingField, ScalarField
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.model.declared.record_types import RecordType, record_type
from penstock.model.declared.state_types import StateType, state_type
from penstock.model.declared.value_kinds import fits
from penstock.steps.base import StateSchema
from penstock.steps.compiled.building import build, write_loop
from penstock.steps.compiled.frames import CompiledRecords
from penstock.steps.compiled.function_source import RefusedError
from penstock.steps.keyed import KeyColumns
from tests.unit.steps.compiled import programs


def shape(record: type, state: type, main: type) -> FunctionTypes:
    found = record_type(record), state_type(state), record_type(main)
    assert isinstance(found[0], RecordType)
    assert isinstance(found[1], StateType)
    assert isinstance(found[2], RecordType)
    return FunctionTypes(found[0], found[2], found[1])


def state_of(types: FunctionTypes) -> StateType:
    assert types.state is not None
    return types.state


class Ring(deque[Any]):
    def append(self, value: Any) -> Any:
        fell = self[0] if len(self) == self.maxlen else 0
        super().append(programs.STATES.index(value) if isinstance(value, str) else value)
        return fell


class Reference:
    """Python with a state of plain values for each key; a record that fails leaves nothing."""

    def __init__(self, function: Any, shape: FunctionTypes) -> None:
        self.function, self.shape = function, shape
        self.state = state_of(shape)
        self.states: dict[Any, dict[str, Any]] = {}

    def first(self) -> dict[str, Any]:
        kinds = {field.name: field for field in self.state.fields}
        return {
            name: Ring(maxlen=field.kind.width) if isinstance(field.kind, RingField) else field.default
            for name, field in kinds.items()
        }

    def run(self, key: Any, values: dict[str, Any]) -> tuple[list[Any], Exception | None]:
        before = self.states.setdefault(key, self.first())
        state = type("State", (), {})()
        vars(state).update({n: Ring(v, maxlen=v.maxlen) if isinstance(v, Ring) else v for n, v in before.items()})
        made: list[Any] = []
        out = type("Out", (), {"emit": staticmethod(made.append)})
        try:
            self.function(self.shape.record.python(**values), state, out)
            self._check(vars(state))
        except (ValueError, OverflowError) as error:
            return [], error
        self.states[key] = dict(vars(state))
        return made, None

    def _check(self, values: dict[str, Any]) -> None:
        for field in self.state.fields:
            if not isinstance(field.kind, ScalarField) or (field.kind.nullable and values[field.name] is None):
                continue
            if not fits(values[field.name], field.kind.kind):
                raise ValueError(field.name)


class Both:
    """The compiled step and the reference, over the same batches."""

    def __init__(self, function: Any, shape: FunctionTypes, key: str, schema: pa.Schema) -> None:
        self.reference = Reference(function, shape)
        self.shape, self.key, self.state = shape, key, state_of(shape)
        self.keys = KeyColumns(schema, [key], 256)
        self.table = HotTable(StateSchema("s", self.keys.fields, self.state.columns))
        self.compiled = CompiledRecords(build(write_loop(function, CallShape.PROCESS, shape)), shape)
        self.failed = 0

    def run(self, batch: pa.RecordBatch) -> int:
        """Compare what each record emits; return how many rows were emitted."""
        rows = self.table.rows(self.keys.codec.keys(self.keys.of(batch)))
        assert self.compiled.reads(batch)
        calls = self.compiled.begin(batch, self.table, rows)
        values, want, at = batch.to_pylist(), [], 0
        while True:
            row = calls.next_for_python()
            want += [(n, made) for n, each in enumerate(values[at:row], at) for made in self._expected(each)]
            if row is None:
                break
            _, error = self.reference.run(values[row][self.key], values[row])
            assert error is not None, f"record {row} was given back without need"
            self.failed += 1
            at = row + 1
        emitted, emitters = calls.take("main")
        assert emitters.tolist() == [n for n, _ in want]
        assert self.shape.main is not None
        names = [field.name for field in self.shape.main.fields]
        assert emitted.to_pylist() == [{name: getattr(made, name) for name in names} for _, made in want]
        self._compare_states({v[self.key]: int(r) for v, r in zip(values, rows, strict=True)})
        return int(emitted.num_rows)

    def _expected(self, values: dict[str, Any]) -> list[Any]:
        made, error = self.reference.run(values[self.key], values)
        assert error is None, f"{values} fails in Python, and was compiled: {error}"
        return made

    def _compare_states(self, rows: dict[Any, int]) -> None:
        for key, row in rows.items():
            for field in self.state.fields:
                want, column = self.reference.states[key][field.name], self.table.column(field.name)[row]
                if isinstance(field.kind, RingField):
                    head, length = (int(self.table.column(field.name + end)[row]) for end in (".head", ".length"))
                    column = [column[(head + i) % field.kind.width] for i in range(length)]
                    assert column == list(want)
                elif want is None:
                    assert self.table.column(field.name + SET)[row] == 0
                elif self.table.column("__begun")[row] if self.state.begins else True:
                    assert column == want
                else:  # its only record failed, so the first values were undone, too
                    assert want == field.default


def test_fraud_equals_python() -> None:
    rng = np.random.default_rng(3)
    names = np.array([f"entity-{n}" for n in range(300)])
    schema = pa.schema({"entity": pa.string(), "txn": pa.string(), "state": pa.string()})
    both = Both(programs.fraud, shape(programs.Txn, programs.Seen, programs.Alert), "entity", schema)
    emitted = 0
    for _ in range(3):
        who, states = names[rng.integers(0, 300, 2000)], np.array(programs.STATES)[rng.integers(0, 18, 2000)]
        emitted += both.run(pa.record_batch([pa.array(who), pa.array(who), pa.array(states)], schema=schema))
    assert 0 < emitted < 6000
    assert both.failed == 0


def test_spike_over_a_ring_of_1000_with_nulls_equals_python() -> None:
    rng = np.random.default_rng(4)
    schema = pa.schema({"mote": pa.int64(), "value": pa.float64()})
    both = Both(programs.spike, shape(programs.Reading, programs.Window, programs.Spike), "mote", schema)
    emitted = 0
    for _ in range(3):
        values = rng.normal(20, 1, 2500)
        values[rng.random(2500) < 0.02] = 122.153
        column = pa.array(values, mask=rng.random(2500) < 0.05)
        batch = pa.record_batch([pa.array(rng.integers(0, 2, 2500)), column], schema=schema)
        emitted += both.run(batch.slice(1))  # an offset: the bitmap begins inside of a byte
    assert emitted > 0
    assert both.failed == 0


def test_a_running_count_equals_python_and_makes_room_for_long_words() -> None:
    schema = pa.schema({"word": pa.string(), "weight": pa.int64()})
    both = Both(programs.count, shape(programs.Word, programs.Counter, programs.Count), "word", schema)
    words = ["short", "ü" * 400, "", "x" * 9000] * 50
    assert both.run(pa.record_batch([pa.array(words), pa.array([1] * 200)], schema=schema)) == 200
    assert both.failed == 0


def test_an_output_grows_between_two_rows_of_a_record() -> None:
    schema = pa.schema({"word": pa.string(), "weight": pa.int64()})
    both = Both(programs.twice, shape(programs.Word, programs.Counter, programs.Count), "word", schema)
    assert both.run(pa.record_batch([pa.array(["a", "b", "c"] * 33), pa.array([1] * 99)], schema=schema)) == 198


def test_a_long_loop_over_texts_uses_no_more_of_the_stack() -> None:
    schema = pa.schema({"word": pa.string(), "weight": pa.int64()})
    both = Both(programs.searching, shape(programs.Word, programs.Counter, programs.Count), "word", schema)
    batch = pa.record_batch([pa.array(["abc", "b"]), pa.array([999_999, 0])], schema=schema)
    assert both.run(batch) == 2


def test_a_field_that_is_set_to_none_has_no_value() -> None:
    schema = pa.schema({"mote": pa.int64(), "value": pa.float64()})
    both = Both(programs.before, shape(programs.Reading, programs.Last, programs.Spike), "mote", schema)
    values = pa.array([None, 1.5, None, None, 2.5, 3.5, None])
    assert both.run(pa.record_batch([pa.array([7] * 7), values], schema=schema)) == 3
    assert both.failed == 0


def test_a_record_that_fails_late_leaves_nothing() -> None:
    rng = np.random.default_rng(5)
    schema = pa.schema({"word": pa.string(), "weight": pa.int64()})
    both = Both(programs.fragile, shape(programs.Word, programs.Counter, programs.Count), "word", schema)
    words = np.array(["no", "not", "nothing", "yes", "nut", "a"])
    for weights in ((0, 60), (-60, 60), (-(2**62), 2**62)):
        columns = pa.array(words[rng.integers(0, 6, 700)]), pa.array(rng.integers(*weights, 700))
        both.run(pa.record_batch(list(columns), schema=schema))
    assert 100 < both.failed < 2100


def test_what_is_not_known_is_refused_by_file_and_line() -> None:
    with pytest.raises(RefusedError, match=r"programs\.py:\d+: import re is not known to compiled functions"):
        write_loop(programs.matching, CallShape.PROCESS, shape(programs.Word, programs.Counter, programs.Count))


def test_a_name_of_a_ring_that_may_have_no_value_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"programs\.py:\d+: last = a ring is not known to compiled functions"):
        write_loop(programs.late_name, CallShape.PROCESS, shape(programs.Word, programs.Seen, programs.Count))


def test_a_record_is_not_taken_apart_like_a_tuple() -> None:
    """Python raises TypeError for each record, because one is no tuple."""
    with pytest.raises(RefusedError, match=r"programs\.py:\d+: \(word, n, _\) is not known to compiled functions"):
        write_loop(programs.taken_apart, CallShape.PROCESS, shape(programs.Word, programs.Counter, programs.Count))
