"""``run --fresh``: forget a job's runs before. Only what is the job's own is removed.

Output goes first, then the state: whoever is interrupted runs ``--fresh`` again, and until then the
job says that its output is gone. The uid goes last.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.base.errors import StorageError
from penstock.cli.before import Before
from penstock.cli.output_files import remove_own
from penstock.cli.rates import short_bytes
from penstock.cli.record import JobRecord, Place
from penstock.supervisor.folders import JobFolder

KEPT = ("savepoints", "lock")
LAST = "uid"  # without it the state is nobody's


def forget_runs(folder: JobFolder, before: Before | None, now: JobRecord) -> tuple[str, ...]:
    """Remove the state of a job and its own output; say what was removed and what stays.

    ``folder`` is held: nothing runs. Raises StorageError naming the file that cannot be removed.
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
    kept = sorted(p.name for p in folder.savepoints.iterdir()) if folder.savepoints.is_dir() else []
    if kept:
        lines.append(f"kept {len(kept)} savepoints in {folder.savepoints}")
    return tuple(f"fresh: {line}" for line in lines or ["there was nothing of this job"])


def _uid(folder: JobFolder) -> str | None:
    return folder.uid() if (folder.root / LAST).exists() else None


def _places(before: Before | None, now: JobRecord) -> Iterator[Place]:
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
    found = [p for p in root.iterdir() if p.name not in KEPT]
    for path in sorted(found, key=lambda p: p.name == LAST):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return bool(found)
