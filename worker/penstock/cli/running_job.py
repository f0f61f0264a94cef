"""Commands about a job that runs: status, rescale, partition, rebalance, checkpoint, stop, logs, replay."""

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base import limits
from penstock.cli.exits import Exit
from penstock.cli.job_places import JobControl, LocalPlace, place_of
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    ContextOption,
    DirectoryOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
)

if TYPE_CHECKING:
    from penstock.contract.status import JobStatus, RequestAnswer

BETWEEN_LOOKS_S = 1.5  # engines count once a second; rates need two different counts
TAIL_DEFAULT = 200

WorkerOption = Annotated[int | None, typer.Option("--worker", "-w", metavar="N", min=0, help="only this worker")]
TailOption = Annotated[int, typer.Option("--tail", metavar="LINES", min=1, help="newest lines of each log")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="go on as they come (in a cluster)")]


def report(answer: "RequestAnswer", as_json: bool) -> None:
    """Print an answer and leave with FAILED when the request was refused or failed."""
    print(_json(answer) if as_json else answer.text or f"{answer.kind}: done")
    if answer.ok is False:
        raise typer.Exit(Exit.FAILED)


def _json(shown: "RequestAnswer | JobStatus") -> str:
    from penstock.contract import codec  # noqa: PLC0415  keep --help fast

    return codec.encode(shown).decode()


def _look(client: JobControl, *, twice: bool) -> "tuple[JobStatus | None, JobStatus]":
    from penstock.contract.status import ENDED  # noqa: PLC0415  keep --help fast

    now = client.status()
    if not twice or now.state in ENDED:
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
    place = place_of(directory, context, namespace)
    with place.running(job) as client:
        before, now = _look(client, twice=place.counts_live and not as_json)
    if as_json:
        print(_json(now))
        return
    from rich.console import Console  # noqa: PLC0415  keep --help fast

    from penstock.cli.live import draw, draw_workers  # noqa: PLC0415

    console = Console()
    console.print(draw(before, now))
    if now.workers:
        console.print()
        console.print(draw_workers(now))


def rescale(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    workers: Annotated[int, typer.Argument(metavar="N", min=1, max=limits.WORKERS_MAX, help="workers from now on")],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Change the number of workers of a running job."""
    with place_of(directory, context, namespace).running(job) as client:
        report(client.rescale(workers), as_json)


def partition(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    choices: Annotated[list[str], typer.Argument(metavar="STEP=SCHEME...", help="the scheme of a step from now on")],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Change the schemes by which a running job deals out rows."""
    from penstock.contract.schemes import read_choice  # noqa: PLC0415  keep --help fast

    asked = tuple(map(read_choice, choices))
    with place_of(directory, context, namespace).running(job) as client:
        report(client.partition(asked), as_json)


def rebalance(
    job: JobArgument,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Move key groups of a running job so that its tasks have equal load."""
    with place_of(directory, context, namespace).running(job) as client:
        report(client.rebalance(), as_json)


def checkpoint(job: JobArgument, directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Take a checkpoint and wait until it is committed."""
    with LocalPlace(directory).running(job) as client:
        report(client.request("checkpoint"), as_json)


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
    with LocalPlace(directory).running(job) as client:
        report(client.stop(savepoint), as_json)


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
    for line in place_of(directory, context, namespace).logs(job, worker, tail, follow=follow):
        print(line, flush=follow)


def replay(context: typer.Context) -> None:
    """Push a dataset into a running job with PySpark.

    The arguments are those of `python -m penstock_spark replay`.
    """
    command = [sys.executable, "-m", "penstock_spark", "replay", *context.args]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has to be waited for
    try:
        raise typer.Exit(subprocess.run(command, check=False).returncode)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
