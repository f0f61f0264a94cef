"""From a job file to a local cluster's settings: where its copy is kept, what it begins from."""

import hashlib
import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.contract.ids import Epoch
from penstock.contract.latest import Restore, SinkRestore, Unpublished, overriding
from penstock.contract.settings import CheckpointSettings
from penstock.contract.streamjob import Spec
from penstock.protocol.core_context import ControlSettings

if TYPE_CHECKING:
    from penstock.graph import JobFile
    from penstock.supervisor.settings import ClusterSettings

LATEST = "latest"
EMPTY = "empty"


def kept_path(job: "JobFile", directory: Path) -> Path:
    """Name the kept copy by its content: that of a running job is never written over."""
    text = json.dumps([job.plain, dict(job.origin.places)], sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:12]
    return directory.absolute() / job.job.name / f"job-{mark}.json"


def cluster_settings(job: "JobFile", directory: Path, restore: Restore | None) -> "ClusterSettings":
    """Return what the supervisor is started with; ``directory`` is that of all jobs."""
    from penstock.supervisor.settings import ClusterSettings  # noqa: PLC0415  keep --help fast

    return ClusterSettings(
        job=job.job.name,
        namespace=job.job.namespace,
        job_file=kept_path(job, directory),
        directory=directory.absolute(),
        workers=job.job.spec.replicas,
        restore=restore,
        checkpoint=job.job.spec.checkpoint,
        max_key_groups=job.job.spec.max_key_groups,
        partition=job.job.spec.choices,
        control=control_settings(job.job.spec.checkpoint).with_restart(job.job.spec.restart),
    )


def control_settings(checkpoint: CheckpointSettings) -> ControlSettings:
    """Return times that fit one machine: a short lease, and a first checkpoint that comes early."""
    return ControlSettings(
        lease_duration_s=limits.LOCAL_LEASE_DURATION_S,
        lease_renew_deadline_s=limits.LOCAL_LEASE_RENEW_DEADLINE_S,
        lease_retry_s=limits.LOCAL_LEASE_RETRY_S,
        meta_poll_interval_s=limits.LOCAL_META_POLL_INTERVAL_S,
        checkpoint_first_delay_s=min(limits.CHECKPOINT_FIRST_DELAY_S, checkpoint.interval_s),
    )


def restore_of(
    spec: Spec,
    wanted: str | None,
    *,
    replay_output: bool,
    drop_unpublished: bool,
    drop_state: Sequence[str] = (),
    unpublished: Sequence[str] = (),
) -> Restore | None:
    """Return what to begin from: what the command says (each time anew), else ``spec.restore``.

    ``wanted`` is ``latest``, an epoch's number, ``empty`` for no state at all, or the folder of a
    savepoint; to give state or output up without it means ``latest``. ``unpublished`` has texts like
    ``out=Drop``. Raises ConfigError for another text, and when that folder is not there.
    """
    dropped = tuple(dict.fromkeys(drop_state))
    sinks = tuple(map(_sink_restore, unpublished))
    if wanted is None and (dropped or sinks or drop_unpublished):
        wanted = LATEST
    if wanted == EMPTY and dropped:
        raise ConfigError("--restore empty gives up all state: leave --drop-state out")
    if wanted is not None:
        path = None if wanted in {LATEST, EMPTY} or wanted.isdigit() else _folder(wanted)
        epoch = Epoch(int(wanted)) if wanted.isdigit() else None
        given = spec.restore
        file = None if given is None else Restore(given.nonce)
        nonce = overriding(str(uuid.uuid4()), file)
        return Restore(nonce, path, epoch, replay_output, drop_unpublished, wanted == EMPTY, dropped, sinks)
    given = spec.restore
    if given is None:
        return None
    if given.snapshot_ref is not None:
        raise ConfigError("restore.snapshotRef names a StreamSnapshot of a cluster; use restore.path")
    return Restore(
        given.nonce,
        path=_folder(given.path) if given.path is not None else None,
        allow_output_replay=given.allow_output_replay,
        drop_unpublished=given.drops_unpublished,
        empty=given.empty is True,
        drop_state=given.dropped,
        unpublished=given.sinks,
    )


def _sink_restore(text: str) -> SinkRestore:
    sink, _, how = text.rpartition("=")
    if not sink or how not in tuple(Unpublished):
        raise ConfigError(f"--unpublished {text}: give SINK=Fail, SINK=Publish, SINK=Skip or SINK=Drop")
    return SinkRestore(sink, Unpublished(how))


def _folder(path: str) -> str:
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise ConfigError(f"--restore {path}: there is no such folder; give a savepoint's, latest or empty")
    return str(folder)
