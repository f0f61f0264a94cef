"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DIRECTORY_VARIABLE = "PENSTOCK_DIR"
DEFAULT_DIRECTORY = Path(".penstock")

JobFileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="the StreamJob file, YAML or JSON, or a Python file with a job"),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="name of the job")]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="replace a value of spec, like job.parameters.input=data",
    ),
]
DirectoryOption = Annotated[
    Path,
    typer.Option(
        "--dir",
        metavar="DIR",
        envvar=DIRECTORY_VARIABLE,
        help="folder of the jobs' checkpoints and logs",
    ),
]
RestoreOption = Annotated[
    str | None,
    typer.Option(
        "--restore",
        metavar="PATH|latest|empty",
        help="begin from a savepoint's folder, an epoch, the newest one, or without state",
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option("--against", metavar="latest|PATH", help="foretell what a restore does, field by field"),
]
DropStateOption = Annotated[
    list[str],
    typer.Option(
        "--drop-state",
        metavar="STEP",
        help="give up the stored state of a step that is gone, or begins empty; '*': of all gone",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="one JSON object a line, for programs")]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="a job in the cluster of this kubeconfig context"),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="a job in this namespace of a cluster"),
]
