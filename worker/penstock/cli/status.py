"""``penstock status``: one look at a running job."""

import time

from penstock.cli.client import client_of
from penstock.cli.options import DEFAULT_DIRECTORY, DirectoryOption, JobArgument, JsonOption
from penstock.contract import codec
from penstock.contract.status import ENDED

BETWEEN_LOOKS_S = 1.5  # engines count once a second; rates need two different counts


def status(
    job: JobArgument, directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """Show where a running job stands."""
    before = None
    with client_of(directory, job) as client:
        now = client.status()
        if not as_json and now.state not in ENDED:
            time.sleep(BETWEEN_LOOKS_S)
            before, now = now, client.status()
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
