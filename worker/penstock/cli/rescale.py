"""``penstock rescale``: another number of workers, live."""

from typing import Annotated

import typer

from penstock.base import limits
from penstock.cli.client import client_of, cluster_client_of, in_cluster, report
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    ContextOption,
    DirectoryOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
)


def rescale(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    workers: Annotated[
        int, typer.Argument(metavar="N", min=1, max=limits.WORKERS_MAX, help="workers from now on")
    ],
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
