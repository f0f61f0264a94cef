"""``penstock status``: one look at a running job."""

from penstock.cli.client import client_of
from penstock.cli.options import DEFAULT_DIRECTORY, DirectoryOption, JobArgument, JsonOption


def status(
    job: JobArgument, directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """Show where a running job stands."""
    with client_of(directory, job) as client:
        now = client.status()
    if as_json:
        from penstock.contract import codec  # noqa: PLC0415

        print(codec.encode(now).decode())
        return
    from rich.console import Console  # noqa: PLC0415  keep --help fast

    from penstock.cli.live import draw  # noqa: PLC0415

    Console().print(draw(None, now))
