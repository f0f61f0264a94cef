"""Whose output folder it is, on disk; what is allowed is decided by ``protocol/output_folder.py``.

::

    <output>/_staging/OWNER.json      the job that writes here; "after": it has just taken over
    <output>/_staging/<job uid>/      what that job has staged; PUBLISHED: it has begun to publish
    <output>/_staging/gone-<uid>/     what the job before had staged: nobody publishes it any more

A job takes another's folder over in this order: OWNER, the other's staged files are moved away,
then the visible files are listed. What the other one links in between is in the list, or its
staged file is gone. On a network file system the first list may be old, so the files are listed
again before the first publication. OWNER is read before each publication. Whoever writes one of
these files twice, however late, writes the same.
"""

import json
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.connectors.parquet_stage import STAGED_SUFFIX, remove_all
from penstock.connectors.published import OWNER, STAGING, SUFFIXES
from penstock.contract.codec import parsed
from penstock.contract.ids import Epoch, JobUid
from penstock.contract.manifest import Origin
from penstock.folders import make_durable, sync
from penstock.protocol.output_folder import FolderContents, above, refusal

VISIBLE_SUFFIX = SUFFIXES["parquet"]
GONE = "gone-"
PUBLISHED = "PUBLISHED"


@dataclass(frozen=True, slots=True)
class Record:
    """What OWNER.json says. ``after``: the savepoint of the job that had the folder before."""

    owner: JobUid
    after: Origin | None = None

    def as_plain(self) -> dict[str, object]:
        """Return what is written as JSON."""
        if self.after is None:
            return {"job_uid": self.owner}
        after = {"job_uid": self.after.job_uid, "epoch": self.after.epoch}
        return {"job_uid": self.owner, "after": after}


class OutputFolder:
    """One output folder, as the job that has taken it sees it."""

    def __init__(self, output: Path) -> None:
        """Remember where it is; nothing is touched before :meth:`take`."""
        self.path = output
        self._all = output / STAGING
        self._me = JobUid("")

    @property
    def staging(self) -> Path:
        """Return where this job stages; it has taken the folder before."""
        assert self._me, "the folder is taken before anything is staged"
        return self._all / self._me

    def take(self, me: JobUid, origin: Origin | None) -> None:
        """Take the folder for the job ``me``, or refuse it. Idempotent; any number of workers.

        ``origin`` is the savepoint that the job has begun from, while it has no checkpoint of its
        own. Raises ConfigError when the folder is another's, OSError.
        """
        record = self._read()
        if record is not None and record.owner == me:
            self._me = me
            make_durable(self.staging)
            self._adopt()
        else:
            found = self._found(record)
            self._refuse(refusal(found, me, origin))  # nothing was made in a folder of others
            make_durable(self._all)
            record = Record(me, origin if found.files else None)
            self._write(record)
            self._me = me
            make_durable(self.staging)
        self._move_away(record)
        if record.after is not None and not self._publishes():
            self._judge_again(record.after)

    def check(self, epoch: Epoch) -> None:
        """Make sure before a publication that the folder is still this job's.

        Raises StateError when another job has it, or the job before went on. Raises OSError.
        """
        record = self._read()
        lost = self._lost(record)
        if lost:
            raise StateError(lost)
        if record is None or record.after is None or self._publishes():
            return
        # Another worker of this job may have published this very epoch since OWNER was read.
        why = above(self._found(record, but=epoch), record.after)
        if why is not None:
            raise StateError(f"parquet sink: output folder {self.path} {why}")
        with (self.staging / PUBLISHED).open("w") as file:
            os.fsync(file.fileno())
        sync(self.staging)
        shutil.rmtree(self._gone(record.after), ignore_errors=True)

    def check_staging(self) -> None:
        """Say who has the folder when nothing can be staged any more. Raises StorageError."""
        if not self.staging.is_dir():
            lost = self._lost(self._read())
            if lost:
                raise StorageError(lost)

    # --- What is there ------------------------------------------------------------------------

    def _read(self) -> Record | None:
        try:
            plain = parsed((self._all / OWNER).read_text())
            after = plain.get("after")
            origin = Origin(JobUid(after["job_uid"]), Epoch(after["epoch"])) if after else None
            return Record(JobUid(plain["job_uid"]), origin)
        except (FileNotFoundError, PeerError, UnicodeError, KeyError, TypeError):
            return None

    def _found(self, record: Record | None, but: Epoch | None = None) -> FolderContents:
        """List what is visible, epoch ``but`` left out."""
        there = self.path.iterdir() if self.path.is_dir() else ()
        names = sorted(p.name for p in there if p.name.endswith(VISIBLE_SUFFIX))
        numbers = [name.split("-", 1)[0] for name in names]
        epochs = [Epoch(int(n)) for n in numbers if n.isdecimal() and int(n) != but]
        owner = record.owner if record is not None else None
        return FolderContents(
            owner, len(names), max(epochs, default=Epoch(0)), names[0] if names else ""
        )

    def _lost(self, record: Record | None) -> str:
        if record is None or record.owner == self._me:
            return ""
        return (
            f"parquet sink: job {record.owner} has taken output folder {self.path} over from this "
            f"job ({self._me}): name another folder to go on"
        )

    def _publishes(self) -> bool:
        """Say whether this job has begun to publish here: what is visible may be its own."""
        return (self.staging / PUBLISHED).exists()

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise ConfigError(f"parquet sink: output folder {self.path} {why}")

    # --- Taking over --------------------------------------------------------------------------

    def _gone(self, origin: Origin) -> Path:
        return self._all / f"{GONE}{origin.job_uid}"

    def _adopt(self) -> None:
        """Take in what this job has staged beside OWNER, as an earlier version did."""
        for file in self._all.glob(f"*{STAGED_SUFFIX}"):
            with suppress(FileNotFoundError):  # another worker of this job was quicker
                file.rename(self.staging / file.name)

    def _move_away(self, record: Record) -> None:
        """Let nobody publish what another job has staged here; of an empty folder it all goes."""
        if record.after is not None:
            with suppress(OSError):  # another worker of this job was quicker, or nothing is there
                (self._all / record.after.job_uid).rename(self._gone(record.after))
            return
        for folder in self._all.iterdir():
            if folder.is_dir() and folder.name != record.owner:
                shutil.rmtree(folder, ignore_errors=True)
        remove_all(self._all.glob(f"*{STAGED_SUFFIX}"))

    def _judge_again(self, origin: Origin) -> None:
        """Look whether the job before went on meanwhile; then the folder is given back to it."""
        why = above(self._found(self._read()), origin)
        if why is None:
            return
        with suppress(OSError):
            self._gone(origin).rename(self._all / origin.job_uid)
        self._write(Record(origin.job_uid))
        self._refuse(why)

    def _write(self, record: Record) -> None:
        """Replace OWNER.json, durably: whole or not at all."""
        temporary = self._all / f"{OWNER}.{uuid.uuid4().hex}"
        with temporary.open("w") as file:
            file.write(json.dumps(record.as_plain()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._all / OWNER)
        sync(self._all)
