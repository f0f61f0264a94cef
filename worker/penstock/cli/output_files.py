"""The published files of a job's sinks: which are missing, and their removal by ``--fresh``."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import PenstockError
from penstock.cli.record import Place
from penstock.connectors import published
from penstock.contract.manifest import RootManifest


def own_files(place: Place, job_uid: str) -> list[Path] | None:
    """List the published files of a sink step; None where the folder is not this job's."""
    return published.own_files(Path(place.path), place.kind, place.step, job_uid)


def lost_output(place: Place, root: RootManifest | None) -> list[str]:
    """List the names that the newest checkpoint has published and that are not there."""
    from penstock.connectors.parquet_publish import visible_name  # noqa: PLC0415  needs Arrow
    from penstock.connectors.parquet_stage import parse_cut  # noqa: PLC0415  needs Arrow

    if root is None or place.kind != "parquet":
        return []
    folder, step = Path(place.path), published.plain_step(place.step)
    names = []
    for handle in (h for t in root.tasks for h in t.handles if h.sink == place.step):
        try:
            cut = parse_cut(handle.data, folder)
        except PenstockError:
            continue  # of another version
        parts = range(len(cut.parts))
        names += [visible_name(step, handle, root.epoch, (cut.number, p)) for p in parts]
    return [name for name in names if not (folder / name).exists()]


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
