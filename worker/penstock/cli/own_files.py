"""The files that a job owns: which output is missing, and what ``run --fresh`` removes.

Output files are counted when a run ends, and again when the next run begins: nobody publishes in
between. The newest checkpoint names its own files. After a supervisor was killed, only those files
are known, because the files that were published before them were never counted.

``--fresh`` removes the output first, then the state, and the uid last. A user whose ``--fresh`` was
interrupted runs it again. Until then, the job says that its output is gone.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import PenstockError, StorageError
from penstock.base.limits import INPUT_NAMES_SHOWN_MAX
from penstock.cli.rates import short_bytes
from penstock.cli.record import JobRecord, Place
from penstock.connectors import published
from penstock.contract.manifest import RootManifest
from penstock.contract.status import named
from penstock.supervisor.folders import JobFolder

if TYPE_CHECKING:
    from penstock.cli.past_runs import Before


def own_files(place: Place, job_uid: str) -> list[Path] | None:
    """List the published files of a sink step; None where the folder is not this job's."""
    return published.own_files(Path(place.path), place.kind, place.step, job_uid)


def lost_output(place: Place, root: RootManifest | None) -> list[str]:
    """List the names that the newest checkpoint has published and that are not there."""
    from penstock.connectors.file_output import parse_cut  # noqa: PLC0415  needs Arrow
    from penstock.connectors.file_sink import visible_name  # noqa: PLC0415  needs Arrow

    if root is None or place.kind not in published.FILE_KINDS:
        return []
    folder, step, ends = Path(place.path), published.plain_step(place.step), published.SUFFIXES[place.kind]
    names = []
    for handle in (h for t in root.tasks for h in t.handles if h.sink == place.step):
        try:
            cut = parse_cut(handle.data, folder)
        except PenstockError:
            continue  # of another version
        parts = range(len(cut.parts))
        names += [visible_name(step, handle, root.epoch, (cut.number, p), ends) for p in parts]
    return [name for name in names if not (folder / name).exists()]


def counted(record: JobRecord, job_uid: str, through: int) -> JobRecord:
    """Return a record of a job with the output files of epochs up to ``through``, all published."""
    found = [(place.step, own_files(place, job_uid)) for place in record.outputs]
    known = [(step, _up_to(through, files)) for step, files in found if files is not None]
    return record.counting(known, through)


def _up_to(through: int, files: Sequence[Path]) -> int:
    return sum(published.epoch_of(file) <= through for file in files)


def missing_output(place: Place, before: "Before") -> str | None:
    """Say which output of a sink is not there any more; None where all that is known of is."""
    record, latest = before.record or JobRecord(), before.latest
    expected = dict(record.published).get(place.step, 0)
    found = own_files(place, latest.job_uid)
    # What is committed and not known to be visible may still be staged. What was counted is known.
    epoch = 0 if before.root is None else before.root.epoch
    uncounted = record.through < epoch <= latest.published_through
    lost = lost_output(place, before.root) if uncounted else []
    if found is None:
        gone = f"output of {place.step}: {place.path} is gone, or is not this job's any more"
        return gone if expected or lost else None
    here = _up_to(record.through, found)
    missing = max(expected - here, len(lost))
    if missing <= 0:
        return None
    of = max(expected, missing)
    return f"output of {place.step}: {missing} of {of} files are gone from {place.path}"


def foreign_files(places: Sequence[Place], job_uid: str) -> list[str]:
    """Say of each output folder of this job which of its data files the job has not written."""
    said = []
    for path in dict.fromkeys(Path(p.path) for p in places if p.kind in published.FILE_KINDS):
        here = [p for p in places if Path(p.path) == path and p.kind in published.FILE_KINDS]
        own = [own_files(place, job_uid) for place in here]
        mark = published.mark_of(path, "parquet")
        if mark is None or mark.after or None in own:
            continue  # of a job before, or of another one: its sink judges it
        known = {file for files in own for file in files or ()}
        other = sorted(f.name for f in path.iterdir() if f.name.endswith(published.FILE_SUFFIXES) and f not in known)
        if other:
            names = named(tuple(other[:INPUT_NAMES_SHOWN_MAX]), len(other))
            said.append(f"output folder {path} has files that no sink of this job wrote: {names}")
    return said


def is_anothers(place: Place, job_uid: str) -> bool:
    """Say whether an output folder has the mark of another job, which its sink refuses."""
    mark = published.mark_of(Path(place.path), place.kind)
    return mark is not None and mark.job_uid != job_uid


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed of a place: files and bytes. None files: it is not this job's."""

    path: str
    files: int | None
    size: int = 0


def remove_own(places: Sequence[Place], job_uid: str) -> list[Removed]:
    """Remove the published and staged files of sink steps, and the marks of their owner.

    Other files stay, and so do the folders. Raises OSError.
    """
    # All are judged first: sinks that share a folder share its mark.
    judged = [(place, own_files(place, job_uid)) for place in places]
    removed = []
    for place, found in judged:
        size = sum(file.stat().st_size for file in found or ())
        for file in found or ():
            file.unlink()
        removed.append(Removed(place.path, None if found is None else len(found), size))
    for place, found in judged:
        if found is not None:
            _remove_marks(place, job_uid)
    return removed


def _remove_marks(place: Place, job_uid: str) -> None:
    """Remove what is staged, and the mark; that of a folder with files of a job before stays."""
    folder = Path(place.path)
    for file in published.own_staging(folder, place.step, job_uid):
        file.unlink()
    mark = published.mark_of(folder, place.kind)
    if mark is None or mark.after:
        return
    if place.kind == "discard":
        (folder / published.REPORT_OWNER).unlink(missing_ok=True)
        return
    staging = folder / published.STAGING
    shutil.rmtree(staging / job_uid, ignore_errors=True)
    (staging / published.OWNER).unlink(missing_ok=True)
    if not any(staging.iterdir()):
        staging.rmdir()


KEPT = ("savepoints", "lock")
LAST = "uid"  # state without a uid belongs to no job
MARKS = (LAST, "metadata.sqlite")  # a folder without both is no job's, whatever it is called
# What a job makes in its folder (see supervisor.folders): a folder of somebody may have the name of the job.
STATE = (
    *(LAST, "record.json", "metadata.sqlite*", "endpoint.json", "supervisor.log", "checkpoints", "workers"),
    *("job-????????????.json", "job-????????????.places.json"),
    *(".uid.*", ".record.json.*", ".endpoint.json.*"),  # files that were being written when a process was killed
)


def forget_runs(folder: JobFolder, before: "Before | None", now: JobRecord) -> tuple[str, ...]:
    """Remove the state of a job and its own output; say what was removed and what stays.

    Nothing else in ``folder`` is touched. It is held: nothing runs. Raises StorageError naming the file that cannot be
    removed.
    """
    try:
        uid = _uid(folder)
        lines = [] if uid is None else list(_outputs(_places(before, now), uid))
        state = _remove_state(folder.root)
    except OSError as error:
        raise StorageError(f"--fresh: {error.filename}: {error.strerror}") from error
    if state:
        epoch = 0 if before is None else before.latest.epoch
        lines.append(f"removed the state of epoch {epoch} in {folder.root}")
        other = sorted(p.name for p in folder.root.iterdir() if p.name not in KEPT)
        if other:
            names = named(tuple(other[:INPUT_NAMES_SHOWN_MAX]), len(other))
            lines.append(f"left what is no job's in {folder.root}: {names}")
    kept = sorted(p.name for p in folder.savepoints.iterdir()) if folder.savepoints.is_dir() else []
    if kept:
        lines.append(f"kept {len(kept)} savepoints in {folder.savepoints}")
    return tuple(f"fresh: {line}" for line in lines or ["there was nothing of this job"])


def _uid(folder: JobFolder) -> str | None:
    return folder.uid() if (folder.root / LAST).exists() else None


def _places(before: "Before | None", now: JobRecord) -> Iterator[Place]:
    """List the outputs of the runs before and those of now, each once."""
    known = before.record.outputs if before is not None and before.record is not None else ()
    yield from dict.fromkeys((*known, *now.outputs))


def _outputs(places: Iterable[Place], uid: str) -> Iterator[str]:
    for removed in remove_own(tuple(places), uid):
        if removed.files:
            what = f"{removed.files} output files ({short_bytes(removed.size)})"
            yield f"removed {what} from {removed.path}"
        elif removed.files is None and Path(removed.path).is_dir():
            yield f"left {removed.path} as it is: by its mark it is not this job's output"


def _remove_state(root: Path) -> bool:
    if not any((root / mark).exists() for mark in MARKS):
        return False
    found = [p for p in root.iterdir() if any(fnmatch(p.name, name) for name in STATE)]
    for path in sorted(found, key=lambda p: p.name == LAST):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return bool(found)
