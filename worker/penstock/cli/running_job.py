"""Commands about a job that runs: status, rescale, checkpoint, savepoint, stop, logs, replay."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base import limits
from penstock.base.errors import BusyError, ConfigError, PeerError, PenstockError, UnansweredError
from penstock.cli.exits import Exit, print_error
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    ContextOption,
    DirectoryOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
)
from penstock.contract import codec
from penstock.contract.status import ENDED, JobStatus

if TYPE_CHECKING:
    from penstock.contract.status import RequestAnswer
    from penstock.kubernetes.client import ApiClient
    from penstock.kubernetes.job_client import ClusterJobClient
    from penstock.supervisor import JobClient

BETWEEN_LOOKS_S = 1.5  # engines count once a second; rates need two different counts
TAIL_DEFAULT = 200
USER_TIMEOUT_S = 30.0  # people wait longer than Leases do

WorkerOption = Annotated[int | None, typer.Option("--worker", "-w", metavar="N", min=0, help="only this worker")]
TailOption = Annotated[int, typer.Option("--tail", metavar="LINES", min=1, help="newest lines of each log")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="go on as they come (in a cluster)")]


def in_cluster(context: str | None, namespace: str | None) -> bool:
    """Say whether a job of a cluster is meant: either option says so."""
    return context is not None or namespace is not None


def api_client(context: str | None, namespace: str | None) -> "ApiClient":
    """Return a client of the cluster that the kubeconfig names. Raises ConfigError."""
    from penstock.kubernetes.access import kubeconfig_access  # noqa: PLC0415  needs httpx
    from penstock.kubernetes.client import ApiClient  # noqa: PLC0415

    return ApiClient(kubeconfig_access(context, namespace, os.environ), USER_TIMEOUT_S)


@contextmanager
def cluster_client_of(job: str, context: str | None, namespace: str | None) -> "Iterator[ClusterJobClient]":
    """Ask about a job in a cluster; leave with UNREACHABLE when its server does not answer."""
    from penstock.kubernetes.job_client import ClusterJobClient  # noqa: PLC0415

    client = ClusterJobClient(api_client(context, namespace), job)
    try:
        yield client
    except (UnansweredError, PeerError) as error:
        raise _unreachable(error) from error
    finally:
        client.close()


@contextmanager
def client_of(directory: Path, job: str) -> "Iterator[JobClient]":
    """Connect to a running job; leave with UNREACHABLE when there is none or it does not answer.

    A job that answers that it failed to do something is another error, which is passed on.
    """
    from penstock.supervisor import connect  # noqa: PLC0415  needs gRPC

    try:
        client = connect(directory.absolute(), job)
    except (BusyError, ConfigError, UnansweredError, PeerError) as error:
        raise _unreachable(error) from error
    try:
        yield client
    except (UnansweredError, PeerError) as error:
        raise _unreachable(error) from error


def _unreachable(error: PenstockError) -> typer.Exit:
    print_error(str(error))
    return typer.Exit(Exit.UNREACHABLE)


def report(answer: "RequestAnswer", as_json: bool) -> None:
    """Print an answer and leave with FAILED when the request was refused or failed."""
    print(codec.encode(answer).decode() if as_json else answer.text or f"{answer.kind}: done")
    if answer.ok is False:
        raise typer.Exit(Exit.FAILED)


def _look(client: "JobClient", *, once: bool) -> tuple[JobStatus | None, JobStatus]:
    now = client.status()
    if once or now.state in ENDED:
        return None, now
    time.sleep(BETWEEN_LOOKS_S)
    return now, client.status()


def status(
    job: JobArgument,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Show where a running job stands."""
    if in_cluster(context, namespace):
        with cluster_client_of(job, context, namespace) as cluster:
            before, now = None, cluster.status()  # written every few seconds: rates need a watch
    else:
        with client_of(directory, job) as client:
            before, now = _look(client, once=as_json)
    if as_json:
        print(codec.encode(now).decode())
        return
    from rich.console import Console  # noqa: PLC0415  keep --help fast

    from penstock.cli.live import draw, draw_workers  # noqa: PLC0415

    console = Console()
    console.print(draw(before, now))
    if now.workers:
        console.print()
        console.print(draw_workers(now))


def rescale(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    workers: Annotated[int, typer.Argument(metavar="N", min=1, max=limits.WORKERS_MAX, help="workers from now on")],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Change the number of workers of a running job."""
    if in_cluster(context, namespace):
        with cluster_client_of(job, context, namespace) as cluster:
            report(cluster.rescale(workers), as_json)
        return
    with client_of(directory, job) as client:
        report(client.rescale(workers), as_json)


def checkpoint(job: JobArgument, directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Take a checkpoint and wait until it is committed."""
    with client_of(directory, job) as client:
        report(client.request("checkpoint", None), as_json)


def savepoint(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the savepoint")],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Take a savepoint, which is kept until you delete it."""
    if in_cluster(context, namespace):
        with cluster_client_of(job, context, namespace) as cluster:
            report(cluster.savepoint(name), as_json)
        return
    with client_of(directory, job) as client:
        report(client.request("savepoint", name), as_json)


def stop(
    job: JobArgument,
    savepoint: Annotated[
        str | None,
        typer.Option("--savepoint", metavar="NAME", help="take a savepoint of this name"),
    ] = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Stop a running job after a last checkpoint.

    Run the same file again, and it goes on from where it stopped.
    """
    with client_of(directory, job) as client:
        report(client.stop(savepoint), as_json)


def logs(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    worker: WorkerOption = None,
    tail: TailOption = TAIL_DEFAULT,
    follow: FollowOption = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Show what the workers of a job have logged, newest last."""
    if not in_cluster(context, namespace):
        if follow:
            raise ConfigError("--follow is for a job in a cluster; tail -f follows a local file")
        _print_files(directory / job, worker, tail)
        return
    from penstock.kubernetes.logs import read_logs, streams_of  # noqa: PLC0415

    client = api_client(context, namespace)
    streams = streams_of(client, job, worker)
    for stream, line in read_logs(client, streams, tail, follow=follow):
        print(f"{stream.pod} {stream.container} {line}", flush=follow)
    client.close()


def _print_files(folder: Path, worker: int | None, tail: int) -> None:
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
                print(f"{name} {line}", end="")


def replay(context: typer.Context) -> None:
    """Push a dataset into a running job with PySpark.

    The arguments are those of `python -m penstock_spark replay`.
    """
    command = [sys.executable, "-m", "penstock_spark", "replay", *context.args]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has to be waited for
    try:
        raise typer.Exit(subprocess.run(command, check=False).returncode)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
