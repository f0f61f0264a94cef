"""Decides what ``penstock run`` does with a job that has run before.

A finished job does not run again. ``penstock run`` reports that it has finished, and checks whether
its result would differ now: because of other code or steps, other input, or missing output files.
Such a change is an error, because a user who changes something and runs the job again expects a new
result.

An unfinished job continues from its newest checkpoint, with its present code and steps. Missing
output files are an error here too, because the job would not write them again.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from penstock.base.errors import ConfigError, PeerError, PenstockError, StateError
from penstock.base.limits import INPUT_NAMES_SHOWN_MAX
from penstock.base.values import replace
from penstock.cli.own_files import counted, foreign_files, forget_runs, is_anothers, missing_output
from penstock.cli.record import PARAMETERS, Digest, JobRecord, Place, keep_record, read_record
from penstock.connectors.input_files import look_at
from penstock.connectors.published import FILE_KINDS
from penstock.contract.latest import Latest, decode_latest, is_done
from penstock.contract.manifest import RootManifest
from penstock.contract.pod import latest_name
from penstock.contract.status import JobState, JobStatus, named, unread_text
from penstock.storage.lock import DirectoryLock
from penstock.storage.sqlite import Database, SqliteMetaStore
from penstock.supervisor.committed import committed_rows, read_manifest
from penstock.supervisor.folders import JobFolder
from penstock.supervisor.wording import as_options

if TYPE_CHECKING:
    from penstock.contract.latest import Restore
    from penstock.contract.manifest import SplitState
    from penstock.graph import JobFile


@dataclass(frozen=True, slots=True)
class Before:
    """The state that earlier runs left.

    - ``latest``, ``root``: the committed object and the root manifest that it names.
    - ``record``: the code, steps and files of the newest run; None: it was not recorded.
    - ``committed_at``: the time at which the file of the newest checkpoint was written.
    """

    latest: Latest
    root: RootManifest | None
    record: JobRecord | None
    committed_at: datetime | None

    def since(self) -> str:
        """Return when the job finished, or else when the newest checkpoint was committed; empty: unknown."""
        at = self.committed_at
        if self.record is not None and self.record.finished_us is not None:
            at = datetime.fromtimestamp(self.record.finished_us / 1e6).astimezone()
        return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


@contextmanager
def held(directory: Path, job: str, namespace: str) -> Iterator[JobFolder]:
    """Lock a job's folder, so that no process can run the job. Raises BusyError when one runs it."""
    folder = JobFolder.make(directory, job, namespace)
    lock = DirectoryLock(folder.root, f"job {job!r}")
    try:
        yield folder
    finally:
        lock.release()


def read_before(folder: JobFolder) -> Before | None:
    """Read the state of earlier runs; None when there is none, or when another version wrote it.

    The caller holds ``folder``. Raises StateError when the metadata is damaged.
    """
    if not folder.database.exists():
        return None
    database = Database(folder.database)
    try:
        found = SqliteMetaStore(database).get(latest_name(folder.job))
        latest = None if found is None else decode_latest(found.data)
    except PeerError:
        return None  # another version of Penstock wrote it: the run itself reports this
    finally:
        database.close()
    if latest is None:
        return None
    storage = folder.storage(latest.job_uid)
    root = read_manifest(storage, latest.root)
    at = None
    if root is not None and latest.root is not None:
        written = (storage / latest.root.name).stat().st_mtime
        at = datetime.fromtimestamp(written).astimezone()
    return Before(latest, root, read_record(folder.root), at)


AGAIN = (
    "to compute it again: penstock run --fresh removes this job's state and its own output files,"
    " and begins anew; savepoints and files of others stay"
)


GO_ON = (
    "these files are not written again: put them back, and run the job again",
    AGAIN,
    "to go on without them: penstock run --allow-missing-output",
)


REMEDY = (
    AGAIN,
    "to keep what it has written: give the job another name (metadata.name) and an empty output folder",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of ``penstock run``.

    - ``restore``: the state to begin from; None: the newest checkpoint.
    - ``fresh``: remove the state and the output of earlier runs first.
    - ``incomplete``: the user accepts that output files are missing.
    """

    job: "JobFile"
    directory: Path
    restore: "Restore | None"
    fresh: bool
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A job that may run: its record, and notes for the user about its earlier runs."""

    record: JobRecord
    notes: tuple[str, ...]
    fresh: bool = False


def look_back(asked: Asked, check: Callable[[], JobRecord]) -> "Finished | Ready":
    """Decide whether a job may run after its earlier runs. With ``fresh``, remove them.

    ``check`` returns the record of the job as it would run now, or raises ConfigError. Raises
    BusyError when the job runs already, StateError when its metadata is damaged or output is missing.
    """
    name, root = asked.job.job.name, asked.directory.absolute()
    if not (root / name).is_dir():
        return Ready(check(), ())
    now = check() if asked.fresh else None
    with held(root, name, asked.job.job.namespace) as folder:
        before = read_before(folder)
        if now is not None:
            return Ready(now, forget_runs(folder, before, now), fresh=True)
        if has_finished(before, asked.restore):
            if asked.incomplete and before.record is not None:
                record = _as_it_is(before.record, before.latest)
                keep_record(folder.root, record)
                before = replace(before, record=record)
            return Finished(name, before, changes_of(before, check, asked.incomplete))
    now = check()
    if before is None:
        return Ready(now, ())
    notes = (
        *goes_on(before, now, asked.restore),
        *foreign_files(now.outputs, before.latest.job_uid),
    )
    if not _is_newest(before, asked.restore):
        return Ready(now, notes)
    gone = tuple(_gone_output(before, now))
    if gone and not asked.incomplete:
        raise StateError("\n".join([f"{name}: not started: {gone[0]}", *gone[1:], *GO_ON]))
    return Ready(_carried(before, now, bool(gone)), (*notes, *(f"{g}: gone on with" for g in gone)))


def _is_newest(before: Before, restore: "Restore | None") -> bool:
    """Return whether the job continues from its newest checkpoint. Then all its output must exist."""
    if restore is None or is_done(restore, before.latest.restored):
        return True
    return restore.path is None and restore.epoch is None and not restore.empty


def _gone_output(before: Before, now: JobRecord) -> Iterator[str]:
    """Yield a text for each sink with missing output. A sink that now has another folder is skipped."""
    uid, then = before.latest.job_uid, before.record
    for place in now.outputs:
        moved = then is not None and place not in then.outputs
        gone = None if moved or is_anothers(place, uid) else missing_output(place, before)
        if gone is not None:
            yield gone


def _carried(before: Before, now: JobRecord, incomplete: bool) -> JobRecord:
    """Return the record of this run, with the output files that the earlier record counts."""
    if incomplete or before.record is None:
        return _as_it_is(now, before.latest)
    same = {place.step for place in now.outputs if place in before.record.outputs}
    known = [(step, files) for step, files in before.record.published if step in same]
    return now.counting(known, before.record.through)


def _as_it_is(record: JobRecord, latest: "Latest") -> JobRecord:
    """Return the record with the output files that exist now, so files missing now are accepted."""
    return counted(record, latest.job_uid, latest.published_through)


def as_ended(record: JobRecord, ended: JobStatus) -> JobRecord:
    """Return the record of a run that has ended, with the time of its finish and its output files."""
    known = counted(record, ended.uid, ended.published_through)
    return known.finished(ended.time_us) if ended.state is JobState.FINISHED else known


def has_finished(before: Before | None, restore: "Restore | None") -> TypeGuard[Before]:
    """Return whether the job has finished and no new restore is requested. Then it does not run."""
    if before is None or not before.latest.finished:
        return False
    return restore is None or is_done(restore, before.latest.restored)


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that has finished. ``changes`` has one line for each thing that has changed since then."""

    job: str
    before: Before
    changes: tuple[str, ...]

    def status(self) -> JobStatus:
        """Return the status of the job, for programs."""
        latest = self.before.latest
        return JobStatus(
            self.job,
            latest.job_uid,
            JobState.FINISHED,
            time.time_ns() // 1000,
            wanted_workers=latest.workers,
            term=latest.term,
            attempt=latest.attempt,
            version=latest.version,
            published_through=latest.published_through,
            committed=committed_rows(self.before.root, self.before.root, known=True),
        )

    def lines(self) -> list[str]:
        """Return the lines for the user: when the job finished, the changes since, and the remedies."""
        epoch = self.before.latest.epoch
        return [
            f"{self.job}: Finished on {self.before.since()} (epoch {epoch}): all its input was read"
            " and all its output is published, so nothing runs",
            *(f"since then: {change}" for change in self.changes),
            *(REMEDY if self.changes else ()),
        ]


def changes_of(before: Before, check: Callable[[], JobRecord], incomplete: bool = False) -> tuple[str, ...]:
    """List the differences since the job finished. Blocking: it looks at every input and output file.

    ``check`` returns the record of the job as it would run now, or raises ConfigError.
    ``incomplete``: the user accepts that output files are missing.
    """
    now = _described(check)
    record = before.record
    places = record if record is not None else now if isinstance(now, JobRecord) else JobRecord()
    gone = [] if incomplete else [missing_output(place, before) for place in places.outputs]
    found = [*_input_changes(before, places.inputs), *filter(None, gone)]
    if isinstance(now, ConfigError):
        found += [] if found else [f"the job cannot run any more: {now}"]
    elif record is not None:
        found = [*code_changes(record, now), *found]
    return tuple(found)


def _described(check: Callable[[], JobRecord]) -> JobRecord | ConfigError:
    try:
        return check()
    except ConfigError as error:
        return error


def code_changes(before: JobRecord, now: JobRecord) -> list[str]:
    """List the steps and the files of user code that have changed, and whether parameters have."""
    found = [
        f"{what} changed: {text}"
        for what, old, new in (
            ("steps", before.steps, now.steps),
            ("the code", _files(before.code), _files(now.code)),
        )
        if (text := _differences(old, new))
    ]
    if _differences(_parameters(before.code), _parameters(now.code)):
        found.append("parameters or arguments changed")
    return found


def _files(code: Iterable[Digest]) -> list[Digest]:
    return [d for d in code if d.name != PARAMETERS]


def _parameters(code: Iterable[Digest]) -> list[Digest]:
    return [d for d in code if d.name == PARAMETERS]


def _differences(before: Iterable[Digest], now: Iterable[Digest]) -> str:
    old, new = {d.name: d.sha256 for d in before}, {d.name: d.sha256 for d in now}
    changed = [name for name in old if name in new and old[name] != new[name]]
    gone = [f"{name} (gone)" for name in old if name not in new]
    added = [f"{name} (new)" for name in new if name not in old]
    every = [*changed, *gone, *added]
    return named(tuple(every[:INPUT_NAMES_SHOWN_MAX]), len(every))


def _input_changes(before: Before, inputs: Iterable[Place]) -> Iterator[str]:
    for place in inputs:
        splits = _splits(before, place)
        if place.kind not in FILE_KINDS or not splits:
            continue
        path = Path(place.path)
        if not path.exists():
            yield f"input of {place.step}: {path} is gone"
            continue
        seen = look_at(path, {s.split for s in splits}, place.kind, place.by).of(place.step)
        if text := unread_text(seen):
            yield text
        other = [text for split in splits if (text := _changed_file(path, split, place.kind))]
        if other:
            text = named(tuple(other[:INPUT_NAMES_SHOWN_MAX]), len(other))
            yield f"input of {place.step}: {len(other)} of {len(splits)} files changed: {text}"


def _splits(before: Before, place: Place) -> "list[SplitState]":
    tasks = () if before.root is None else before.root.tasks
    return [s for t in tasks if t.task.stage == place.stage for s in t.splits]


def _changed_file(path: Path, split: "SplitState", kind: str) -> str:
    # They load Arrow, which only this check needs.
    from penstock.connectors import parquet_source, text_source  # noqa: PLC0415

    identity: parquet_source.FileIdentity | text_source.TextIdentity
    if kind == "parquet":
        identity = parquet_source.parse_identity(split.spec)
    else:
        identity, _ = text_source.parse_spec(split.spec)
    file = path if path.is_file() else path / identity.file
    if not file.is_file():
        return f"{identity.file} (gone)"
    try:
        if isinstance(identity, parquet_source.FileIdentity):
            parquet_source.check_unchanged(file, identity)
        else:
            text_source.check_text_unchanged(file, identity)
    except PenstockError:
        return f"{identity.file} (another)"
    return ""


def goes_on(before: Before | None, now: JobRecord, restore: "Restore | None") -> tuple[str, ...]:
    """Return notes about an unfinished job: where it continues, how its last run ended, what changed."""
    if before is None or not before.latest.run:
        return ()
    latest = before.latest
    if restore is not None and not is_done(restore, latest.restored):
        return ()
    ended = "was ended at once"
    if latest.failure is not None:
        ended = f"failed: {as_options(latest.failure.splitlines()[0])}"
    elif latest.stopped:
        ended = "was stopped"
    at = f" of {before.since()}" if before.since() else ""
    goes = f"goes on from epoch {latest.epoch}{at}" if latest.root else "begins from the start"
    lines = [f"{goes}; its last run {ended}"]
    if before.record is not None:
        lines += [f"since then {text}" for text in code_changes(before.record, now)]
    return tuple(lines)
