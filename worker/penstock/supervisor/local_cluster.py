"""One job's cluster on this machine: a server, a loop, and the processes it keeps running."""

import os
import secrets
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.limits import (
    SILENT_KEEPER_S,
    SUPERVISOR_LINGER_S,
    SUPERVISOR_LOOK_INTERVAL_S,
)
from penstock.base.values import replace
from penstock.cluster import rpc
from penstock.cluster.host import ForkServer, start_fork_server
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.metadata import Changes, NotedMetaStore, metadata_handlers
from penstock.cluster.rpc import Handler, Method, Nothing, Server
from penstock.contract.ids import Ordinal
from penstock.contract.latest import Latest, Restore, is_done
from penstock.contract.schemes import Choices
from penstock.contract.status import ENDED, JobState, JobStatus, RequestAnswer, WorkerReport
from penstock.contract.summary import Seen, job_status
from penstock.contract.worker_rules import is_over, workers_needed
from penstock.metrics.logs import Log
from penstock.ports import SwapConflict, SwapUnknown
from penstock.storage.lock import DirectoryLock
from penstock.storage.sqlite import Database, SqliteLeaseStore, SqliteMetaStore
from penstock.supervisor.committed import committed_rows, read_manifest
from penstock.supervisor.folders import Endpoint, JobFolder
from penstock.supervisor.job_objects import JobObjects
from penstock.supervisor.reports import Reports, to_end
from penstock.supervisor.settings import ClusterSettings
from penstock.supervisor.wording import as_options
from penstock.supervisor.workers import KeeperChild, StartKeeper, Workers


class LocalCluster:
    """A job and its workers. All methods may be called from any thread after :meth:`start`."""

    def __init__(
        self,
        settings: ClusterSettings,
        forks: ForkServer | None = None,
        keepers: StartKeeper | None = None,
    ) -> None:
        """Remember the settings; nothing is opened or started yet.

        ``forks``: a fork server that was started before; without it :meth:`start` starts one.
        ``keepers`` starts keepers that need none, in another way than as processes of their own.
        """
        self._settings = settings
        self._keepers = keepers
        self._forks = forks
        self._wake = threading.Event()
        self._changes = Changes()
        self._ended = threading.Event()
        self._kill = False
        self._final: JobStatus | None = None
        self._seen: JobStatus | None = None  # the newest status: what is known if the end fails
        self._reports = Reports()
        self._epoch_seen = (0, 0)
        self._closing = False
        self._has_run = False

    def start(self) -> None:
        """Take the job's folder, serve metadata and Lease, and start the workers.

        Raises BusyError when the job is already running here, StateError when its metadata
        cannot be read.
        """
        settings = self._settings
        settings.check_workers(settings.workers)
        self._folder = JobFolder.make(settings.directory, settings.job, settings.namespace)
        self._lock = DirectoryLock(self._folder.root, f"job {settings.job!r}")
        self._log_file = self._folder.log.open("a")
        if self._keepers is None:
            self._forks = self._forks or start_fork_server()
        try:
            self._open(settings)
        except BaseException:
            self._close_forks()
            self._log_file.close()
            self._lock.release()
            raise
        self._log.say("supervisor started", pid=os.getpid(), workers=settings.workers)
        threading.Thread(target=self._run, name="supervisor", daemon=True).start()

    def _open(self, settings: ClusterSettings) -> None:
        self._log = Log("supervisor", {"job": settings.job}, self._log_file)
        self._uid = self._folder.uid()
        self._database = Database(self._folder.database)
        store = SqliteMetaStore(self._database)
        metadata = NotedMetaStore(store, self._noted)
        lease = SqliteLeaseStore(self._database, settings.control.lease_duration_s)
        _release(lease)
        # What the loop writes does not wake it: a store that fails would never let it rest.
        self._wanted = JobObjects(NotedMetaStore(store, self._changes.note), settings.job, self._uid)
        self._wanted.begin(settings.workers, settings.restore, settings.partition)
        latest = self._wanted.latest()
        self._before = read_manifest(self._folder.storage(self._uid), latest.root)
        self._restores = pending_restore(latest, settings.restore)
        self._token = secrets.token_hex(16)
        start = self._keepers or KeeperChild
        self._workers = Workers(self._folder, self._launch, self._wake.set, start)
        handlers = {
            **metadata_handlers(metadata, lease),
            **self._changes.handlers(),
            **self._handlers(),
        }
        self._server = Server(handlers, self._token, waiting=2 * settings.max_key_groups)
        self._folder.announce(Endpoint(os.getpid(), self._server.address, self._token))

    def wait(self, timeout_s: float) -> JobStatus | None:
        """Wait for the end of the run. Returns the last status then, None when it goes on."""
        self._ended.wait(timeout_s)
        return self._final if self._ended.is_set() else None

    def status(self) -> JobStatus:
        """Return where the job stands."""
        if self._final is not None:
            return self._final
        pids = self._workers.pids()
        latest = self._wanted.latest()
        now = _wall_us()
        if latest.epoch != self._epoch_seen[0]:
            self._epoch_seen = (latest.epoch, now)
        status = job_status(
            Seen(
                job=self._settings.job,
                latest=latest,
                desired=self._wanted.desired(),
                reports=self._reports.all() if self._closing else self._reports.of(pids),
                keepers=pids,
                restarts={o: self._workers.restarts(o) for o in pids},
                answers=self._wanted.answers(),
                storage=str(self._folder.storage(self._uid)),
                address=self._server.address,
                time_us=now,
                epoch_time_us=self._epoch_seen[1],
                has_run=self._has_run,
                trouble=self._workers.trouble(),
            )
        )
        self._has_run = self._has_run or status.state is JobState.RUNNING
        if status.failure is not None:
            status = replace(status, failure=as_options(status.failure))
        sinks = tuple(replace(sink, because=as_options(sink.because)) for sink in status.sinks)
        status = replace(status, sinks=sinks)
        self._seen = status
        return status

    def rescale(self, workers: int) -> RequestAnswer:
        """Want another number of workers; watch :meth:`status` or :meth:`answer` for the rest."""
        self._settings.check_workers(workers)
        answer = self._wanted.rescale(workers)
        self._wake.set()
        return answer

    def partition(self, choices: Choices) -> RequestAnswer:
        """Want other schemes of some steps; watch :meth:`status` or :meth:`answer` for the rest."""
        answer = self._wanted.partition(choices)
        self._wake.set()
        return answer

    def rebalance(self) -> RequestAnswer:
        """Want key groups dealt out by load; watch :meth:`status` or :meth:`answer` for the rest."""
        answer = self._wanted.rebalance()
        self._wake.set()
        return answer

    def request(self, kind: str, argument: str | None = None) -> RequestAnswer:
        """Ask for a ``checkpoint``, ``savepoint`` or ``stop``; does not wait for it."""
        answer = self._wanted.ask(kind, argument)
        self._wake.set()
        return answer

    def answer(self, request_id: str) -> RequestAnswer:
        """Say what became of a request. Raises ConfigError when it is not known."""
        return self._wanted.answer(request_id)

    def stop(self, savepoint: str | None = None) -> RequestAnswer:
        """Ask for a clean stop: a last checkpoint, kept when ``savepoint`` names it."""
        return self.request("stop", savepoint)

    def kill(self) -> None:
        """End all processes at once, and wait for that: the next run goes on from -latest."""
        self._kill = True
        self._wake.set()
        self._ended.wait()

    def _handlers(self) -> Mapping[Method[Any, Any], Handler]:
        def announce(report: WorkerReport) -> Nothing:
            self._reports.put(report)
            return Nothing()

        def ask(request: rpc.Ask) -> RequestAnswer:
            answer = self.request(request.kind, request.argument)
            self._wanted.expect_reader(answer.id)
            return answer

        def end(_request: rpc.End) -> Nothing:
            self._kill = True
            self._wake.set()
            return Nothing()

        return {
            rpc.ANNOUNCE: announce,
            rpc.STATUS: lambda _: self.status(),
            rpc.RESCALE: lambda request: self.rescale(request.workers),
            rpc.PARTITION: lambda request: self.partition(request.choices),
            rpc.REBALANCE: lambda _: self.rebalance(),
            rpc.ASK: ask,
            rpc.ANSWER: lambda request: self.answer(request.id),
            rpc.END: end,
        }

    def _launch(self, ordinal: Ordinal) -> KeeperLaunch:
        settings, folder = self._settings, self._folder
        return KeeperLaunch(
            job_uid=self._uid,
            job=settings.job,
            namespace=settings.namespace,
            ordinal=ordinal,
            supervisor=self._server.address,
            token=self._token,
            job_file=str(settings.job_file.absolute()),
            storage=str(folder.storage(self._uid)),
            savepoints=str(folder.savepoints),
            scratch=str(folder.worker(ordinal) / "scratch"),
            control=settings.control_settings(),
            forks=self._forks.address if self._forks is not None else "",
        )

    def _noted(self, name: str) -> None:
        """Have keepers and the loop look at what a keeper has written."""
        self._changes.note(name)
        self._wake.set()

    def _run(self) -> None:
        failure: str | None = None
        try:
            while not self._kill and self._pass():
                self._wake.wait(self._pause_s())
                self._wake.clear()
        except Exception as error:
            failure = f"the supervisor failed: {type(error).__name__}: {error}"
            with suppress(OSError):  # a full disk, which may be what failed
                traceback.print_exception(error, file=self._log_file)
        try:
            self._finish(failure)
        except Exception as error:  # those who wait must be told of the end, whatever fails in it
            why = failure or f"the supervisor failed: {type(error).__name__}: {error}"
            state, now = JobState.FAILED, _wall_us()
            nothing = JobStatus(self._settings.job, self._uid, state, now)
            known = self._final or self._seen or nothing
            self._final = replace(known, state=state, time_us=now, failure=why)
            self._ended.set()

    def _pause_s(self) -> float:
        due = self._workers.next_due()
        if due is None:
            return SUPERVISOR_LOOK_INTERVAL_S
        return min(SUPERVISOR_LOOK_INTERVAL_S, max(0.0, due - time.monotonic()))

    def _pass(self) -> bool:
        """Do what is due. False when the run is over and every process has ended."""
        try:
            self._wanted.collect()
            self._wanted.stop_when_due(time.monotonic())
            latest, desired = self._wanted.latest(), self._wanted.desired()
        except (PenstockError, SwapConflict, SwapUnknown) as error:
            self._log.say("metadata store failed", reason=str(error))
            return True
        pids = self._workers.pids()
        running = max(pids, default=-1) + 1
        for ordinal in to_end(latest.lost, self._reports.announced(pids), SILENT_KEEPER_S):
            self._log.say("ending a silent worker that was given up", worker=ordinal)
            self._workers.kill(ordinal)
        for news in self._workers.run_all(workers_needed(latest, desired, running)):
            self._log.say(news)
        return not is_over(latest, desired) or bool(self._workers.pids())

    def _finish(self, failure: str | None) -> None:
        self._workers.kill_all()
        self._close_forks()
        self._closing = True
        status = self.status()
        if failure is not None:
            status = replace(status, state=JobState.FAILED, failure=failure)
        elif status.state not in ENDED:
            status = replace(status, state=JobState.STOPPED, failure="ended at once, on request")
        root = self._wanted.latest().root
        newest = read_manifest(self._folder.storage(self._uid), root)
        rows = committed_rows(newest, self._before, known=not self._restores)
        self._final = replace(status, committed=rows)
        if not self._kill:
            self._wanted.wait_for_readers(SUPERVISOR_LINGER_S)
        self._wanted.close()
        self._log.say("supervisor ended", state=status.state, failure=status.failure)
        self._folder.retract()
        self._changes.close()
        self._server.close()
        self._database.close()
        self._log_file.close()
        self._lock.release()
        self._ended.set()

    def _close_forks(self) -> None:
        if self._forks is not None:
            self._forks.close()


def _release(lease: SqliteLeaseStore) -> None:
    """Free a Lease that an earlier run left: its holder can no longer reach this store."""
    view = lease.read()
    if view.holder is not None:
        lease.write(None, view.version)


def pending_restore(latest: Latest, wanted: Restore | None) -> bool:
    """Say whether a run begins from another checkpoint than the newest one."""
    return wanted is not None and not is_done(wanted, latest.restored)


def _wall_us() -> int:
    return time.time_ns() // 1000
