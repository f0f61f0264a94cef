"""``penstock savepoint``: a checkpoint that the user owns."""

from typing import Annotated

import typer

from penstock.cli.client import client_of, report
from penstock.cli.options import DEFAULT_DIRECTORY, DirectoryOption, JobArgument, JsonOption


def savepoint(
    job: JobArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the savepoint")],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Take a savepoint, which is kept until you delete it."""
    with client_of(directory, job) as client:
        report(client.request("savepoint", name), as_json)
