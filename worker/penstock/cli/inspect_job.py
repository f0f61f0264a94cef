"""Commands that start nothing: ``penstock validate`` checks a job, ``penstock graph`` draws it."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError, StateError
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    AgainstOption,
    DirectoryOption,
    DropStateOption,
    JobFileArgument,
    RestoreOption,
    SetOption,
)

if TYPE_CHECKING:
    from penstock.cli.preflight import Begins, Detail
    from penstock.contract.plan import PhysicalPlan
    from penstock.contract.streamjob import StreamJob


def validate(  # noqa: PLR0917  typer passes by name
    file: JobFileArgument,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="ask for what a cluster asks for; its folders are not looked at"),
    ] = False,
    first: Annotated[
        bool,
        typer.Option("--first", help="look at the first file of an input only", hidden=True),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="say nothing when all is well")] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    restore: RestoreOption = None,
    against: AgainstOption = None,
    describe: Annotated[Path | None, typer.Option("--describe", hidden=True)] = None,
    drop_state: DropStateOption = [],  # noqa: B006  typer reads the default, nobody writes it
) -> None:
    """Check a job file, its code, the columns of its inputs, and that stored state fits."""
    from penstock.cli import preflight  # noqa: PLC0415
    from penstock.cli.function_lines import function_lines  # noqa: PLC0415  needs LLVM
    from penstock.cli.record import keep_record, record_of  # noqa: PLC0415
    from penstock.connectors.open_connectors import ConnectorInspector  # noqa: PLC0415  needs Arrow
    from penstock.graph import load_job, read_job_file  # noqa: PLC0415

    if against is not None and (restore is not None or cluster or quiet):
        raise ConfigError("--against: not together with --restore, --cluster or --quiet")
    read = read_job_file(file, set_, cluster=cluster)
    job = load_job(read, None if cluster else ConnectorInspector())
    preflight.check_schemes(job, read)
    fits: list[str] = []
    if not cluster:
        preflight.check_outside(job, first=first)
        if describe is not None:
            keep_record(describe, record_of(job, read))
        begins = preflight.Begins(directory, restore if against is None else against, tuple(drop_state))
        changes = preflight.Detail.CHANGES if quiet else preflight.Detail.STEPS
        detail = changes if against is None else preflight.Detail.FIELDS
        fits = _fits(read.job, job.plan, begins, detail)
    fits += preflight.parameter_lines(job, read.job.spec.job.parameters)
    if quiet:
        for line in fits:
            print(preflight.CHANGE + line, file=sys.stderr)
        return
    steps, stages = len(job.graph.steps), len(job.plan.stages)
    print(f"{file}: {job.name}: {steps} steps in {stages} stages, all well")
    for line in (*fits, *function_lines(job), *(() if cluster else preflight.input_lines(job))):
        print(line)


def _fits(job: "StreamJob", plan: "PhysicalPlan", begins: "Begins", detail: "Detail") -> list[str]:
    """Return the lines about stored state. If it does not fit, whoever asked for changes only learns this first."""
    from penstock.cli.preflight import MISFIT, Detail, fit_lines  # noqa: PLC0415

    try:
        return fit_lines(job, plan, begins, detail)
    except StateError:
        if detail is Detail.CHANGES:
            print(MISFIT, file=sys.stderr)
        raise


class Format(StrEnum):
    """How the plan is drawn."""

    TEXT = "text"
    SVG = "svg"
    MERMAID = "mermaid"


def graph(
    file: JobFileArgument,
    format_: Annotated[Format, typer.Option("--format", "-f", help="how it is drawn")] = Format.TEXT,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="a file; default: standard output"),
    ] = None,
) -> None:
    """Draw a job: its stages, and how rows go between them."""
    from penstock.graph import load_job  # noqa: PLC0415  keep --help fast
    from penstock.graph.draw import draw_mermaid, draw_svg, draw_text  # noqa: PLC0415

    job = load_job(file, None, set_)
    painters = {Format.TEXT: draw_text, Format.SVG: draw_svg, Format.MERMAID: draw_mermaid}
    picture = painters[format_](job)
    if output is None:
        print(picture)
    else:
        try:
            output.write_text(picture + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--output {output}: {error.strerror}") from error
        print(f"wrote {output}")
