"""``penstock validate``: compile a job as an engine would, inputs and functions included."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import StateError
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    DirectoryOption,
    DropStateOption,
    JobFileArgument,
    RestoreOption,
    SetOption,
)


def validate(  # noqa: PLR0917  typer passes by name
    file: JobFileArgument,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster", help="ask for what a cluster asks for; its folders are not looked at"
        ),
    ] = False,
    first: Annotated[
        bool,
        typer.Option("--first", help="look at the first file of an input only", hidden=True),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="say nothing when all is well")] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    restore: RestoreOption = None,
    describe: Annotated[Path | None, typer.Option("--describe", hidden=True)] = None,
    drop_state: DropStateOption = [],  # noqa: B006  typer reads the default, nobody writes it
) -> None:
    """Check a job file, its code, the columns of its inputs, and that stored state fits."""
    from penstock.cli.fitting import Begins, fit_lines  # noqa: PLC0415
    from penstock.cli.preflight import CHANGE, MISFIT, check_outside, input_lines  # noqa: PLC0415
    from penstock.cli.record import keep_record, record_of  # noqa: PLC0415
    from penstock.connectors.registry import ConnectorInspector  # noqa: PLC0415  needs Arrow
    from penstock.graph import load_job, read_job_file  # noqa: PLC0415

    read = read_job_file(file, set_, cluster=cluster)
    job = load_job(read, None if cluster else ConnectorInspector())
    fits: list[str] = []
    if not cluster:
        check_outside(job, first=first)
        if describe is not None:
            keep_record(describe, record_of(job, read))
        begins = Begins(directory, restore, tuple(drop_state))
        try:
            fits = fit_lines(read.job, job.plan, begins, all_of_it=not quiet)
        except StateError:
            if quiet:
                print(MISFIT, file=sys.stderr)
            raise
    if quiet:
        for line in fits:
            print(CHANGE + line, file=sys.stderr)
        return
    steps, stages = len(job.graph.steps), len(job.plan.stages)
    print(f"{file}: {job.name}: {steps} steps in {stages} stages, all well")
    for line in (*fits, *(() if cluster else input_lines(job))):
        print(line)
