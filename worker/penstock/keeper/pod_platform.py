"""A keeper in a pod: what it finds mounted, whom it asks, and how it ends.

Errors that a person has to mend end the process with a reason in the termination message, which
``kubectl describe pod`` shows and the operator reads.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from penstock.base import limits
from penstock.base.errors import ConfigError, PeerError, PenstockError, StateError, StorageError
from penstock.base.values import replace
from penstock.cluster.host import SOCKET_NAME
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.rpc import Client, ListenAddress
from penstock.contract import pod
from penstock.contract.codec import parsed
from penstock.contract.control_messages import EnginePlace
from penstock.contract.ids import JobUid, Ordinal
from penstock.contract.job_reader import read_stream_job
from penstock.contract.pod import desired_name
from penstock.contract.streamjob import StreamJob
from penstock.keeper.effects import refuse_newer
from penstock.keeper.engine_launcher import EngineLauncher
from penstock.keeper.engine_process import Spawn
from penstock.keeper.keeper import Keeper
from penstock.keeper.keeper_messages import Leave
from penstock.keeper.platforms import Announcing, KeeperView, Served
from penstock.keeper.probes import Probes
from penstock.keeper.status_publisher import StatusBoard, StatusPublisher
from penstock.kubernetes.access import Access, pod_access
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.config_maps import ConfigMapMetaStore
from penstock.kubernetes.lease import KubernetesLeaseStore
from penstock.kubernetes.watch import ObjectWatch
from penstock.metrics.logs import JsonLog, Log, WrappedErrors
from penstock.metrics.pages import Pages
from penstock.metrics.registry import registry_of
from penstock.ports import LeaseStore, MetaStore
from penstock.protocol.core_context import ControlSettings
from penstock.storage.trust import TrustFolder, TrustWatch

CONTROL_TOKEN = b"control"
EXIT_OK, EXIT_BUG, EXIT_EDIT, EXIT_STORAGE = 0, 1, 2, 3


class VolumeError(StorageError):
    """The checkpoints' volume cannot be used."""


class TrustError(ConfigError):
    """The job's certificates cannot be used."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """Everything that the operator gave this pod; ``root`` is where its mounts are, ``/``."""

    job: StreamJob
    job_uid: JobUid
    ordinal: Ordinal
    pod_name: str
    pod_uid: str
    pod_ip: str
    namespace: str
    grace_s: float
    trust: TrustFolder | None
    root: str


# --- What is mounted --------------------------------------------------------------------------


def read_mounted(environment: Mapping[str, str]) -> Mounted:
    """Read it all. Raises ConfigError naming what is missing or wrong, TrustError among them."""
    name = _variable(environment, pod.ENV_POD_NAME)
    base, _, number = name.rpartition("-")
    if not base or not number.isdecimal():
        raise ConfigError(f"{pod.ENV_POD_NAME}={name!r}: a worker's pod is named NAME-ORDINAL")
    root = environment.get(pod.ENV_ROOT, "/")
    job_file = pod.below(root, pod.JOB_FILE)
    job, uid = _read_job(Path(job_file))
    namespace = _variable(environment, pod.ENV_NAMESPACE)
    if job.namespace != namespace:
        raise ConfigError(f"{job_file}: namespace {job.namespace!r}, not {namespace!r}")
    return Mounted(
        job=job,
        job_uid=uid,
        ordinal=Ordinal(int(number)),
        pod_name=name,
        pod_uid=_variable(environment, pod.ENV_POD_UID),
        pod_ip=_variable(environment, pod.ENV_POD_IP),
        namespace=namespace,
        grace_s=_seconds(environment, pod.ENV_GRACE_S),
        trust=_read_trust(job, root),
        root=root,
    )


def _variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise ConfigError(f"{name} is not set: the pod's template gives it by the downward API")
    return value


def _seconds(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "30")
    if not text.isdecimal():
        raise ConfigError(f"{name}={text!r}: a whole number of seconds")
    return float(text)


def _read_job(path: Path) -> tuple[StreamJob, JobUid]:
    try:
        plain = parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (PeerError, UnicodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    job = read_stream_job(plain)
    uid = plain["metadata"].get("uid")
    if not isinstance(uid, str) or not uid:
        raise ConfigError(f"{path}: metadata.uid is missing: checkpoints belong to one object")
    return job, JobUid(uid)


def _read_trust(job: StreamJob, root: str) -> TrustFolder | None:
    if not job.spec.security.mtls:
        return None
    try:
        host = pod.certificate_host(job.name, job.namespace)
        return TrustFolder(Path(pod.below(root, pod.TRUST_FOLDER)), host)
    except ConfigError as error:
        raise TrustError(str(error)) from error


def check_volume(path: Path) -> None:
    """Make the job's folder and write in it. Raises VolumeError saying what is in the way."""
    probe = path / f".probe-{uuid.uuid4()}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"1")
        probe.unlink()
    except OSError as error:
        raise VolumeError(
            f"{path}: {error.strerror}: checkpoints need a ReadWriteMany claim that the pod's user can write to"
        ) from error


# --- Platform ---------------------------------------------------------------------------------


class PodPlatform:
    """:class:`penstock.keeper.platforms.Platform` in a pod of a cluster."""

    def __init__(self, mounted: Mounted, access: Access) -> None:
        """Ask the API server by ``access``; listen for the engine's container."""
        job, trust = mounted.job.name, mounted.trust
        self._mounted = mounted
        # The Lease has a client of its own: nothing slower may delay a renewal.
        self._client, own, self._beside = (ApiClient(access) for _ in range(3))
        self.metadata: MetaStore = ConfigMapMetaStore(self._client)
        duration_s = limits.LEASE_DURATION_S
        name = pod.lease_name(job)
        self.lease: LeaseStore = KubernetesLeaseStore(own, name, duration_s, _wall_us)
        self.listen = ListenAddress(mounted.pod_ip, pod.CONTROL_PORT, trust=trust)
        self.place = EnginePlace(
            mounted.pod_ip,
            pod.FLIGHT_PORT,
            ingest_port=pod.INGEST_PORT,
            trust=None if trust is None else self._below(pod.TRUST_FOLDER),
            certificate_host=pod.certificate_host(job, mounted.namespace),
        )
        self._hosts = EngineLauncher(Path(self._below(pod.RUN_FOLDER)) / SOCKET_NAME)
        self.spawn: Spawn = self._hosts.spawn
        self.pod = mounted.pod_uid
        self.drain_s = max(0.0, mounted.grace_s - limits.GRACE_RESERVE_S)

    def launch(self) -> KeeperLaunch:
        """Return what the keeper is started with."""
        mounted, job = self._mounted, self._mounted.job
        namespace, uid = mounted.namespace, mounted.job_uid
        return KeeperLaunch(
            job_uid=uid,
            job=job.name,
            namespace=namespace,
            ordinal=mounted.ordinal,
            supervisor="",
            token=self._token(),
            job_file=self._below(pod.JOB_FILE),
            storage=self._below(pod.checkpoint_path(namespace, job.name, uid)),
            savepoints=self._below(pod.savepoint_path(namespace, job.name)),
            scratch=self._below(pod.SCRATCH_FOLDER),
            pages=self._below(pod.RUN_FOLDER),
            control=control_settings(job),
        )

    def dial(self, address: str) -> Client:
        """Return a client of another keeper of this job."""
        return Client(address, self._token(), self._mounted.trust)

    def reporter(self, view: KeeperView) -> Announcing:
        """Tell the leader, and everybody while this keeper leads."""
        job = self._mounted.job.name
        store = ConfigMapMetaStore(self._beside)
        board = StatusBoard(store, pod.status_name(job))
        return StatusPublisher(view, self.dial, board, job, self.launch().storage)

    def pages(self, view: KeeperView) -> Served:
        """Serve probes and metrics to the cluster."""
        registry = registry_of(self._mounted.job.name, view.report)
        probes = Probes(view.facts, self._hosts.absent_s).by_path()
        return Pages((self._mounted.pod_ip, pod.HTTP_PORT), registry, pod.METRICS_PATH, probes)

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Watch what is wanted."""
        wanted = desired_name(self._mounted.job.name)
        ObjectWatch(self._beside, "configmaps", wanted).start(lambda: changed((wanted,)))

    def _below(self, path: str) -> str:
        return pod.below(self._mounted.root, path)

    def _token(self) -> str:
        trust = self._mounted.trust
        # Without mTLS the uid at least keeps other jobs' workers apart.
        uid = self._mounted.job_uid
        return uid if trust is None else trust.now.token(CONTROL_TOKEN, uid.encode())


def control_settings(job: StreamJob) -> ControlSettings:
    """Return the times of a cluster's control plane, with the job's own of checkpoints."""
    checkpoint = job.spec.checkpoint
    return replace(
        ControlSettings().with_restart(job.spec.restart),
        checkpoint_interval_s=checkpoint.interval_s,
        checkpoint_timeout_s=checkpoint.timeout_s,
        checkpoint_min_pause_s=checkpoint.min_pause_s,
        checkpoint_first_delay_s=min(limits.CHECKPOINT_FIRST_DELAY_S, checkpoint.interval_s),
        retain=checkpoint.retain,
    )


def _wall_us() -> int:
    return time.time_ns() // 1000


# --- The process ------------------------------------------------------------------------------


def main() -> int:
    """Run the keeper of this pod to its end. Gives the exit status."""
    ids = {"pod": os.environ.get(pod.ENV_POD_NAME)}
    errors = WrappedErrors("keeper", dict(ids))
    log: Log = JsonLog("keeper", dict(ids), errors.stream)
    try:
        return _run(errors.stream)
    except BaseException as error:
        status, ended = judge(error)
        log.say("keeper cannot go on", reason=ended.reason, message=ended.message)
        root = os.environ.get(pod.ENV_ROOT, "/")
        say_why(ended, Path(pod.below(root, pod.TERMINATION_FILE)))
        return status
    finally:
        errors.close()


def _run(stream: TextIO) -> int:
    mounted = read_mounted(os.environ)
    log = JsonLog("keeper", {"job": mounted.job.name, "worker": mounted.ordinal}, stream)
    tokens = Path(pod.below(mounted.root, pod.TOKEN_FOLDER))
    access = pod_access(os.environ, tokens, mounted.namespace)
    around = PodPlatform(mounted, access)
    launch = around.launch()
    check_volume(Path(launch.storage))
    refuse_newer(around.metadata, pod.latest_name(mounted.job.name))
    keeper = Keeper(launch, around, log)
    if mounted.trust is not None:
        _watch(mounted.trust, log)

    def leave(number: int, _frame: object) -> None:
        # The handler may have interrupted the loop while it holds the queue's own lock.
        item = Leave(signal.Signals(number).name)
        threading.Thread(target=keeper.inbox.put, args=(item,), daemon=True).start()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    keeper.run()
    return EXIT_OK


def _watch(trust: TrustFolder, log: Log) -> None:
    """Take renewed certificates as soon as they are mounted; who dials asks for those of now."""

    def taken() -> None:
        log.say("certificates renewed")

    def refused(reason: str) -> None:
        log.say("certificates refused", reason=reason)

    TrustWatch(trust, taken, refused).start()


def judge(error: BaseException) -> tuple[int, pod.Termination]:
    """Return the exit status and the reason for what a keeper could not go on with."""
    match error:
        case TrustError():
            return EXIT_EDIT, pod.Termination(pod.TRUST_INVALID, str(error))
        case ConfigError():
            return EXIT_EDIT, pod.Termination(pod.CONFIG_INVALID, str(error))
        case VolumeError():
            return EXIT_STORAGE, pod.Termination(pod.VOLUME_UNUSABLE, str(error))
        case StateError():
            return EXIT_STORAGE, pod.Termination(pod.STATE_UNUSABLE, str(error))
        case PenstockError():
            return EXIT_STORAGE, pod.Termination(pod.VOLUME_UNUSABLE, str(error))
        case _:
            text = "".join(traceback.format_exception(error))
            return EXIT_BUG, pod.Termination(pod.CRASHED, text)


def say_why(ended: pod.Termination, path: Path) -> None:
    """Write the termination message. A machine has no such file, and no reader of it."""
    text = json.dumps({"reason": ended.reason, "message": ended.message[-TEXT_CHARS_MAX:]})
    with suppress(OSError):
        path.write_text(text, encoding="utf-8")
    sys.stderr.flush()


TEXT_CHARS_MAX = 2000  # of the 4096 bytes that the kubelet keeps
