"""Wrappers of the user's own sources and sinks: they check what could do harm, and add event time.

A user's source gives rows and offsets and does not know stamps. A user's sink never sees the hidden
columns of the engine.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from penstock.base.errors import ConfigError, ConnectorError, PenstockError, StateError
from penstock.base.user_code import named, user_traceback
from penstock.connectors.source_rows import Stamper, with_stamp
from penstock.contract.columns import HIDDEN_PREFIX
from penstock.contract.event_time import EventTime
from penstock.contract.graph import Source as SourceParameters
from penstock.contract.ids import Attempt, Epoch, TaskId
from penstock.contract.manifest import SinkHandle, SplitState, misfit
from penstock.graph.arrow import arrow_schema
from penstock.ports import (
    Found,
    InheritingSink,
    Lookup,
    LookupConnection,
    MeteredReader,
    Pending,
    PreparedSource,
    Read,
    RestingReader,
    Sink,
    SinkPublisher,
    SinkWriter,
    Source,
    SplitReader,
    WholePublisher,
)


@contextmanager
def _naming_errors(place: str) -> Iterator[None]:
    """Turn an error of a user's connector into a ConnectorError with its place and traceback.

    The attempt is given up, and the next one tries again, because something that the connector needs may
    be unavailable. Each time counts towards the limit of restarts.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        trace = user_traceback(error)
        text = f"{place}: {named(error)}" + (f"\n{trace}" if trace else "")
        raise ConnectorError(text) from error


class OwnSource:
    """A user's source, with the declared columns and event time."""

    def __init__(self, step: str, own: Source, parameters: SourceParameters) -> None:
        """Wrap ``own``. Raises ConfigError when its columns are not those declared."""
        self._step = step
        self._own = own
        self._plain = own.schema
        declared = arrow_schema(parameters.columns) if parameters.columns else own.schema
        if not self._plain.equals(declared):
            raise ConfigError(
                f"source {step!r}: it gives {_schema_text(self._plain)}, declared are {_schema_text(declared)}"
            )
        self._time = parameters.event_time
        self.bounded = own.bounded
        self.schema = with_stamp(self._plain, self._time)

    def splits(self) -> list[SplitState]:
        """List the splits. Raises ConnectorError when the user's source raises.

        Raises ConfigError when it gives anything but splits, or two splits with the same name.
        """
        with _naming_errors(f"source {self._step!r}, splits()"):
            found = list(self._own.splits())
        for other in (s for s in found if not isinstance(s, SplitState)):
            raise ConfigError(
                f"source {self._step!r}: its splits() gave {type(other).__name__}, splits() gives a"
                " list of ps.SplitState"
            )
        if wrong := next(((s, why) for s in found if (why := misfit(s))), None):
            raise ConfigError(f"source {self._step!r}: splits() gave split {str(wrong[0].split)!r}: {wrong[1]}")
        names = [s.split for s in found]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ConfigError(f"source {self._step!r}: two splits are named {twice[0]!r}")
        return found

    def prepare(self) -> None:
        """Prepare the user's source, if it is a PreparedSource."""
        if isinstance(self._own, PreparedSource):
            self._own.prepare()

    def open(self, state: SplitState) -> "OwnReader":
        """Open a split at its offset. Raises ConnectorError when the user's source raises."""
        place = f"source {self._step!r}"
        with _naming_errors(f"{place}, partition {state.split!r}, offset {state.offset}"):
            own = self._own.open(state)
        return OwnReader(place, own, self, state)

    def checked(self, batch: pa.RecordBatch, place: str) -> pa.RecordBatch:
        """Return the batch. Raises StateError when it is none, or its columns are not those of the schema."""
        if not isinstance(batch, pa.RecordBatch):
            raise StateError(f"{place}: its reader gave rows as {type(batch).__name__}, pa.RecordBatch is due")
        if not batch.schema.equals(self._plain):
            raise StateError(
                f"{place}: rows of {_schema_text(batch.schema)}, its schema is {_schema_text(self._plain)}"
            )
        return batch

    @property
    def event_time(self) -> EventTime | None:
        """The event time by which rows are stamped."""
        return self._time


class OwnReader:
    """A user's reader. It checks and stamps the rows, and checks that offsets have no gap."""

    def __init__(self, source: str, own: SplitReader, parent: OwnSource, state: SplitState) -> None:
        self._own = own
        self._resting = own if isinstance(own, RestingReader) else None
        self._parent = parent
        self._split = state.split
        self._next = state.offset
        self._place = f"{source}, partition {state.split!r}"
        time = parent.event_time
        self._stamper = Stamper(time, state.max_ts) if time is not None else None

    def read(self, max_rows: int) -> Read | None:
        """Return the next rows. They are stamped by the time that the user's reader says before it reads them.

        Raises StateError for a gap, a repeat, other columns, or a result that is no ``Read``.
        Raises ConnectorError when the user's reader raises an error of its own.
        """
        with _naming_errors(f"{self._place}, offset {self._next}"):
            if self._stamper is not None:
                self._stamper.reach(self._own.state().max_ts)
            read = self._own.read(max_rows)
        if read is not None and not isinstance(read, Read):
            raise StateError(
                f"{self._place}, offset {self._next}: its reader gave {type(read).__name__}, "
                "read() gives ps.Read or None"
            )
        if read is None:
            return None
        batch = self._parent.checked(read.batch, self._place)
        if not batch.num_rows:
            return None
        if read.offset != self._next:
            raise StateError(f"{self._place}: rows from {read.offset} on, expected {self._next}")
        self._next += batch.num_rows
        return Read(
            self._stamper.stamp(batch, self._split, read.offset) if self._stamper is not None else batch, read.offset
        )

    def state(self) -> SplitState:
        """Return where the next read begins, as the user's reader describes it.

        Raises ConnectorError when the user's reader raises, StateError when a checkpoint cannot hold what it gives.
        """
        with _naming_errors(f"{self._place}, state()"):
            own = self._own.state()
        if not isinstance(own, SplitState):
            raise StateError(f"{self._place}: its reader gave {type(own).__name__}, state() gives ps.SplitState")
        if wrong := misfit(own):
            raise StateError(f"{self._place}, state(): {wrong}")
        if own.split != self._split:
            raise StateError(f"{self._place}: its state names split {own.split!r}")
        if own.offset != self._next:
            raise StateError(f"{self._place}: its state says {own.offset}, the next row is {self._next}")
        max_ts = own.max_ts
        if self._stamper is not None:
            self._stamper.reach(max_ts)
            max_ts = self._stamper.max_ts
        return SplitState(own.split, own.spec, own.offset, own.finished, max_ts)

    def pending(self) -> tuple[int | None, int | None]:
        """Return what the user's reader has left to read, if it is a MeteredReader.

        Raises ConnectorError when it raises.
        """
        if not isinstance(self._own, MeteredReader):
            return None, None
        with _naming_errors(f"{self._place}, pending()"):
            rows, size = self._own.pending()
        return rows, size

    def wait_s(self) -> float:
        """Return for how many seconds there will be no rows; 0 when the user's reader does not say.

        Raises ConnectorError when the user's reader raises, or gives anything but a number.
        """
        if self._resting is None:
            return 0.0
        with _naming_errors(f"{self._place}, wait_s()"):
            return float(self._resting.wait_s())

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Pass on. Raises ConnectorError when the user's reader raises."""
        with _naming_errors(f"{self._place}, committed()"):
            self._own.committed(epoch, state)

    def close(self) -> None:
        """Pass on."""
        self._own.close()


class OwnSink:
    """A user's sink, which never sees hidden columns. Its errors name ``step``."""

    def __init__(self, step: str, own: Sink) -> None:
        self._step = step
        self._place = f"sink {step!r}"
        self._own = own
        self.guarantee = own.guarantee

    @property
    def publisher(self) -> "OwnPublisher":
        """The user's publisher. Raises ConnectorError when the user's sink raises."""
        with _naming_errors(self._place):
            own = self._own.publisher
            kind = OwnWholePublisher if isinstance(own, WholePublisher) else OwnPublisher
            return kind(self._place, own)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Pass on. Raises ConnectorError when the user's sink raises."""
        with _naming_errors(self._place):
            self._own.claim(job_uid, fresh)

    def inherit(self, job_uid: str, parent: str, epoch: Epoch) -> None:
        """Call ``inherit`` if the user's sink has it, ``claim`` otherwise."""
        if not isinstance(self._own, InheritingSink):
            self.claim(job_uid, False)
            return
        with _naming_errors(self._place):
            self._own.inherit(job_uid, parent, epoch)

    def sweep(self, attempt: Attempt) -> None:
        """Pass on. Raises ConnectorError when the user's sink raises."""
        with _naming_errors(self._place):
            self._own.sweep(attempt)

    def writer(self, task: TaskId, attempt: Attempt) -> "OwnWriter":
        """Make the writer of a task. Raises ConnectorError when the user's sink raises."""
        with _naming_errors(self._place):
            return OwnWriter(self._step, self._own.writer(task, attempt))

    def close(self) -> None:
        """Pass on."""
        self._own.close()


class OwnWriter:
    """A user's writer. It removes the hidden columns."""

    def __init__(self, step: str, own: SinkWriter) -> None:
        self._step = step
        self._place = f"sink {step!r}"
        self._own = own
        self.guarantee = own.guarantee

    def room(self) -> bool:
        """Pass on. Raises ConnectorError when the user's writer raises."""
        with _naming_errors(f"{self._place}, room()"):
            return self._own.room()

    def write(self, batch: pa.RecordBatch) -> None:
        """Pass on the user's columns. Raises ConnectorError when the user's writer raises."""
        names = batch.schema.names
        if any(name.startswith(HIDDEN_PREFIX) for name in names):
            batch = batch.select([name for name in names if not name.startswith(HIDDEN_PREFIX)])
        with _naming_errors(self._place):
            self._own.write(batch)

    def seal(self, epoch: Epoch, name: str) -> "OwnPending":
        """Pass on. Raises ConnectorError when the user's writer raises."""
        with _naming_errors(f"{self._place}, seal()"):
            return OwnPending(self._step, self._own.seal(epoch, name))

    def close(self) -> None:
        """Pass on."""
        self._own.close()


class OwnPending:
    """A user's output of one epoch. It checks the handle."""

    def __init__(self, step: str, own: Pending) -> None:
        self._step = step
        self._own = own

    def finish(self) -> SinkHandle | None:
        """Pass on. Raises ConnectorError when the user's code raises.

        Raises StateError when it gives something else than None or a handle of this step that a checkpoint can hold.
        """
        place = f"sink {self._step!r}, finish()"
        with _naming_errors(place):
            handle = self._own.finish()
        if handle is not None and not isinstance(handle, SinkHandle):
            raise StateError(f"{place} gave {type(handle).__name__}, finish() gives ps.SinkHandle or None")
        if handle is not None and handle.sink != self._step:
            raise StateError(f"{place} gave a handle of sink {handle.sink!r}, its sink must be {self._step!r}")
        if handle is not None and (wrong := misfit(handle)):
            raise StateError(f"{place} gave a handle: {wrong}")
        return handle


class OwnPublisher:
    """A user's publisher. Its errors name the sink."""

    def __init__(self, place: str, own: SinkPublisher) -> None:
        self._place = place
        self._own = own

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Pass on. Raises ConnectorError when the user's publisher raises."""
        with _naming_errors(f"{self._place}, publish()"):
            self._own.publish(handle, epoch)

    def discard(self, handle: SinkHandle) -> None:
        """Pass on. Raises ConnectorError when the user's publisher raises."""
        with _naming_errors(f"{self._place}, discard()"):
            self._own.discard(handle)

    def forget(self, handle: SinkHandle) -> None:
        """Pass on. Raises ConnectorError when the user's publisher raises."""
        with _naming_errors(f"{self._place}, forget()"):
            self._own.forget(handle)


class OwnWholePublisher(OwnPublisher):
    """A user's publisher that takes all handles of a task at once."""

    def publish_all(self, handles: Sequence[SinkHandle], epoch: Epoch) -> None:
        """Pass on. Raises ConnectorError when the user's publisher raises."""
        assert isinstance(self._own, WholePublisher), "OwnSink has looked"
        with _naming_errors(f"{self._place}, publish_all()"):
            self._own.publish_all(handles, epoch)


class OwnLookup:
    """A user's table that rows are looked up in."""

    def __init__(self, step: str, own: Lookup) -> None:
        self._place, self._own = f"lookup {step!r}", own

    def connect(self, keys: pa.Schema, columns: pa.Schema) -> "OwnConnection":
        """Pass on. Raises ConnectorError when the user's code raises."""
        with _naming_errors(f"{self._place}, connect()"):
            return OwnConnection(self._place, self._own.connect(keys, columns), columns)


class OwnConnection:
    """A connection to a user's table. It checks what is found."""

    def __init__(self, place: str, own: LookupConnection, columns: pa.Schema) -> None:
        self._place, self._own, self._columns = place, own, columns

    def find(self, keys: pa.RecordBatch) -> Found:
        """Pass on. Raises StateError for rows that do not fit, ConnectorError when the user's code raises."""
        with _naming_errors(f"{self._place}, find()"):
            found = self._own.find(keys)
        if not isinstance(found, Found):
            raise StateError(f"{self._place}: its find() gave {type(found).__name__}, find() gives ps.Found")
        if not found.rows.schema.equals(self._columns):
            given, due = _schema_text(found.rows.schema), _schema_text(self._columns)
            raise StateError(f"{self._place}: rows of {given}, declared are {due}")
        if len(found.keys) != found.rows.num_rows or any(not 0 <= key < keys.num_rows for key in found.keys):
            raise StateError(f"{self._place}: keys has to have the number of a key that was asked for, for each row")
        return found

    def close(self) -> None:
        """Pass on."""
        self._own.close()


def _schema_text(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} ({f.type})" for f in schema)
