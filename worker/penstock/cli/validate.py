"""``penstock validate``: compile a job as an engine would, inputs and functions included."""

from typing import Annotated

import typer

from penstock.cli.options import JobFileArgument, SetOption


def validate(
    file: JobFileArgument,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster", help="ask for what a cluster asks for; its folders are not looked at"
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="say nothing when all is well")] = False,
) -> None:
    """Check a job file, its code and the columns of its inputs."""
    from penstock.cli.preflight import check_paths, input_lines  # noqa: PLC0415
    from penstock.connectors.registry import ConnectorInspector  # noqa: PLC0415  needs Arrow
    from penstock.graph import load_job, read_job_file  # noqa: PLC0415

    read = read_job_file(file, set_, cluster=cluster)
    job = load_job(read, None if cluster else ConnectorInspector())
    if not cluster:
        check_paths(job)
    if not quiet:
        steps, stages = len(job.graph.steps), len(job.plan.stages)
        print(f"{file}: {job.name}: {steps} steps in {stages} stages, all well")
        for line in () if cluster else input_lines(job):
            print(line)
