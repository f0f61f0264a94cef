"""The job that owns an output folder of a bucket, and whether the store keeps the rule of a conditional create.

::

    <folder>/_penstock/owner-000001.json    the first job that wrote here
    <folder>/_penstock/owner-000002.json    the job that took the folder over; "after": from which savepoint

Each owner is an object of its own, made by a conditional create. So of two jobs that take a folder at once one has
it, and nothing is ever overwritten. ``protocol/output_folder.py`` says which job may take which folder.
"""

import json
import re
from contextlib import suppress

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.threads import ThreadPoolExecutor, uuid4
from penstock.connectors.file_output import Record, parse_record
from penstock.connectors.published import FILE_SUFFIXES
from penstock.connectors.s3.object_folder import ObjectFolder
from penstock.contract.ids import Epoch, JobUid
from penstock.contract.manifest import Origin
from penstock.protocol.output_folder import FolderContents, above, refusal

MARKS = "_penstock"
OWNER = re.compile(rf"{MARKS}/owner-(\d{{6}})\.json")
TAKES_MAX = 8
RACERS = 8


class OwnedFolder:
    """One output folder, for the job that takes it."""

    def __init__(self, folder: ObjectFolder) -> None:
        """Ask nothing before :meth:`take`."""
        self.folder = folder
        self._owner = JobUid("")
        self._number = 0

    def take(self, me: JobUid, origin: Origin | None) -> None:
        """Take the folder for the job ``me``. Idempotent; any number of workers may call it. Blocking.

        ``origin`` is the savepoint that the job starts from, while it has no checkpoint of its own. Raises ConfigError
        when the folder belongs to another job, or the store lets two writers create one object. Raises StorageError
        when a retry may help.
        """
        for _ in range(TAKES_MAX):
            if self._taken(me, origin):
                return
        raise StorageError(f"s3: {self.folder.place}: other jobs take it again and again")

    def check(self) -> None:
        """Raise StateError when another job has taken the folder over. Blocking. Raises StorageError."""
        number = self._newest()
        record = self._record(number) if number != self._number else None
        if record is not None and record.owner != self._owner:
            raise StateError(
                f"s3: job {record.owner} has taken {self.folder.place} over from this job ({self._owner}): name another"
                " folder to go on"
            )

    def _taken(self, me: JobUid, origin: Origin | None) -> bool:
        number = self._newest()
        record = self._record(number)
        if record is None or record.owner != me:
            found = self._found(record)
            self._refuse(refusal(found, me, origin))
            if not number:
                check_conditional_create(self.folder)
            number += 1
            record = Record(me, origin if found.files else None)
            if not self.folder.create(_owner(number), json.dumps(record.as_plain()).encode()):
                return False  # another worker or job was quicker
            if record.after is not None:
                self._check_again(number, record.after)
        self._owner, self._number = me, number
        return True

    def _check_again(self, number: int, origin: Origin) -> None:
        """If the previous job has published more meanwhile, give the folder back to it and refuse."""
        why = above(self._found(Record(origin.job_uid)), origin)
        if why is not None:
            self.folder.create(_owner(number + 1), json.dumps(Record(origin.job_uid).as_plain()).encode())
            self._refuse(why)

    def _newest(self) -> int:
        found = (OWNER.fullmatch(name) for name in self.folder.names(MARKS))
        return max((int(match[1]) for match in found if match), default=0)

    def _record(self, number: int) -> Record | None:
        data = self.folder.read(_owner(number)) if number else None
        return None if data is None else parse_record(data)

    def _found(self, record: Record | None) -> FolderContents:
        names = [n for n in self.folder.names() if n.endswith(FILE_SUFFIXES) and not n.startswith(f"{MARKS}/")]
        numbers = [name.rpartition("/")[2].partition("-")[0] for name in names]
        epochs = [Epoch(int(n)) for n in numbers if n.isdecimal()]
        owner = record.owner if record is not None else None
        return FolderContents(owner, len(names), max(epochs, default=Epoch(0)), names[0] if names else "")

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise ConfigError(f"s3: output folder {self.folder.place} {why}")


def _owner(number: int) -> str:
    return f"{MARKS}/owner-{number:06d}.json"


def check_conditional_create(folder: ObjectFolder) -> None:
    """Let several writers create one object at once. Raises ConfigError when the store lets two of them do so.

    A store may also ignore the condition, and overwrite what is there. Then output that is published twice at once, by
    a worker that stood still for example, could change after readers have seen it.
    """
    name = f"{MARKS}/probe-{uuid4().hex}"
    texts = [f"writer {n}".encode() for n in range(RACERS)]
    with ThreadPoolExecutor(RACERS, "s3-probe") as racers:
        won = list(racers.map(lambda text: folder.create(name, text), texts))
    again, left = folder.create(name, b"again"), folder.read(name)
    with suppress(StorageError):  # some bytes stay
        folder.delete(name)
    winners = [text for text, first in zip(texts, won, strict=True) if first]
    if again or len(winners) > 1 or (winners and left != winners[0]):  # none when the reply to the first one was lost
        raise ConfigError(
            f"s3: {folder.place}: the store lets {len(winners) + again} writers create one object, so it cannot hold"
            " output exactly once: it needs PutObject with If-None-Match: *, as AWS, MinIO, R2 and Ceph have it"
        )
