"""``penstock savepoint``: a checkpoint that the user owns."""

from typing import Annotated

import typer

from penstock.cli.client import client_of, cluster_client_of, in_cluster, report
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    ContextOption,
    DirectoryOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
)


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
