"""What a job would take over of a checkpoint, in words, before anything starts.

The leader decides; here it is only told: of the newest checkpoint in ``--dir``, or of the savepoint
that a restore names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import PenstockError, StateError
from penstock.contract.latest import ANY_STATE, Latest, Restore, is_done
from penstock.protocol.state_matching import match, refusal, without
from penstock.supervisor.wording import as_options

if TYPE_CHECKING:
    from penstock.contract.manifest import RootManifest
    from penstock.contract.plan import PhysicalPlan
    from penstock.contract.streamjob import StreamJob
    from penstock.supervisor.folders import JobFolder


@dataclass(frozen=True, slots=True)
class Begins:
    """From what a run begins: the folder of all jobs, and what its options say."""

    directory: Path
    restore: str | None = None
    drop: tuple[str, ...] = ()


def fit_lines(
    job: "StreamJob", plan: "PhysicalPlan", begins: Begins, *, all_of_it: bool = True
) -> list[str]:
    """Say which steps take their state over, which begin anew, and what is given up.

    Nothing where there is no checkpoint; without ``all_of_it`` only what has changed. Raises
    StateError when it does not fit.
    """
    root, drop = _stored(job, begins)
    if root is None:
        return []
    left, why = without(root, plan, drop), refusal(root, plan, drop)
    if why is not None:
        raise StateError(as_options(why.removeprefix("StateError: ")))
    now, had = match(left, plan), match(root, plan)
    sources = {stage.source for stage in plan.stages}
    gone = [n for n in had.gone if n in drop or ANY_STATE in drop]
    said = {
        "taken over": list(now.kept) if all_of_it else [],
        "read from their beginning": [name for name in now.new if name in sources],
        "begin empty": [name for name in now.new if name not in sources],
        "given up": [*gone, *(n for n in (*had.changed, *had.kept) if n in drop)],
    }
    return [f"checkpoint {root.epoch}: {k}: {', '.join(v)}" for k, v in said.items() if v]


def _stored(job: "StreamJob", begins: Begins) -> tuple["RootManifest | None", Sequence[str]]:
    """Find what a run would begin from, and what it gives up of it."""
    from penstock.cli.local import EMPTY, LATEST  # noqa: PLC0415
    from penstock.supervisor.folders import JobFolder  # noqa: PLC0415  keep --help fast

    folder = JobFolder((begins.directory / job.name).absolute(), job.name, job.namespace)
    latest, given = _latest(folder), job.spec.restore
    restore, drop = begins.restore, begins.drop
    asked = restore is not None or bool(drop)
    restored = None if latest is None else latest.restored
    if not asked and given is not None and not is_done(Restore(given.nonce), restored):
        restore, drop = EMPTY if given.empty else given.path, given.dropped
    if restore == EMPTY or (restore is not None and restore.isdigit()):
        return None, ()
    if restore is not None and restore != LATEST:
        return _savepoint(str(Path(restore).resolve())), drop
    return _newest(folder, latest), drop


def _latest(folder: "JobFolder") -> Latest | None:
    from penstock.cluster.launch import latest_name  # noqa: PLC0415
    from penstock.contract.latest import decode_latest  # noqa: PLC0415
    from penstock.storage.sqlite import Database, SqliteMetaStore  # noqa: PLC0415

    if not folder.database.exists():
        return None
    try:
        database = Database(folder.database)
        found = SqliteMetaStore(database).get(latest_name(folder.job))
        database.close()
        return None if found is None else decode_latest(found.data)
    except PenstockError:
        return None  # a run says what is wrong with it


def _newest(folder: "JobFolder", latest: Latest | None) -> "RootManifest | None":
    from penstock.supervisor.committed import read_manifest  # noqa: PLC0415

    return None if latest is None else read_manifest(folder.storage(folder.uid()), latest.root)


def _savepoint(path: str) -> "RootManifest":
    from penstock.keeper.savepoint_copies import read_snapshot  # noqa: PLC0415
    from penstock.protocol.control_actions import ReadSnapshot  # noqa: PLC0415
    from penstock.protocol.control_events import ImportFailed, SnapshotRead  # noqa: PLC0415

    found = read_snapshot(ReadSnapshot(0, path))
    if isinstance(found, SnapshotRead):
        return found.manifest
    reason = found.reason if isinstance(found, ImportFailed) else "it cannot be read"
    raise StateError(f"--restore {path}: {reason}")
