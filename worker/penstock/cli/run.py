"""``penstock run``: start a local cluster for a job file and show it until it ends."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.exits import Exit, exit_of_state, print_error
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    DirectoryOption,
    JobFileArgument,
    JsonOption,
    SetOption,
)
from penstock.cli.screen import Watched, make_screen
from penstock.contract.status import ENDED, JobState, JobStatus
from penstock.contract.streamjob_read import cluster_only

if TYPE_CHECKING:
    from penstock.graph import JobFile
    from penstock.supervisor import LocalCluster

LOOK_INTERVAL_S = 0.5


WorkersOption = Annotated[
    int | None, typer.Option("--workers", "-n", metavar="N", help="workers; default: replicas")
]
RestoreOption = Annotated[
    str | None,
    typer.Option(
        "--restore",
        metavar="PATH|latest|empty",
        help="begin from a savepoint's folder, an epoch, the newest one, or without state",
    ),
]
ReplayOutputOption = Annotated[
    bool,
    typer.Option(
        "--allow-output-replay",
        help="restore even where output behind it is visible: at least once",
    ),
]
DropUnpublishedOption = Annotated[
    bool,
    typer.Option("--drop-unpublished", help="give up committed output that can never be published"),
]


def run(  # noqa: PLR0917  typer passes by name
    file: JobFileArgument,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    workers: WorkersOption = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    restore: RestoreOption = None,
    allow_output_replay: ReplayOutputOption = False,
    drop_unpublished: DropUnpublishedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a job on this machine until its input has ended.

    Ctrl-C once takes a last checkpoint and stops; twice stops at once. Run
    again, it goes on from where it stands.
    """
    gc.disable()
    from penstock.cluster.forks import fork_server  # noqa: PLC0415  keep --help fast

    with fork_server() as forks:  # it loads what engines need while this process reads the job
        from penstock.cli.local import cluster_settings, restore_of  # noqa: PLC0415
        from penstock.cli.preflight import check_before_start  # noqa: PLC0415
        from penstock.graph import keep_job_file, read_job_file  # noqa: PLC0415
        from penstock.supervisor import LocalCluster  # noqa: PLC0415

        gc.freeze()  # what was loaded lives on
        gc.enable()
        settings = [*set_, *([f"replicas={workers}"] if workers is not None else [])]
        job = read_job_file(file, settings)
        origin = restore_of(
            job.job.spec,
            restore,
            replay_output=allow_output_replay,
            drop_unpublished=drop_unpublished,
        )
        check_before_start(job, file, settings)
        chosen = cluster_settings(job, directory, origin)
        keep_job_file(job, chosen.job_file)
        code = _show(LocalCluster(chosen, forks), job, as_json)
    raise typer.Exit(code)


def _show(cluster: "LocalCluster", job: "JobFile", as_json: bool) -> Exit:
    interrupts = Interrupts()
    with interrupts.caught():  # before there is anything that has to be stopped
        cluster.start()
        screen = Watched(make_screen(as_json))
        try:
            ignored = cluster_only(job.plain)
            if ignored:
                screen.note(f"ignored on this machine: {', '.join(ignored)}")
            return watch(cluster, screen, interrupts)
        finally:
            screen.close()


def watch(cluster: "LocalCluster", screen: Watched, interrupts: "Interrupts") -> Exit:
    """Show the job until it has ended; turn signals into a clean stop, then an immediate one.

    Where nobody reads what is shown any more (``| head``), that is a reason to stop as well.
    """
    while True:
        ended = cluster.wait(LOOK_INTERVAL_S)
        status = ended if ended is not None else cluster.status()
        # The last counters are there when every process has ended, not before.
        if status.state not in ENDED or ended is not None:
            screen.show(status)
        if ended is not None:
            screen.close()
            return Exit.FAILED if screen.lost is not None else _ended(ended, interrupts)
        if interrupts.count >= 2:
            cluster.kill()
            screen.show(cluster.status())
            screen.note("stopped at once; run it again to go on from the last checkpoint")
            return Exit.INTERRUPTED
        if interrupts.count == 1 and interrupts.first_time():
            screen.note("stopping after a last checkpoint; Ctrl-C again stops at once")
            _stop(cluster)
        elif screen.lost is not None and interrupts.first_time():
            print_error(f"standard output: {screen.lost}: stopping after a last checkpoint")
            _stop(cluster)


def _stop(cluster: "LocalCluster") -> None:
    Thread(target=cluster.stop, args=(None,), daemon=True).start()


def _ended(status: JobStatus, interrupts: "Interrupts") -> Exit:
    if status.state is JobState.FAILED and status.failure:
        print_error(status.failure)
    if interrupts.count and status.state is JobState.STOPPED:
        return Exit.INTERRUPTED
    return exit_of_state(status.state)


class Interrupts:
    """Counts SIGINT and SIGTERM instead of raising in the middle of something."""

    def __init__(self) -> None:
        self.count = 0
        self._told = Event()

    def first_time(self) -> bool:
        """Say True once."""
        told = self._told.is_set()
        self._told.set()
        return not told

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Take over both signals; give them back afterwards."""
        before = {s: signal.signal(s, self._arrived) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
