"""``penstock checkpoint``: take one now."""

from penstock.cli.client import client_of, report
from penstock.cli.options import DEFAULT_DIRECTORY, DirectoryOption, JobArgument, JsonOption


def checkpoint(
    job: JobArgument, directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """Take a checkpoint and wait until it is committed."""
    with client_of(directory, job) as client:
        report(client.request("checkpoint", None), as_json)
