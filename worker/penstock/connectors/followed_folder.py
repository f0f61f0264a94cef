"""A folder of text files that grows: files are read as they come, without an end.

    lane 0   a.jsonl ──> d.jsonl ──> ...        a split is a lane; a file belongs to the lane of its name's hash
    lane 1   b.jsonl ──> ...

A lane reads one file after the other, in the order of the names that are there. Its state has the file that is
being read with the place of the next row, and a short hash of the name of each file that it has read and
that is still in the folder. So a file is read once, whatever its name is; and a file that was read and is
then removed leaves the state. The offset of a lane counts its rows.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.base.threads import monotonic
from penstock.base.values import replace
from penstock.connectors.input_files import InputPath, Passed, StoredPath, list_input, nothing_to_read
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import Stamper, with_stamp
from penstock.connectors.text_lines import PACKED, LinePlace
from penstock.connectors.text_source import (
    TextForm,
    TextRows,
    check_text_files,
    open_rows,
    read_text_identity,
    spell_spec,
)
from penstock.contract.codec import parsed
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import Read

LANES = 16
HASH_CHARS = 16


@dataclass(frozen=True, slots=True)
class LaneState:
    """What a lane has read: hashes of the names of whole files, and the file that is being read."""

    lane: int
    lanes: int
    read: frozenset[str]
    file: str | None = None

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        plain = {"lane": self.lane, "lanes": self.lanes, "read": sorted(self.read), "file": self.file}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def parse_lane(text: str) -> LaneState:
    """Read what :meth:`LaneState.as_json` wrote. Raises StateError on anything else."""
    try:
        plain = parsed(text)
        return LaneState(int(plain["lane"]), int(plain["lanes"]), frozenset(plain["read"]), plain["file"])
    except (PeerError, TypeError, ValueError, KeyError) as error:
        raise StateError(f"a checkpoint describes a lane of a followed folder as {text!r}: {error}") from error


def name_hash(name: str) -> str:
    """Return the short hash of a file's name."""
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:HASH_CHARS]


class FollowedFolder:
    """A folder of text files without an end."""

    bounded = False

    def __init__(
        self,
        path: "str | InputPath",
        form: TextForm,
        every_s: float,
        event_time: EventTime | None = None,
        rate: int | None = None,
    ) -> None:
        """Look for new files every ``every_s`` seconds. ``rate`` bounds the rows per second of each lane."""
        self.path: InputPath = Path(path) if isinstance(path, str) else path
        self.form = form
        self.every_s = every_s
        self._event_time = event_time
        self._rate = rate
        self.schema = with_stamp(form.schema, event_time)

    def splits(self) -> list[SplitState]:
        """List the lanes; their number never changes. Raises ConfigError when the files that are there do not fit."""
        check_followed(self.path, self.form)
        lanes = (LaneState(lane, LANES, frozenset()) for lane in range(LANES))
        return [SplitState(SplitId(f"lane-{s.lane:02d}"), s.as_json(), 0) for s in lanes]

    def open(self, state: SplitState) -> "LaneReader":
        """Open a lane where its state says. Raises StateError when the file that it reads has changed."""
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        return LaneReader(self, state, stamper, RateLimit(self._rate))


def check_followed(path: InputPath, form: TextForm) -> None:
    """Check the files that are in a followed folder. Raises ConfigError when there is no folder, or naming the file."""
    if not path.is_dir():
        raise ConfigError(f"{form.kind} source: there is no folder {path} to follow: make it first")
    found = list_input(path, form.kind, form.folders.names)
    if found.files or any(why is Passed.MISPLACED for _, why in found.passed):
        check_text_files(path, form)


class LaneReader:
    """Reads the files of one lane, one after another, on one thread."""

    def __init__(self, parent: FollowedFolder, state: SplitState, stamper: Stamper | None, pace: RateLimit) -> None:
        """Begin at ``state``."""
        self._parent = parent
        self._split = state.split
        self._offset = state.offset
        self._lane = parse_lane(state.spec)
        self._read = set(self._lane.read)
        self._rows: TextRows | None = None
        if self._lane.file is not None:
            self._rows = open_rows(parent.path, parent.form, self._lane.file)
        self._stamper = stamper
        self._pace = pace
        self._waiting: list[str] = []
        self._sizes: dict[str, int | None] = {}  # of the files that wait
        self._look_at = 0.0

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows, or None when no file has more now.

        Raises StateError with file and line, StorageError when a retry may help.
        """
        allowed = self._pace.allow(max_rows)
        if not allowed:
            return None
        while self._rows is not None or self._next_file():
            assert self._rows is not None
            batch = self._rows.take(allowed)
            if self._rows.ended:
                self._read.add(name_hash(self._rows.name))
                self._rows.close()
                self._rows = None
            if batch is not None:
                offset, self._offset = self._offset, self._offset + batch.num_rows
                self._pace.sent(batch.num_rows)
                return Read(self._stamper.stamp(batch) if self._stamper else batch, offset)
        return None

    def state(self) -> SplitState:
        """Return where the next read begins. A lane never ends."""
        file = None if self._rows is None else self._rows.spec()
        lane = LaneState(self._lane.lane, self._lane.lanes, frozenset(self._read), file)
        max_ts = self._stamper.max_ts if self._stamper else None
        return SplitState(self._split, lane.as_json(), self._offset, max_ts=max_ts)

    def pending(self) -> tuple[int | None, int | None]:
        """Return the bytes that are left of this lane's files, as of the last look at the folder."""
        sizes = [*self._sizes.values(), *(() if self._rows is None else (self._rows.bytes_left,))]
        known = [size for size in sizes if size is not None]
        return None, sum(known) if self._look_at and len(known) == len(sizes) else None

    def wait_s(self) -> float:
        """Return how long to wait for the next rows: until the next look at the folder."""
        if self._rows is None and not self._waiting:
            return max(0.0, self._look_at - monotonic())
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Do nothing: a file stays."""

    def close(self) -> None:
        """Close the file."""
        if self._rows is not None:
            self._rows.close()

    def _next_file(self) -> bool:
        """Begin with the next file of this lane. Returns whether there is one."""
        if not self._waiting and monotonic() >= self._look_at:
            self._look()
        while self._waiting:
            name = self._waiting.pop(0)
            self._sizes.pop(name, None)
            try:
                identity = replace(read_text_identity(self._parent.path / name), file=name)
            except FileNotFoundError:
                continue  # it was taken away before it was begun: no row of it was read
            except OSError as error:
                raise StorageError(f"text source: file {self._parent.path / name}: {error}") from error
            if not identity.size:
                self._read.add(name_hash(name))
                continue
            self._rows = open_rows(self._parent.path, self._parent.form, spell_spec(identity, LinePlace()))
            return True
        return False

    def _look(self) -> None:
        try:
            found = list_input(self._parent.path, self._parent.form.kind, self._parent.form.folders.names)
        except OSError as error:
            raise StorageError(f"text source: folder {self._parent.path} cannot be listed: {error}") from error
        if any(why is Passed.MISPLACED for _, why in found.passed):
            problem = nothing_to_read(found, self._parent.form.kind, self._parent.form.folders.names)
            raise StateError(f"text source: folder {self._parent.path} {problem}")
        names = found.files
        mine = {name: name_hash(name) for name in names}
        self._read &= set(mine.values())
        self._waiting = [name for name in names if self._is_mine(mine[name]) and mine[name] not in self._read]
        self._sizes = {name: self._size(name) for name in self._waiting}
        self._look_at = monotonic() + self._parent.every_s

    def _size(self, name: str) -> int | None:
        """Return how long a text is; None where it is packed, or where the answer costs a request."""
        file = self._parent.path / name
        if isinstance(file, StoredPath) or file.suffix in PACKED:
            return None
        try:
            return file.stat().st_size
        except OSError:
            return None  # reading it says more

    def _is_mine(self, hashed: str) -> bool:
        return int(hashed, 16) % self._lane.lanes == self._lane.lane
