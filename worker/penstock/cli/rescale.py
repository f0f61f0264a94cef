"""``penstock rescale``: another number of workers, live."""

from typing import Annotated

import typer

from penstock.base import limits
from penstock.cli.client import client_of, report
from penstock.cli.options import DEFAULT_DIRECTORY, DirectoryOption, JobArgument, JsonOption


def rescale(
    job: JobArgument,
    workers: Annotated[
        int, typer.Argument(metavar="N", min=1, max=limits.WORKERS_MAX, help="workers from now on")
    ],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Change the number of workers of a running job."""
    with client_of(directory, job) as client:
        report(client.rescale(workers), as_json)
