"""Where a job runs: on this machine, or in a cluster. A command asks both in the same way.

:func:`place_of` chooses once. A :class:`JobControl` of :class:`LocalPlace` talks to the supervisor, and
one of :class:`ClusterPlace` to the API server.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from penstock.base.errors import BusyError, ConfigError, PeerError, PenstockError, UnansweredError
from penstock.cli.exits import Exit, print_error

if TYPE_CHECKING:
    from penstock.contract.schemes import Choices
    from penstock.contract.status import JobStatus, RequestAnswer
    from penstock.kubernetes.client import ApiClient
    from penstock.supervisor import JobClient

USER_TIMEOUT_S = 30.0  # people wait longer than Leases do


class JobControl(Protocol):
    """A job that runs. Every method raises UnansweredError when nobody answers for the job."""

    def status(self) -> "JobStatus":
        """Return the job's status."""
        ...

    def rescale(self, workers: int) -> "RequestAnswer":
        """Change the number of workers. Returns when they run, or when they cannot."""
        ...

    def partition(self, choices: "Choices") -> "RequestAnswer":
        """Choose other schemes. Returns when they hold, or when they are refused."""
        ...

    def rebalance(self) -> "RequestAnswer":
        """Deal key groups out by load. Returns when that is done, or when nothing would get better."""
        ...

    def savepoint(self, name: str) -> "RequestAnswer":
        """Take a savepoint. Returns when it is complete or failed."""
        ...


class JobPlace(Protocol):
    """Where jobs run. ``counts_live``: two looks at a status, a moment apart, give rates."""

    counts_live: bool

    def running(self, job: str) -> "AbstractContextManager[JobControl]":
        """Connect to a running job; leave with UNREACHABLE when nobody answers for it."""
        ...

    def logs(self, job: str, worker: int | None, tail: int, *, follow: bool) -> Iterator[str]:
        """Yield the lines that the workers of a job have logged, each with its origin."""
        ...


def place_of(directory: Path, context: str | None, namespace: str | None) -> JobPlace:
    """Return the cluster if either of its options is given, else this machine."""
    if context is None and namespace is None:
        return LocalPlace(directory)
    return ClusterPlace(context, namespace)


class LocalPlace:
    """Jobs whose supervisor runs on this machine. Their files are below ``directory``."""

    counts_live = True

    def __init__(self, directory: Path) -> None:
        """Look below ``directory``."""
        self._directory = directory

    @contextmanager
    def running(self, job: str) -> "Iterator[JobClient]":
        """Connect to the supervisor; leave with UNREACHABLE when there is none or it does not answer.

        A job that answers that it failed to do something is another error, which is passed on.
        """
        from penstock.supervisor import connect  # noqa: PLC0415  needs gRPC

        try:
            client = connect(self._directory.absolute(), job)
        except (BusyError, ConfigError, UnansweredError, PeerError) as error:
            raise _unreachable(error) from error
        try:
            yield client
        except (UnansweredError, PeerError) as error:
            raise _unreachable(error) from error
        finally:
            client.close()

    def logs(self, job: str, worker: int | None, tail: int, *, follow: bool) -> Iterator[str]:
        """Yield the newest lines of each log file.

        Raises ConfigError when there is none, or when another user may have put something into the job's folder.
        """
        from penstock.supervisor.folders import JobFolder  # noqa: PLC0415  keep --help fast

        if follow:
            raise ConfigError("--follow is for a job in a cluster; tail -f follows a local file")
        folder = JobFolder.find(self._directory, job).root
        files = {f"worker-{p.parent.name}": p for p in sorted(folder.glob("workers/*/log"))}
        if worker is None:
            files = {"supervisor": folder / "supervisor.log", **files}
        else:
            files = {name: p for name, p in files.items() if name == f"worker-{worker}"}
        found = {name: path for name, path in files.items() if path.exists()}
        if not found:
            raise ConfigError(f"{folder}: no log of that job is there")
        for name, path in found.items():
            with path.open(encoding="utf-8", errors="replace") as lines:
                for line in deque(lines, tail):
                    yield f"{name} {line.rstrip()}"


class ClusterPlace:
    """Jobs in a namespace of a cluster. The status is written every few seconds, so it has no rates."""

    counts_live = False

    def __init__(self, context: str | None, namespace: str | None) -> None:
        """Ask the cluster of a context of the kubeconfig; None: of its current one."""
        self._context = context
        self._namespace = namespace

    def _client(self) -> "ApiClient":
        from penstock.kubernetes.access import kubeconfig_access  # noqa: PLC0415  needs httpx
        from penstock.kubernetes.client import ApiClient  # noqa: PLC0415

        return ApiClient(kubeconfig_access(self._context, self._namespace, os.environ), USER_TIMEOUT_S)

    @contextmanager
    def running(self, job: str) -> Iterator[JobControl]:
        """Ask about a job; leave with UNREACHABLE when the API server does not answer, or has no such job."""
        from penstock.kubernetes.job_client import ClusterJobClient, NoSuchJobError  # noqa: PLC0415

        client = ClusterJobClient(self._client(), job)
        try:
            yield client
        except (NoSuchJobError, UnansweredError, PeerError) as error:
            raise _unreachable(error) from error
        finally:
            client.close()

    def logs(self, job: str, worker: int | None, tail: int, *, follow: bool) -> Iterator[str]:
        """Yield lines of the containers' logs: one log after the other, or all of them as they come."""
        from penstock.kubernetes.logs import read_logs, streams_of  # noqa: PLC0415

        client = self._client()
        streams = streams_of(client, job, worker)
        for stream, line in read_logs(client, streams, tail, follow=follow):
            yield f"{stream.pod} {stream.container} {line}"
        client.close()


def _unreachable(error: PenstockError) -> typer.Exit:
    print_error(str(error))
    return typer.Exit(Exit.UNREACHABLE)
