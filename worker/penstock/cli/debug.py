"""``penstock run --debug``: everything in this process, in the foreground, for a debugger.

::

    this process:  command line ── supervisor ── gRPC ── keeper ── socket pair ── engine
                   main thread     thread                thread                   thread, tasks

The supervisor, the keeper and the engine are those of any other run, as threads instead of
processes. So a breakpoint has the terminal, and what the user's functions print appears there. Checkpoints,
recoveries and the output's guarantee are the same. But a thread cannot be killed, and user code that
holds the interpreter's lock keeps the leader from renewing its Lease.
"""

import logging
import os
import socket
import subprocess
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from penstock.cli.preflight import check_paths
from penstock.cli.record import JobRecord, record_of
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.link import EngineLink
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.contract.control_messages import EngineLaunch
from penstock.engine.main import begin, empty_scratch, log_to, obey, say_at_once, set_up_process
from penstock.graph import load_job
from penstock.keeper.keeper import Keeper
from penstock.keeper.keeper_messages import Leave
from penstock.keeper.platforms import LocalPlatform
from penstock.metrics.logs import Log
from penstock.supervisor.workers import StartKeeper

if TYPE_CHECKING:
    from penstock.graph import JobFile
    from penstock.graph.compiled import CompiledJob

STATUS_ABANDONED = -9  # as of SIGKILL: the thread is no longer waited for
STATUS_FAILED = 1


def keepers_of(file: "JobFile") -> tuple[StartKeeper, JobRecord]:
    """Return what runs a keeper and its engine in threads of this process, and what that runs.

    The job is loaded here, once, for all lives of the engine. Raises ConfigError as ``validate``.
    """
    job = load_job(file, ConnectorInspector())
    check_paths(job)
    logging.basicConfig(level=logging.INFO)  # where the user's modules have not set it up
    say_at_once()
    set_up_process()
    return partial(KeeperThread, job), record_of(job, file)


class _Life:
    """A thread that is waited for like a process. Its status is there when it has ended."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._status = 0
        self._over = threading.Event()

    def _begin(self, name: str) -> None:
        threading.Thread(target=self._live, name=name, daemon=True).start()

    def _live(self) -> None:
        try:
            self._status = self._run()
        finally:
            self._over.set()

    def _run(self) -> int:
        raise NotImplementedError

    def kill(self) -> None:
        """Wait for it no longer: a thread cannot be ended."""
        if not self._over.is_set():
            self._status = STATUS_ABANDONED
            self._over.set()


class KeeperThread(_Life):
    """A keeper in a thread; see :class:`penstock.supervisor.workers.KeeperProcess`."""

    def __init__(self, job: "CompiledJob", launch: KeeperLaunch, log: Path) -> None:
        """Start it; it and its engine, which runs ``job``, write to ``log``."""
        super().__init__()
        self._launch = launch
        self._log = log.open("a", encoding="utf-8")
        self._job = job
        self._told = threading.Event()
        self._keeper: Keeper | None = None
        self._begin("keeper")

    def _run(self) -> int:
        launch = self._launch
        log = Log("keeper", {"job": launch.job, "worker": launch.ordinal}, self._log)
        try:
            self._keeper = Keeper(launch, LocalPlatform(launch, self._engine), log)
            if self._told.is_set():
                self.terminate()
            self._keeper.run()
        except Exception as error:
            with suppress(OSError):
                traceback.print_exception(error, file=self._log)
            return STATUS_FAILED
        return 0

    def _engine(self, launch: EngineLaunch, theirs: socket.socket) -> "EngineThread":
        return EngineThread(launch, theirs, self._job, self._log)

    def ended(self) -> bool:
        """Say whether it has ended."""
        return self._over.is_set()

    def wait_for_end(self) -> None:
        """Block until it has ended."""
        self._over.wait()

    def wait(self) -> int:
        """Return its status when it has ended."""
        self._over.wait()
        return self._status

    def terminate(self) -> None:
        """Ask it to leave, as SIGTERM does."""
        self._told.set()
        if self._keeper is not None:
            self._keeper.inbox.put(Leave("SIGTERM"))


class EngineThread(_Life):
    """An engine in a thread; see :class:`penstock.keeper.engine_process.Child`."""

    def __init__(self, launch: EngineLaunch, theirs: socket.socket, job: "CompiledJob", log: TextIO) -> None:
        """Start it; it gets a copy of ``theirs``."""
        super().__init__()
        self._launch = launch
        self._log = log
        self._job = job
        self._link = EngineLink.connect(f"fd:{os.dup(theirs.fileno())}")
        self._begin("engine")

    def _run(self) -> int:
        launch = self._launch
        handler = log_to(self._log, launch.ordinal)
        empty_scratch(launch)
        try:
            worker = begin(launch, self._link, self._job)
            try:
                return obey(worker, launch, self._link)
            finally:
                self._link.close()
                worker.close()
        except Exception as error:
            self._link.close()
            with suppress(OSError):
                traceback.print_exception(error, file=self._log)
            return STATUS_FAILED
        finally:
            logging.getLogger("penstock").removeHandler(handler)

    def wait(self, timeout: float | None = None) -> int:
        """Return the status when it has ended. Raises subprocess.TimeoutExpired."""
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        return self._status

    @property
    def memory(self) -> str:
        """Return nothing: what ends for want of memory is the process, and this one with it."""
        return ""

    def lines(self) -> Iterator[str]:
        """Have nothing to say on a standard error of its own."""
        return iter(())
