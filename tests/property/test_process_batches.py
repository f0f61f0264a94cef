"""The output of a process step does not depend on where batches end or on where a crash happens.

A record is one change of its key's state, and its output spells what the function then sees: the
value it reads back, or the refusal, which it catches or leaves to the engine. The same records are
run in one batch, in any batches, and with the state written to files at a boundary, dropped and
read again.
"""

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import Call, OnError, Per
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.keyed import KeyColumns
from penstock.steps.process import ProcessStep
from penstock.steps.state_values import BatchState
from tests.support.fakes import FakeBlobStore

GROUPS = 4
ZONE = dt.timezone(dt.timedelta(hours=2))
STATE = pa.schema(
    [
        ("tiny", pa.int8()),
        ("whole", pa.int64()),
        ("unsigned", pa.uint64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("raw", pa.large_binary()),
        ("money", pa.decimal128(6, 2)),
        ("second", pa.timestamp("s")),
        ("zoned", pa.timestamp("us", "Europe/Berlin")),
        ("day", pa.date32()),
        ("clock", pa.time32("ms")),
        ("span", pa.duration("us")),
    ]
)
INPUT = pa.schema([("k", pa.string()), ("n", pa.int64())])
OUTPUT = pa.schema([("k", pa.string()), ("seen", pa.string()), ("given", pa.int16())])

LETTERS = Call("f", Per.RECORD, on_error=OnError.DEAD_LETTER)

NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.sampled_from([127, 128, -129, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 16_777_217]),
    st.floats(),
    st.sampled_from([0.6, 1e39, -0.0, 5e-324, float("nan"), float("inf")]),
    st.booleans(),
    st.sampled_from([np.int8(5), np.float32(0.1), np.float64(1.5), np.bool_(True)]),
)
OTHERS = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.just("\ud800"),
    st.binary(max_size=3),
    st.just(bytearray(b"ab")),
    st.decimals(allow_nan=True, places=None, min_value=-99_999, max_value=99_999)
    | st.sampled_from([Decimal("1.005"), Decimal("NaN"), Decimal("1E+2")]),
    st.datetimes(timezones=st.sampled_from([None, ZONE, dt.UTC])),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.just([1]),
)
NAMES = st.sampled_from([*STATE.names, "undeclared"])
CHANGES = st.tuples(
    st.sampled_from(["set", "set", "add", "del", "pop", "update", "clear", "read", "give"]),
    NAMES,
    NUMBERS | OTHERS,
)
RECORDS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), CHANGES), min_size=1, max_size=25)


def change(state: Any, what: str, name: str, value: Any) -> Any:
    match what:
        case "set":
            state[name] = value
        case "add":
            state[name] += value
        case "del":
            del state[name]
        case "pop":
            return state.pop(name)
        case "update":
            state.update({"whole": 1, name: value})
        case "clear":
            state.clear()
        case "read":
            return state.get(name)
    return None


def spelled(state: Any) -> str:
    return str([(name, type(value).__name__, repr(value)) for name, value in state.items()])


class Life:
    """A step whose state is in memory. After a crash it continues from the files of its last commit."""

    def __init__(self, changes: list[Any], *, catches: bool) -> None:
        def step(record: dict[str, Any], state: Any) -> list[dict[str, Any]]:
            what, name, value = changes[record["n"]]
            try:
                read = change(state, what, name, value)
            except (KeyError, TypeError, ValueError, ArithmeticError) as error:
                if not catches:
                    raise
                read = f"{type(error).__name__}: {error}"
            given = value if what == "give" and not catches else 0
            return [{"k": record["k"], "seen": f"{read!r} {spelled(state)}", "given": given}]

        self._function = step
        self._blobs = FakeBlobStore()
        self._epoch = itertools.count(1)
        self._files: Any = ()
        self.out: list[Any] = []
        self.letters: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._state = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
        keys = KeyColumns(INPUT, ["k"], GROUPS)
        self._step = ProcessStep("own", keys, LETTERS, self._function, (STATE, OUTPUT))
        self._step.open(self._state.open)

        def emit(batch: pa.RecordBatch) -> None:
            self.out.extend(batch.to_pylist())

        def refuse(batch: pa.RecordBatch) -> None:
            self.letters.extend(batch.to_pylist())

        self._step.bind({"main": emit, "dead-letter": refuse})
        self._state.load(self._files, self._blobs)

    def take(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._step.on_batch(rows)

    def commit(self) -> None:
        epoch = Epoch(next(self._epoch))
        cut = self._state.flip(epoch)
        while not self._state.copy_on():
            pass
        self._files = cut.write(lambda suffix: BlobName(f"{epoch}-{id(cut)}{suffix}"), self._blobs)
        self._state.committed(epoch)
        self.committed = len(self.out), len(self.letters)

    def crash(self) -> None:
        self._state.close()
        del self.out[self.committed[0] :], self.letters[self.committed[1] :]
        self._begin()


def rows(records: list[Any]) -> pa.RecordBatch:
    keys = pa.array([k for k, _ in records], pa.string())
    return pa.record_batch([keys, pa.array(range(len(records)), pa.int64())], schema=INPUT)


@given(RECORDS, st.booleans(), st.data())
def test_any_cut_and_any_crash_give_the_same_output(records: list[Any], catches: bool, data: Any) -> None:
    given_rows, changes = rows(records), [c for _, c in records]
    whole = Life(changes, catches=catches)
    whole.take(given_rows)
    assert len(whole.out) + len(whole.letters) == len(records)
    ends = st.lists(st.integers(0, len(records)), max_size=6).map(sorted)
    cuts = [0, *data.draw(ends, label="batches end at"), len(records)]
    at = data.draw(st.sampled_from(cuts), label="a checkpoint at")
    lost = data.draw(st.sampled_from([c for c in cuts if c >= at]), label="a crash at")
    life = Life(changes, catches=catches)
    for start, stop in itertools.pairwise(c for c in cuts if c <= at):
        life.take(given_rows.slice(start, stop - start))
    life.commit()
    for start, stop in itertools.pairwise([at, *(c for c in cuts if at < c <= lost)]):
        life.take(given_rows.slice(start, stop - start))
    life.crash()
    for start, stop in itertools.pairwise([at, *(c for c in cuts if c > at)]):
        life.take(given_rows.slice(start, stop - start))
    assert life.out == whole.out
    assert life.letters == whole.letters


def array_of(values: list[Any]) -> Any:
    """Return what a batch function might store: an array of numpy or Arrow, or the list."""
    try:
        return pa.array(values)
    except (pa.ArrowException, ValueError, OverflowError):
        return values


@given(
    st.sampled_from(STATE.names),
    st.lists(NUMBERS, min_size=2, max_size=2) | st.lists(OTHERS, min_size=2, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_a_stored_array_is_read_back_as_the_next_batch_reads_it(
    name: str, values: list[Any], as_array: bool, forget: bool
) -> None:
    seen: list[Any] = []
    refusals: list[str] = []

    def function(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        if batch["n"][0].as_py() == 0:
            try:
                state[name] = array_of(values) if as_array else values
            except (TypeError, ValueError) as error:
                refusals.append(str(error))
            if forget:
                state.delete([True, False])
        seen.append(pa.array(state[name]))
        return pa.RecordBatch.from_pylist([], OUTPUT)

    state = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
    keys = KeyColumns(INPUT, ["k"], GROUPS)
    step = ProcessStep("own", keys, Call("f", Per.BATCH), function, (STATE, OUTPUT))
    step.open(state.open)
    step.bind({"main": lambda _: None})
    for n in range(2):
        step.on_batch(pa.record_batch([["a", "b"], [n, n]], schema=INPUT))
    assert all(name in refusal for refusal in refusals), "the column is named"
    for reads in zip(*seen, strict=True):
        assert repr(reads[0].as_py()) == repr(reads[1].as_py())
