"""A table as a source: the rows of its newest version, then with ``follow`` those that later versions add.

    lane 0   snapshot 7: a.parquet, d.parquet ──> version 8: g.parquet ──> ...    a split is a lane
    lane 1   snapshot 7: b.parquet ──> version 8: (none) ──> version 9: h.parquet

A lane reads its files in the order of the log, which never changes, so its state is small: a version, the number of a
file among those that the version gives the lane, and a row. The version of the snapshot is chosen once, and is in the
state.
"""

from collections.abc import Sequence

from penstock.base.errors import StateError
from penstock.base.threads import monotonic
from penstock.base.values import replace
from penstock.connectors.lanes import LANES, LaneReader, lane_of, name_hash
from penstock.connectors.source_rows import with_stamp
from penstock.connectors.tables.file_rows import FileRows
from penstock.connectors.tables.lane_place import LanePlace, parse_place
from penstock.connectors.tables.table_log import FRESH, AddedFile, TableLog
from penstock.contract.event_time import EventTime
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState


class TableSource:
    """One table. :meth:`splits` fixes the version that is read whole."""

    def __init__(self, log: TableLog, follow_s: float | None, rate: int, event_time: EventTime | None) -> None:
        """Read the table of ``log``. ``rate`` bounds the rows per second of each lane; 0: as fast as possible."""
        self.log = log
        self.follow_s = follow_s
        self.bounded = not follow_s
        self.rate = rate or None
        self.event_time = event_time
        self.schema = with_stamp(log.schema, event_time)

    def splits(self) -> list[SplitState]:
        """List the lanes; their number never changes. Raises StorageError."""
        version = self.log.newest()
        first = LanePlace(0, LANES, self.log.table_id, version, version)
        used = {_lane(file) for file in self.log.files(version, whole=True)}
        return [
            SplitState(
                SplitId(f"lane-{lane:02d}"),
                replace(first, lane=lane).as_json(),
                0,
                finished=self.bounded and lane not in used,
            )
            for lane in range(LANES)
        ]

    def open(self, state: SplitState) -> "TableLane":
        """Open a lane where its state says.

        Raises StateError when the table is not the one that was read, or ``follow`` was given or taken away too late.
        """
        place = parse_place(state.spec)
        self._check_follow(state, place)
        self.log.check(place)
        return TableLane(self, state, place)

    def _check_follow(self, state: SplitState, place: LanePlace) -> None:
        """Refuse to leave rows out: a lane that has ended reads nothing more, and one that follows ends at once."""
        if self.follow_s and state.finished:
            raise StateError(
                f"{self.log.where}: the job has read {state.split} to its end without `follow`, so it would leave out"
                f" the rows that come later: take `follow` away, or {FRESH}"
            )
        if not self.follow_s and not state.finished and place.behind_snapshot:
            raise StateError(
                f"{self.log.where}: the job has read {state.split} into versions behind {place.snapshot}, with"
                f" `follow`, and without it would end anywhere in them: give `follow` again, or {FRESH}"
            )


class TableLane(LaneReader[tuple[LanePlace, AddedFile], FileRows]):
    """Reads the files of one lane. A file that waits has the place of its first row."""

    def __init__(self, parent: TableSource, state: SplitState, place: LanePlace) -> None:
        """Begin at ``place``, which is in the split's state. The first read looks at the log."""
        super().__init__(state, parent.event_time, parent.rate)
        self._log, self._every_s = parent.log, parent.follow_s
        self._place = place
        self._listed = place  # the files behind it are neither read nor waiting
        self._caught_up = False

    def state(self) -> SplitState:
        """Return where the next read begins. Only a lane without ``follow`` ends."""
        ended = self._begun.finished or (self._every_s is None and self._place.behind_snapshot)
        return SplitState(self._begun.split, self._place.as_json(), self._offset, ended, self._max_ts)

    def pending(self) -> tuple[int | None, int | None]:
        """Return the rows that are left of this lane, as of the last look at the log."""
        rows = [file.rows for _, file in self._files]
        known = [n for n in rows if n is not None]
        if not self._caught_up or len(known) < len(rows):
            return None, None
        return sum(known) + (self._rows.left if self._rows else 0), None

    def _open(self, file: tuple[LanePlace, AddedFile]) -> FileRows:
        begin, added = file
        if (begin.version, begin.file) != (self._place.version, self._place.file):
            self._place = begin
        return self._log.open(added, self._place)

    def _took(self, rows: FileRows, count: int) -> None:
        self._place = replace(self._place, row=self._place.row + count)
        if rows.ended:
            self._place = replace(self._place, file=self._place.file + 1, row=0) if self._files else self._listed

    def _look(self) -> None:
        """List the files of this lane in the versions that are not listed yet, of a bounded number of versions."""
        versions: Sequence[int]
        if self._every_s is None:
            versions, self._caught_up = [] if self._place.behind_snapshot else [self._place.snapshot], True
        else:
            versions, self._caught_up = self._log.versions(self._listed, self._every_s if self._look_at else 0.0)
        for version in versions:
            begin = replace(self._place, version=version, file=0, row=0, whole=False)
            found = self._log.files(version, whole=version == begin.snapshot)
            mine = enumerate(file for file in found if _lane(file) == begin.lane)
            read = self._place.file if version == self._place.version else 0
            self._files.extend((replace(begin, file=number), file) for number, file in mine if number >= read)
            self._listed = self._log.behind(begin)
        if not self._files:
            self._place = self._listed
        if self._caught_up:
            self._look_at = monotonic() + (self._every_s or 0.0)


def _lane(file: AddedFile) -> int:
    return lane_of(name_hash(file.path))
