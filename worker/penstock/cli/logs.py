"""``penstock logs``: what the processes of a job have said."""

from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.client import in_cluster
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    ContextOption,
    DirectoryOption,
    JobArgument,
    NamespaceOption,
)

TAIL_DEFAULT = 200

WorkerOption = Annotated[
    int | None, typer.Option("--worker", "-w", metavar="N", min=0, help="only this worker")
]
TailOption = Annotated[
    int, typer.Option("--tail", metavar="LINES", min=1, help="newest lines of each log")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="go on as they come (in a cluster)")
]


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
    from penstock.cli.client import api_client  # noqa: PLC0415  needs httpx
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
