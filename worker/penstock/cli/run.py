"""``penstock run``: start a local cluster for a job file and show it until it ends."""

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from penstock.base.errors import ConfigError
from penstock.cli.exits import Exit, print_error
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    DirectoryOption,
    DropStateOption,
    JobFileArgument,
    JsonOption,
    RestoreOption,
    SetOption,
)

if TYPE_CHECKING:
    from penstock.cli.past_runs import Asked, Finished
    from penstock.cli.preflight import Begins
    from penstock.cli.record import JobRecord
    from penstock.cli.screen import Screen
    from penstock.cluster.host import ForkServer
    from penstock.contract.streamjob import Job
    from penstock.graph import JobFile
    from penstock.supervisor.settings import ClusterSettings
    from penstock.supervisor.workers import StartKeeper

PAGE_OF_WORKER_0 = Path("workers", "0", "scratch", "in-flight")


WorkersOption = Annotated[int | None, typer.Option("--workers", "-n", metavar="N", help="workers; default: replicas")]
ReplayOutputOption = Annotated[
    bool,
    typer.Option(
        "--allow-output-replay",
        help="restore even where output behind it is visible: at least once",
    ),
]
DropUnpublishedOption = Annotated[
    bool,
    typer.Option("--drop-unpublished", help="give up committed output of all sinks that can never be published"),
]
UnpublishedOption = Annotated[
    list[str],
    typer.Option(
        "--unpublished",
        metavar="SINK=HOW",
        help="committed output of one sink that cannot be published: Publish (rows may be there twice), Skip (leave"
        " out the rows that the target refuses) or Drop (give it up); again for more sinks",
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="one worker, in this process: breakpoint(), print and logging use this terminal",
    ),
]
MissingOutputOption = Annotated[
    bool,
    typer.Option(
        "--allow-missing-output",
        help="go on although output files of this job are gone; they are not written again",
    ),
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="begin anew: remove this job's state and its own output files; savepoints stay",
    ),
]


def run(  # noqa: PLR0917  typer passes by name
    file: JobFileArgument,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    workers: WorkersOption = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    restore: RestoreOption = None,
    allow_output_replay: ReplayOutputOption = False,
    drop_unpublished: DropUnpublishedOption = False,
    unpublished: UnpublishedOption = [],  # noqa: B006  typer reads the default, nobody writes it
    allow_missing_output: MissingOutputOption = False,
    drop_state: DropStateOption = [],  # noqa: B006  as above
    fresh: FreshOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a job on this machine until its input has ended.

    Ctrl-C once takes a last checkpoint and stops; twice stops at once.
    Run it again, and it goes on from there.
    """
    gc.disable()
    from penstock.cluster.host import fork_server  # noqa: PLC0415  keep --help fast

    # A server loads what engines need while this process reads the job.
    with nullcontext() if debug else fork_server() as forks:
        from penstock.cli.local_settings import restore_of  # noqa: PLC0415
        from penstock.cli.past_runs import Asked  # noqa: PLC0415
        from penstock.cli.preflight import Begins  # noqa: PLC0415
        from penstock.graph import read_job_file  # noqa: PLC0415
        from penstock.supervisor.folders import starting  # noqa: PLC0415

        _collect_again()
        _refuse_both(fresh, restore)
        settings = [*set_, *_replicas(only_one(workers) if debug else workers)]
        job = read_job_file(file, settings)
        origin = restore_of(
            job.job.spec,
            restore,
            replay_output=allow_output_replay,
            drop_unpublished=drop_unpublished,
            drop_state=drop_state,
            unpublished=unpublished,
        )
        checks = _Checks(job, file, settings, None if debug else Begins(directory, restore, tuple(drop_state)))
        asked = Asked(job, directory, origin, fresh, incomplete=allow_missing_output)
        with starting(directory.absolute(), job.job.name):
            code = _start(asked, checks, forks, as_json=as_json)
    if debug:
        leave(code)
    raise typer.Exit(code)


def _collect_again() -> None:
    gc.freeze()  # the modules that are loaded now live as long as the process
    gc.enable()


def _replicas(workers: int | None) -> list[str]:
    return [] if workers is None else [f"replicas={workers}"]


def _refuse_both(fresh: bool, restore: str | None) -> None:
    if fresh and restore is not None:
        raise ConfigError("--fresh begins without state, --restore with some: give one of them")


def only_one(workers: int | None) -> int:
    """Return the number of workers of ``--debug``. Raises ConfigError when it is another."""
    if workers not in {None, 1}:
        raise ConfigError(f"--debug runs one worker in one process, not {workers}")
    return 1


def leave(code: Exit) -> NoReturn:
    """End now: a thread that stands in the user's function would hold the process back."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Checks:
    """Checks a job once, when asked.

    ``keepers``: how keepers are started, None: as usual. ``changes``: what is not taken over of the
    checkpoint. User code is looked at elsewhere, but for a run (``begins`` None) that has it here.
    """

    def __init__(self, job: "JobFile", file: Path, settings: Sequence[str], begins: "Begins | None") -> None:
        self.job = job
        self._of = (job, file, settings)
        self._begins = begins
        self.keepers: StartKeeper | None = None
        self.changes: tuple[str, ...] = ()

    @property
    def here(self) -> bool:
        """Return whether the job runs in this process (``--debug``)."""
        return self._begins is None

    def record(self) -> "JobRecord":
        """Describe the job as it would run. Raises ConfigError when it cannot."""
        job, file, settings = self._of
        if self._begins is None:
            from penstock.cli.debug import keepers_of  # noqa: PLC0415  loads what engines need

            self.keepers, record = keepers_of(job)
            return record
        from penstock.cli.preflight import check_before_start  # noqa: PLC0415

        checked = check_before_start(job, file, settings, self._begins)
        self.changes = checked.changes
        return checked.record


def _say(finished: "Finished", screen: "Screen") -> Exit:
    """Say that nothing runs; with an error where something is not as it was."""
    from penstock.cli.screen import JsonLines  # noqa: PLC0415  keep --help fast

    if finished.changes:
        for line in finished.lines():
            print_error(line)
        return Exit.FAILED
    if isinstance(screen, JsonLines):
        screen.show(finished.status())
        for line in finished.lines():
            screen.note(line)
    else:
        print("\n".join(finished.lines()))
    return Exit.OK


@dataclass(frozen=True, slots=True)
class _Run:
    """What is to be started, and the record of it."""

    settings: "ClusterSettings"
    forks: "ForkServer | None"
    keepers: "StartKeeper | None"
    record: "JobRecord"


def _notes(job: "JobFile", settings: "ClusterSettings", *, debug: bool) -> list[str]:
    """Say what of the file is not used here, and where output of functions goes."""
    from penstock.contract.job_reader import cluster_only  # noqa: PLC0415  keep --help fast

    ignored, notes = cluster_only(job.plain), []
    if ignored:
        notes.append(f"ignored on this machine: {', '.join(ignored)}")
    if not debug and has_functions(job.job.spec.job):
        notes.append(f"what functions print is in: {logs_command(settings)}")
    return notes


def logs_command(settings: "ClusterSettings") -> str:
    """Return the command that shows the logs of a job, wherever it is run from."""
    default = settings.directory == DEFAULT_DIRECTORY.absolute()
    where = "" if default else f" --dir {shlex.quote(str(settings.directory))}"
    return f"penstock logs {settings.job}{where}"


def _start(asked: "Asked", checks: _Checks, forks: "ForkServer | None", *, as_json: bool) -> Exit:
    """Run what is to be run, if the job has not finished before."""
    from penstock.base.values import replace  # noqa: PLC0415  keep --help fast
    from penstock.cli.local_settings import cluster_settings  # noqa: PLC0415
    from penstock.cli.past_runs import Finished, look_back  # noqa: PLC0415
    from penstock.cli.screen import make_screen  # noqa: PLC0415
    from penstock.graph import keep_job_file  # noqa: PLC0415

    screen = make_screen(as_json, quiet=checks.here)
    found = look_back(asked, checks.record)
    if isinstance(found, Finished):
        return _say(found, screen)
    settings = cluster_settings(checks.job, asked.directory, asked.restore)
    settings = replace(settings, workers_max=1) if checks.here else settings
    keep_job_file(checks.job, settings.job_file)
    changes = () if found.fresh else checks.changes
    notes = [*found.notes, *_notes(checks.job, settings, debug=checks.here), *changes]
    run_of = _Run(settings, forks, checks.keepers, found.record)
    if not checks.here:
        return _show(run_of, notes, screen)
    from penstock.cli.crash_reporter import crash_reported  # noqa: PLC0415

    with crash_reported(settings.directory / settings.job / PAGE_OF_WORKER_0):
        return _show(run_of, notes, screen)


def _show(run_of: _Run, notes: Sequence[str], shown: "Screen") -> Exit:
    """Run the job, and keep the record of what ran: at the start, and when the run is over."""
    from penstock.cli.past_runs import as_ended  # noqa: PLC0415  keep --help fast
    from penstock.cli.record import keep_record  # noqa: PLC0415
    from penstock.cli.run_watch import Interrupts, watch  # noqa: PLC0415
    from penstock.cli.screen import Watched  # noqa: PLC0415
    from penstock.supervisor import LocalCluster  # noqa: PLC0415

    folder = run_of.settings.job_file.parent
    screen = Watched(shown)
    interrupts = Interrupts()
    with interrupts.caught():  # before there is anything that has to be stopped
        cluster = LocalCluster(run_of.settings, run_of.forks, run_of.keepers)
        cluster.start()
        keep_record(folder, run_of.record)  # now this run has the folder
        try:
            for note in notes:
                screen.note(note)
            code = watch(cluster, screen, interrupts)
        finally:
            screen.close()
        ended = cluster.wait(0) or cluster.status()
        keep_record(folder, as_ended(run_of.record, ended))
        return code


def has_functions(job: "Job") -> bool:
    """Say whether a job is made of more than declared steps: by code, or with functions."""
    return job.graph is None or any(hasattr(s.parameters, "call") for s in job.graph.steps)
