"""A table of Delta Lake as a source: the rows of its newest version, then with ``follow`` those that later ones add.

    lane 0   snapshot 7: a.parquet, d.parquet ──> version 8: g.parquet ──> ...    a split is a lane
    lane 1   snapshot 7: b.parquet ──> version 8: (none) ──> version 9: h.parquet

A file belongs to the lane of its name's hash. A lane reads its files in the order of the log, which never changes, so
its state is small: a version, the number of a file among those that the version gives the lane, and a row. The offset
of a lane counts its rows. The version of the snapshot is chosen once, and is in the state.
"""

import json
from collections import deque
from dataclasses import asdict, dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import PeerError, StateError
from penstock.base.threads import monotonic
from penstock.base.values import replace
from penstock.connectors.delta.client import DeltaPlace
from penstock.connectors.delta.table_log import LISTS_KEPT_MAX, AddedFile, TableLog
from penstock.connectors.followed_folder import LANES, name_hash
from penstock.connectors.input_files import pinned
from penstock.connectors.parquet_source import Pieces, UnpacedReader, opened, read_identity, value_type
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import Stamper, with_stamp
from penstock.contract.codec import parsed
from penstock.contract.columns import Columns
from penstock.contract.delta_options import DeltaInput
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import Read

REMEDY = "correct `table`, or make the table first"
ABSOLUTE = ("/", "file:", "s3:", "s3a:", "abfs:", "gs:")


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Where a lane reads next: row ``row`` of its file number ``file`` of ``version``."""

    lane: int
    lanes: int
    table: str
    snapshot: int
    version: int
    file: int = 0
    row: int = 0

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def parse_place(text: str) -> LanePlace:
    """Read what :meth:`LanePlace.as_json` wrote. Raises StateError on anything else."""
    try:
        return LanePlace(**parsed(text))
    except (PeerError, TypeError) as error:
        raise StateError(f"a checkpoint describes a lane of a table of Delta Lake as {text!r}: {error}") from error


class DeltaSource:
    """One table. :meth:`splits` fixes the version that is read whole."""

    def __init__(self, options: DeltaInput, columns: Columns, event_time: EventTime | None = None) -> None:
        """Look at the table. Raises ConfigError when there is none, or it cannot be read; StorageError."""
        self.follow_s = options.follow
        self.bounded = not options.follow
        self.log = table_log(options, columns)
        self._rate = int(options.rate) or None
        self._event_time = event_time
        self.schema = with_stamp(self.log.schema, event_time)

    def splits(self) -> list[SplitState]:
        """List the lanes; their number never changes. Raises StorageError."""
        version = self.log.newest(0)
        first = LanePlace(0, LANES, self.log.table_id, version, version)
        used = {_lane(file) for file in self.log.snapshot(version)}
        return [
            SplitState(
                SplitId(f"lane-{lane:02d}"),
                replace(first, lane=lane).as_json(),
                0,
                finished=self.bounded and lane not in used,
            )
            for lane in range(LANES)
        ]

    def open(self, state: SplitState) -> "DeltaLaneReader":
        """Open a lane where its state says. Raises StateError when the table is not the one that was read."""
        place = parse_place(state.spec)
        newest = self.log.newest(0)
        if place.table != self.log.table_id or place.version > newest + 1:
            raise StateError(
                f"{self.log.where} is not the one that the job has read through version {place.version - 1}: it was"
                f" made anew, or is an old copy, now at version {newest}; put the table back, or begin anew (penstock"
                " run --fresh)"
            )
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        return DeltaLaneReader(self, (state, place), stamper, RateLimit(self._rate))


def table_log(options: DeltaInput, columns: Columns) -> TableLog:
    """Look at the table that options name. Raises ConfigError when there is none, or it cannot be read."""
    return TableLog(DeltaPlace(options, REMEDY), columns, skip_changes=bool(options.skip_change_commits))


class DeltaLaneReader:
    """Reads the files of one lane, one after another, on one thread."""

    def __init__(
        self, parent: DeltaSource, place: tuple[SplitState, LanePlace], stamper: Stamper | None, pace: RateLimit
    ) -> None:
        """Begin at ``place``, a split's state and what is in it. The first read looks at the log."""
        self._log, self._every_s = parent.log, parent.follow_s
        self._state, self._place = place
        self._offset = self._state.offset
        self._files: deque[tuple[LanePlace, AddedFile]] = deque()  # those that follow the one that is read
        self._listed = self._place.version  # the first version whose files are not in ``_files`` yet
        self._rows: FileRows | None = None
        self._caught_up = False
        self._stamper = stamper
        self._pace = pace
        self._look_at = 0.0

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows, or None when there are no more now.

        Raises StateError with the version and the file, StorageError when a retry may help.
        """
        allowed = self._pace.allow(max_rows)
        if not allowed:
            return None
        while self._rows is not None or self._next_file():
            assert self._rows is not None
            batch = self._rows.take(allowed)
            if batch is not None:
                self._place = replace(self._place, row=self._place.row + batch.num_rows)
            if not self._rows.left:
                self._end_file()
            if batch is not None:
                offset, self._offset = self._offset, self._offset + batch.num_rows
                self._pace.sent(batch.num_rows)
                return Read(self._stamper.stamp(batch) if self._stamper else batch, offset)
        return None

    def state(self) -> SplitState:
        """Return where the next read begins. Only a lane without ``follow`` ends."""
        ended = self._state.finished or (self._every_s is None and self._place.version > self._place.snapshot)
        max_ts = self._stamper.max_ts if self._stamper else None
        return SplitState(self._state.split, self._place.as_json(), self._offset, ended, max_ts)

    def pending(self) -> tuple[int | None, int | None]:
        """Return the rows that are left of this lane, as of the last look at the log."""
        rows = [file.rows for _, file in self._files]
        known = [n for n in rows if n is not None]
        if not self._caught_up or len(known) < len(rows):
            return None, None
        return sum(known) + (self._rows.left if self._rows else 0), None

    def wait_s(self) -> float:
        """Return how long to wait for the next rows: until the next look at the log."""
        if self._rows is None and not self._files:
            return max(0.0, self._look_at - monotonic())
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Do nothing: a table stays."""

    def close(self) -> None:
        """Close the file. A later read opens it again."""
        if self._rows is not None:
            self._rows.close()

    def _next_file(self) -> bool:
        """Begin with the next file of this lane. Returns whether there is one."""
        if not self._files and monotonic() >= self._look_at:
            self._look()
        if not self._files:
            return False
        place, file = self._files.popleft()
        if (place.version, place.file) != (self._place.version, self._place.file):
            self._place = place
        self._rows = FileRows(self._log, file, self._place)
        return True

    def _end_file(self) -> None:
        self.close()
        self._rows = None
        self._place = replace(self._place, file=self._place.file + 1, row=0)
        if not self._files:
            self._place = replace(self._place, version=self._listed, file=0)

    def _look(self) -> None:
        """List the files of this lane in the versions that are not listed yet, of a bounded number of versions."""
        if self._every_s is None:
            newest = self._place.snapshot
        else:
            newest = self._log.newest(self._every_s if self._look_at else 0)
        last = min(newest, self._listed + LISTS_KEPT_MAX - 1)
        for version in range(self._listed, last + 1):
            is_first = version == self._place.snapshot
            found = self._log.snapshot(version) if is_first else self._log.added(version)
            mine = (file for file in found if _lane(file) == self._place.lane)
            start = replace(self._place, version=version, row=0)
            listed = [(replace(start, file=number), file) for number, file in enumerate(mine)]
            behind = self._place.file if version == self._place.version else 0
            self._files.extend(listed[behind:])
        self._listed = max(self._listed, last + 1)
        self._caught_up = last == newest
        if not self._files:
            self._place = replace(self._place, version=self._listed, file=0, row=0)
        if self._caught_up:
            self._look_at = monotonic() + (self._every_s or 0.0)


class FileRows:
    """The rows of one file, with all columns of the source. The file is checked when it is opened."""

    def __init__(self, log: TableLog, file: AddedFile, place: LanePlace) -> None:
        """Begin at a row. Raises StateError when the file is gone or another one, StorageError."""
        self._where = f"{log.where}: file {file.path} of version {place.version}"
        self._schema = log.schema
        if file.path.startswith(ABSOLUTE):
            raise StateError(
                f"{self._where} is outside of the table (a shallow clone): make a whole copy, and read that"
            )
        path = log.place.path / unquote(file.path)
        if not path.is_file():
            raise StateError(
                f"{self._where} is gone: VACUUM has removed it, or it was lost; restore it, or begin anew (penstock run"
                " --fresh), with a delta.deletedFileRetentionDuration in which the job reads what is there"
            )
        identity = read_identity(path)
        if identity.size != file.size:
            raise StateError(f"{self._where} has {identity.size} bytes, and the log says {file.size}: restore it")
        path = pinned(path, identity.version)
        stored = pq.read_schema(opened(path))
        wanted = [field for field in stored if field.name in self._schema.names and field.name not in file.partition]
        plain = pa.schema([pa.field(field.name, value_type(field.type)) for field in wanted or list(stored)[:1]])
        self._constants = {f.name: _constant(file.partition.get(f.name), f.type) for f in self._schema}
        state = SplitState(SplitId(file.path), "", place.row)
        self._reader = UnpacedReader(Pieces(path, plain), (state, identity), None, RateLimit(None))

    @property
    def left(self) -> int:
        """Return how many rows are left."""
        return self._reader.pending()[0] or 0

    def take(self, max_rows: int) -> pa.RecordBatch | None:
        """Return 1..max_rows rows; None behind the last one. Raises StateError, StorageError."""
        read = self._reader.read(max_rows)
        if read is None:
            return None
        found = read.batch
        try:
            columns = [
                found.column(field.name).cast(field.type)
                if field.name in found.schema.names
                else pa.repeat(self._constants[field.name], found.num_rows)
                for field in self._schema
            ]
        except pa.ArrowInvalid as error:
            raise StateError(f"{self._where}, behind row {read.offset}: {error}") from error
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


def _lane(file: AddedFile) -> int:
    return int(name_hash(file.path), 16) % LANES


def _constant(value: object, kind: pa.DataType) -> pa.Scalar:
    """Return a value of a partition, which Delta Lake writes as text; a null for a column that a file lacks."""
    if not isinstance(value, str):
        return pa.scalar(value, kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(value.removesuffix("Z")).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(value or None, pa.string()).cast(kind)
