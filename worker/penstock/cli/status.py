"""``penstock status``: one look at a running job."""

import time
from typing import TYPE_CHECKING

from penstock.cli.client import client_of, cluster_client_of, in_cluster
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
    from penstock.supervisor import JobClient

BETWEEN_LOOKS_S = 1.5  # engines count once a second; rates need two different counts


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
