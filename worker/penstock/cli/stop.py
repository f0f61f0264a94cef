"""``penstock stop``: end a running job after a last checkpoint or savepoint."""

from typing import Annotated

import typer

from penstock.cli.client import client_of, report
from penstock.cli.options import DEFAULT_DIRECTORY, DirectoryOption, JobArgument, JsonOption


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
