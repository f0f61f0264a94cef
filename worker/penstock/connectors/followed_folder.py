"""A folder of text files that grows: files are read in lanes (``lanes.py``) as they come, without an end.

A lane reads its files in the order of the names that are there. Its state has the file that is
being read with the place of the next row, and a short hash of the name of each file that it has read and
that is still in the folder. So a file is read once, whatever its name is; and a file that was read and is
then removed leaves the state.

Whoever writes a file in the folder itself, and not under a hidden name first, makes it empty and then fills it. So an
empty file counts as not read, and the newest files that were read are looked at again: one that grew is an error. Their
sizes are in the state, so that a file that grows while no reader is there is noticed, too.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.base.threads import monotonic
from penstock.base.values import replace
from penstock.connectors.input_files import REFUSED, InputPath, StoredPath, list_input, nothing_to_read
from penstock.connectors.lanes import LANES, LaneReader, lane_of, name_hash
from penstock.connectors.source_rows import with_stamp
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
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState

LOOKED_AT_AGAIN = 16  # files of a lane, those that were read last


@dataclass(frozen=True, slots=True)
class LaneState:
    """What a lane has read: hashes of the names of whole files, and the file that is being read.

    ``sizes`` are those of the files that were read last, by the hashes of their names, oldest first.
    """

    lane: int
    lanes: int
    read: frozenset[str]
    file: str | None = None
    sizes: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        plain = {"lane": self.lane, "lanes": self.lanes, "read": sorted(self.read), "file": self.file}
        if self.sizes:
            plain["sizes"] = self.sizes
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def parse_lane(text: str) -> LaneState:
    """Read what :meth:`LaneState.as_json` wrote. Raises StateError on anything else."""
    try:
        plain = parsed(text)
        sizes = tuple((str(name), int(size)) for name, size in plain.get("sizes", ()))
        return LaneState(int(plain["lane"]), int(plain["lanes"]), frozenset(plain["read"]), plain["file"], sizes)
    except (PeerError, TypeError, ValueError, KeyError) as error:
        raise StateError(
            f"a checkpoint describes a lane of a followed folder as {text!r}: {error}: if the job began without"
            " `follow`, take it out again, or begin anew (penstock run --fresh)"
        ) from error


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
        self.event_time = event_time
        self.rate = rate
        self.schema = with_stamp(form.schema, event_time)

    def splits(self) -> list[SplitState]:
        """List the lanes; their number never changes. Raises ConfigError when the files that are there do not fit."""
        check_followed(self.path, self.form)
        lanes = (LaneState(lane, LANES, frozenset()) for lane in range(LANES))
        return [SplitState(SplitId(f"lane-{s.lane:02d}"), s.as_json(), 0) for s in lanes]

    def open(self, state: SplitState) -> "FolderLane":
        """Open a lane where its state says. Raises StateError when the file that it reads has changed."""
        return FolderLane(self, state)


def check_followed(path: InputPath, form: TextForm) -> None:
    """Check the files that are in a followed folder. Raises ConfigError when there is no folder, or naming the file."""
    if not path.is_dir():
        raise ConfigError(f"{form.kind} source: there is no folder {path} to follow: make it first")
    found = list_input(path, form.kind, form.folders.names)
    if found.files or any(why in REFUSED for _, why in found.passed):
        check_text_files(path, form)


class FolderLane(LaneReader[str, TextRows]):
    """Reads the files of one lane. A file that waits is a name."""

    def __init__(self, parent: FollowedFolder, state: SplitState) -> None:
        """Begin at ``state``."""
        super().__init__(state, parent.event_time, parent.rate)
        self._parent = parent
        self._lane = parse_lane(state.spec)
        self._read = set(self._lane.read)
        if self._lane.file is not None:
            self._rows = open_rows(parent.path, parent.form, self._lane.file, parent.event_time)
        self._sizes: dict[str, int | None] = {}  # of the files that wait
        self._read_last: deque[tuple[str, int]] = deque(self._lane.sizes, LOOKED_AT_AGAIN)  # hashes of names, and sizes

    def state(self) -> SplitState:
        """Return where the next read begins. A lane never ends."""
        file = None if self._rows is None else self._rows.spec()
        lane = LaneState(self._lane.lane, self._lane.lanes, frozenset(self._read), file, tuple(self._read_last))
        return SplitState(self._begun.split, lane.as_json(), self._offset, max_ts=self._max_ts)

    def pending(self) -> tuple[int | None, int | None]:
        """Return the bytes that are left of this lane's files, as of the last look at the folder."""
        sizes = [*self._sizes.values(), *(() if self._rows is None else (self._rows.bytes_left,))]
        known = [size for size in sizes if size is not None]
        return None, sum(known) if self._look_at and len(known) == len(sizes) else None

    def _took(self, rows: TextRows, count: int) -> None:
        if rows.ended:
            hashed = name_hash(rows.name)
            self._read.add(hashed)
            if not isinstance(self._parent.path, StoredPath):
                self._read_last.append((hashed, rows.size))

    def _open(self, file: str) -> TextRows | None:
        """Begin with a file, unless it is empty, or was taken away before any row of it was read."""
        self._sizes.pop(file, None)
        try:
            identity = replace(read_text_identity(self._parent.path / file), file=file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"text source: file {self._parent.path / file}: {error}") from error
        if not identity.size:
            if identity.version:  # an object is whole as soon as it is there
                self._read.add(name_hash(file))
            return None
        parent = self._parent
        return open_rows(parent.path, parent.form, spell_spec(identity, LinePlace()), parent.event_time)

    def _look(self) -> None:
        try:
            found = list_input(self._parent.path, self._parent.form.kind, self._parent.form.folders.names)
        except OSError as error:
            raise StorageError(f"text source: folder {self._parent.path} cannot be listed: {error}") from error
        if any(why in REFUSED for _, why in found.passed):
            problem = nothing_to_read(found, self._parent.form.kind, self._parent.form.folders.names)
            raise StateError(f"text source: folder {self._parent.path} {problem}")
        hashes = {name: name_hash(name) for name in found.files}
        listed = set(hashes.values())
        self._read_last = deque((each for each in self._read_last if each[0] in listed), LOOKED_AT_AGAIN)
        self._refuse_grown(hashes)
        self._read &= listed
        mine = [n for n, h in hashes.items() if h not in self._read and lane_of(h, self._lane.lanes) == self._lane.lane]
        self._files.extend(mine)
        self._sizes = {name: self._size(name) for name in mine}
        self._look_at = monotonic() + self._parent.every_s

    def _refuse_grown(self, listed: Mapping[str, str]) -> None:
        """Raise StateError when a file has another size than when it was read. ``listed``: names and their hashes."""
        if not self._read_last:
            return
        names = {hashed: name for name, hashed in listed.items()}
        for hashed, size in self._read_last:
            file = self._parent.path / names[hashed]
            found = self._bytes(file)
            if found is not None and found != size:
                raise StateError(
                    f"text source: file {file} had {size} bytes when it was read and has {found} now: rows that came"
                    " later are not read; put them into a new file, and rename a file into the folder when it is whole"
                )

    def _size(self, name: str) -> int | None:
        """Return how long a text is; None where it is packed, or where the answer costs a request."""
        file = self._parent.path / name
        return None if isinstance(file, StoredPath) or file.suffix in PACKED else self._bytes(file)

    @staticmethod
    def _bytes(file: InputPath) -> int | None:
        try:
            return file.stat().st_size
        except OSError:
            return None  # reading it says more
