"""What the engine makes of a user's source and sink: stamps, checks, and nothing hidden shown."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, ConnectorError, StateError, StorageError
from penstock.base.values import replace
from penstock.connectors.own import OwnPending, OwnSink, OwnSource, OwnWriter
from penstock.contract.columns import Column
from penstock.contract.event_time import EventTime
from penstock.contract.graph import Connector, Source
from penstock.contract.ids import Attempt, Epoch, SplitId
from penstock.contract.manifest import SinkHandle, SplitState
from penstock.ports import Read
from penstock.steps.base import BOUND_COLUMN
from tests.support.task_harness import handle

TIMED = pa.schema([("ts", pa.timestamp("us"))])
FIRST = SplitState(SplitId("a"), "{}", 0)


@dataclass
class Reader:
    """Gives what it was told to."""

    reads: list[Read]
    now: SplitState
    closed: bool = False

    def read(self, max_rows: int) -> Read | None:
        if not self.reads:
            return None
        read = self.reads.pop(0)
        self.now = replace(self.now, offset=read.offset + read.batch.num_rows)
        return read

    def state(self) -> SplitState:
        return self.now

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@dataclass
class Own:
    """A source of one split."""

    reads: list[Read]
    schema: pa.Schema = TIMED
    bounded: bool = True
    names: list[str] = field(default_factory=lambda: ["a"])

    def splits(self) -> list[SplitState]:
        return [replace(FIRST, split=SplitId(n)) for n in self.names]

    def open(self, state: SplitState) -> Reader:
        return Reader(self.reads, state)


def times(*micros: int) -> pa.RecordBatch:
    return pa.record_batch({"ts": pa.array(micros, pa.timestamp("us"))})


def source(*reads: Read, time: EventTime | None = None, **more: Any) -> OwnSource:
    return OwnSource("mine", Own(list(reads), **more), Source(Connector("python"), (), time))


class SlowOwn(Own):
    """A source that gets ready first."""

    prepared = 0

    def prepare(self) -> None:
        self.prepared += 1


def test_a_source_that_takes_long_may_get_ready() -> None:
    slow, declared = SlowOwn([]), Source(Connector("python"), (), None)
    OwnSource("own", slow, declared).prepare()
    OwnSource("own", Own([]), declared).prepare()  # has nothing to prepare
    assert slow.prepared == 1


class Resting(Reader):
    """Says for how long it has no rows."""

    rest: Any = 0.25

    def wait_s(self) -> Any:
        return self.rest


def test_a_reader_that_knows_when_its_rows_come_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source().open(FIRST).wait_s() == 0.0, "it does not say"
    monkeypatch.setattr(Own, "open", lambda own, state: Resting(own.reads, state))
    assert source().open(FIRST).wait_s() == Resting.rest
    monkeypatch.setattr(Resting, "rest", "soon")
    with pytest.raises(ConnectorError, match=r"source 'mine', partition 'a', wait_s\(\): ValueError: .*'soon'"):
        source().open(FIRST).wait_s()


def test_rows_are_stamped_with_the_largest_time_before_them() -> None:
    made = source(Read(times(50, 40), 0), Read(times(70), 2), time=EventTime("ts", 10))
    reader = made.open(FIRST)
    stamps = []
    while (read := reader.read(10)) is not None:
        assert read.batch.schema == made.schema
        stamps += read.batch.column(BOUND_COLUMN).to_pylist()
    assert stamps == [-(2**63), 40, 40]
    assert reader.state() == replace(FIRST, offset=3, max_ts=70)


def test_rows_are_stamped_with_a_time_that_no_row_has_and_the_source_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "open", lambda own, state: Reader(own.reads, replace(state, max_ts=90)))
    read = source(Read(times(50, 40), 0), time=EventTime("ts", 10)).open(FIRST).read(10)
    assert read is not None
    assert read.batch.column(BOUND_COLUMN).to_pylist() == [80, 80]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (Read(times(1), 5), "source 'mine', partition 'a': rows from 5 on, expected 0"),
        (Read(pa.record_batch({"x": [1]}), 0), r"rows of x \(int64\), its schema is ts"),
    ],
)
def test_a_reader_that_breaks_its_promise_is_named(read: Read, message: str) -> None:
    with pytest.raises(StateError, match=message):
        source(read).open(FIRST).read(10)


def test_rows_that_are_no_batch_are_refused_by_name() -> None:
    table: Any = pa.table({"ts": times(1)["ts"]})
    with pytest.raises(StateError, match=r"partition 'a': its reader gave rows as Table, pa\.RecordBatch is due"):
        source(Read(table, 0)).open(FIRST).read(10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec": {"size": 3}}, r"partition 'a', state\(\): its spec is dict, str is due"),
        ({"offset": np.int64(0)}, r"state\(\): its offset is int64, int is due"),
        ({"finished": None}, r"state\(\): its finished is NoneType, bool is due"),
        ({"split": SplitId("b")}, "partition 'a': its state names split 'b'"),
    ],
)
def test_a_state_that_no_checkpoint_can_hold_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        OwnSource("mine", Changed([], change=change), Source(Connector("python"), ())).open(FIRST).state()


@dataclass
class Changed(Own):
    """A source whose readers give a wrong state."""

    change: dict[str, Any] = field(default_factory=dict)

    def splits(self) -> list[SplitState]:
        return [replace(FIRST, **self.change)]

    def open(self, state: SplitState) -> Reader:
        return Reader(self.reads, replace(state, **self.change))


def test_splits_that_no_checkpoint_can_hold_are_refused_by_name() -> None:
    own = OwnSource("mine", Changed([], change={"split": Path("a.log")}), Source(Connector("python"), ()))
    with pytest.raises(ConfigError, match=r"splits\(\) gave split 'a\.log': its split is PosixPath, str is due"):
        own.splits()


def test_columns_other_than_declared_are_refused() -> None:
    declared = Source(Connector("python"), (Column("t", "string"),))
    with pytest.raises(ConfigError, match=r"gives ts \(timestamp\[us\]\), declared are t"):
        OwnSource("mine", Own([]), declared)


def test_two_splits_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two splits are named 'a'"):
        source(names=["a", "b", "a"]).splits()


def test_a_sink_never_sees_hidden_columns() -> None:
    class Writer:
        guarantee = "none"

        def __init__(self) -> None:
            self.names: list[str] = []

        def write(self, batch: pa.RecordBatch) -> None:
            self.names += batch.schema.names

    own: Any = Writer()
    OwnWriter("sink 'out'", own).write(pa.record_batch({"x": [1], BOUND_COLUMN: [2]}))
    assert own.names == ["x"]


def test_a_reader_that_raises_is_named_with_its_place() -> None:
    class Broken(Reader):
        def read(self, max_rows: int) -> Read | None:
            if self.now.offset:
                raise KeyError("gone")
            return super().read(max_rows)

    class Owner(Own):
        def open(self, state: SplitState) -> Reader:
            return Broken(self.reads, state)

    own = Owner([Read(times(1, 2), 0)])
    reader = OwnSource("mine", own, Source(Connector("python"), (), None)).open(FIRST)
    assert reader.read(10) is not None
    with pytest.raises(StorageError, match="source 'mine', partition 'a', offset 2: KeyError"):
        reader.read(10)


def test_a_source_that_cannot_open_is_named_with_its_place_and_its_line() -> None:
    class Owner(Own):
        def open(self, state: SplitState) -> Reader:
            raise RuntimeError("no connection")

    place = "source 'mine', partition 'a', offset 0: RuntimeError: no connection\n"
    with pytest.raises(StorageError, match=place) as raised:
        OwnSource("mine", Owner([]), Source(Connector("python"), (), None)).open(FIRST)
    assert 'raise RuntimeError("no connection")' in str(raised.value)


def test_a_reader_that_gives_something_else_than_rows_is_named() -> None:
    given: Any = {"ts": []}

    class Wrong(Reader):
        def read(self, max_rows: int) -> Read | None:
            return given  # type: ignore[no-any-return]

    class Owner(Own):
        def open(self, state: SplitState) -> Reader:
            return Wrong([], state)

    reader = OwnSource("mine", Owner([]), Source(Connector("python"), (), None)).open(FIRST)
    with pytest.raises(StateError, match=r"offset 0: its reader gave dict, read\(\) gives"):
        reader.read(10)


def test_a_sink_that_raises_is_named_with_its_line() -> None:
    class Writer:
        guarantee = "none"

        def write(self, batch: pa.RecordBatch) -> None:
            raise ValueError("cannot write this")

        def seal(self, epoch: Epoch, name: str) -> None:
            raise ValueError("cannot cut")

    own: Any = Writer()
    writer = OwnWriter("out", own)
    with pytest.raises(StorageError, match="sink 'out': ValueError: cannot write") as raised:
        writer.write(times(1))
    assert 'raise ValueError("cannot write this")' in str(raised.value)
    with pytest.raises(StorageError, match=r"sink 'out', seal\(\): ValueError: cannot cut"):
        writer.seal(Epoch(1), "x")


class Cut:
    """A cut whose end is what it was given: a handle, something else, or an error."""

    def __init__(self, end: Any) -> None:
        self.end = end

    def finish(self) -> SinkHandle | None:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end  # type: ignore[no-any-return]


def finish(end: Any) -> SinkHandle | None:
    return OwnPending("out", Cut(end)).finish()


def test_output_that_cannot_be_staged_is_named_with_the_users_line() -> None:
    with pytest.raises(ConnectorError, match=r"sink 'out', finish\(\): KeyError: 'no bucket'") as raised:
        finish(KeyError("no bucket"))
    assert "raise self.end" in str(raised.value)
    with pytest.raises(StorageError, match=r"^away$") as away:
        finish(StorageError("away"))
    assert not isinstance(away.value, ConnectorError), "it is tried again without an end"


def test_a_handle_is_one_of_its_sink() -> None:
    good = handle(1)
    assert OwnPending(good.sink, Cut(good)).finish() is good
    assert finish(None) is None
    with pytest.raises(StateError, match=r"sink 'out', finish\(\) gave str"):
        finish("file")
    with pytest.raises(StateError, match="gave a handle of sink 'other', its sink must be 'out'"):
        finish(replace(good, sink="other"))
    data: Any = {"file": "a"}
    with pytest.raises(StateError, match=r"sink 'out', finish\(\) gave a handle: its data is dict, str is due"):
        finish(replace(good, data=data))


def test_a_publisher_that_raises_is_named_with_its_call() -> None:
    class Shut:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def call(*_: object) -> None:
                raise LookupError(f"no {name}")

            return call

    class Folder:
        guarantee = "none"
        publisher = Shut()

    folder: Any = Folder()
    publisher = OwnSink("out", folder).publisher
    calls: dict[str, Callable[[], None]] = {
        "publish": lambda: publisher.publish(handle(1), Epoch(1)),
        "discard": lambda: publisher.discard(handle(1)),
        "forget": lambda: publisher.forget(handle(1)),
    }
    for name, call in calls.items():
        with pytest.raises(ConnectorError, match=rf"sink 'out', {name}\(\): LookupError: no {name}"):
            call()


@dataclass
class Claiming:
    """A sink that notes how it was taken."""

    guarantee: str = "none"
    taken: list[tuple[object, ...]] = field(default_factory=list)

    def claim(self, job_uid: str, fresh: bool) -> None:
        self.taken.append(("claim", job_uid, fresh))


@dataclass
class Inheriting(Claiming):
    """One that knows about lines of jobs."""

    def inherit(self, job_uid: str, parent: str, epoch: Epoch) -> None:
        self.taken.append(("inherit", job_uid, parent, epoch))


def test_a_sink_that_can_inherit_gets_the_parent_job() -> None:
    plain, line = Claiming(), Inheriting()
    for own in (plain, line):
        OwnSink("out", own).inherit("me", "parent", Epoch(40))  # type: ignore[arg-type]
    assert plain.taken == [("claim", "me", False)]
    assert line.taken == [("inherit", "me", "parent", 40)]


def test_splits_that_raise_are_named_with_the_users_lines_and_tried_again() -> None:
    class Away(Own):
        def splits(self) -> list[SplitState]:
            raise KeyError("no catalogue")

    own = OwnSource("mine", Away([]), Source(Connector("python"), ()))
    with pytest.raises(StorageError) as caught:
        own.splits()
    first, *trace = str(caught.value).splitlines()
    assert first == "source 'mine', splits(): KeyError: 'no catalogue'"
    assert trace[0].startswith("Traceback of your code")
    assert all("penstock/connectors" not in line for line in trace)


def test_values_that_are_no_splits_are_refused() -> None:
    class Names(Own):
        def splits(self) -> Any:
            return ["a"]

    own = OwnSource("mine", Names([]), Source(Connector("python"), ()))
    with pytest.raises(ConfigError, match=r"its splits\(\) gave str"):
        own.splits()


def test_a_sink_that_cannot_take_its_folder_is_named() -> None:
    class Shut:
        guarantee = "none"

        def claim(self, _uid: str, _fresh: bool) -> None:
            raise RuntimeError("shut")

        def sweep(self, _attempt: int) -> None:
            raise RuntimeError("shut")

    shut: Any = Shut()
    sink = OwnSink("out", shut)
    calls: list[Callable[[], None]] = [
        lambda: sink.claim("u", True),
        lambda: sink.inherit("u", "parent", Epoch(1)),
        lambda: sink.sweep(Attempt(1)),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="sink 'out': RuntimeError: shut"):
            call()
