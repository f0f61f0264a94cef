"""``penstock savepoint``: take one of a running job, write its state to Parquet, make one from Parquet."""

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from penstock.base.errors import ConfigError
from penstock.cli.job_places import place_of
from penstock.cli.options import (
    DEFAULT_DIRECTORY,
    ContextOption,
    DirectoryOption,
    JobArgument,
    JobFileArgument,
    JsonOption,
    NamespaceOption,
    SetOption,
)
from penstock.cli.running_job import report

TAKE = "take"


class SavepointGroup(TyperGroup):
    """``penstock savepoint JOB NAME`` is short for ``penstock savepoint take JOB NAME``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put ``take`` before arguments that begin with no command."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [TAKE, *args]
        return super().parse_args(ctx, args)


def take(  # noqa: PLR0917  typer passes by name
    job: JobArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the savepoint")],
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Take a savepoint of a running job, which is kept until you delete it."""
    with place_of(directory, context, namespace).running(job) as client:
        report(client.savepoint(name), as_json)


def export(  # noqa: PLR0917  typer passes by name
    file: JobFileArgument,
    savepoint: Annotated[
        str,
        typer.Argument(metavar="SAVEPOINT", help="folder of the savepoint, or latest: the newest checkpoint"),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="folder for FOLDER/STEP/part-*.parquet")],
    steps: Annotated[list[str], typer.Option("--step", metavar="STEP", help="only this step; may be repeated")] = [],  # noqa: B006
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
) -> None:
    """Write the keyed state in a savepoint to Parquet files, one folder a step."""
    from penstock.cli.local_settings import LATEST  # noqa: PLC0415  keep --help fast
    from penstock.cli.preflight import newest_state  # noqa: PLC0415
    from penstock.connectors.open_connectors import ConnectorInspector  # noqa: PLC0415
    from penstock.graph import load_job, read_job_file  # noqa: PLC0415
    from penstock.savepoint_tables.to_parquet import StoredState, export_state  # noqa: PLC0415
    from penstock.storage.blobs import DirectoryBlobStore  # noqa: PLC0415

    read = read_job_file(file, set_)
    job = load_job(read, ConnectorInspector())
    if savepoint == LATEST:
        place, root = newest_state(directory, read.job)
        stored = StoredState(f"checkpoint {root.epoch}", DirectoryBlobStore(place), "", root)
    else:
        stored = StoredState.of_savepoint(Path(savepoint))
    for each in export_state(job, stored, folder, steps):
        print(f"{each.step}: {each.rows:,} keys in {each.folder} ({each.files} files)")


def import_(
    file: JobFileArgument,
    tables: Annotated[list[str], typer.Argument(metavar="STEP=FOLDER...", help="Parquet files for a step's state")],
    savepoint: Annotated[Path, typer.Option("--to", metavar="SAVEPOINT", help="new folder of the savepoint")],
    set_: SetOption = [],  # noqa: B006  typer reads the default, nobody writes it
) -> None:
    """Make a savepoint from Parquet files; `penstock run --restore` begins a job with it."""
    from penstock.connectors.open_connectors import ConnectorInspector  # noqa: PLC0415
    from penstock.graph import load_job  # noqa: PLC0415  keep --help fast
    from penstock.savepoint_tables.from_parquet import build_savepoint  # noqa: PLC0415

    job = load_job(file, ConnectorInspector(), set_)
    for each in build_savepoint(job, _tables(tables), savepoint):
        print(f"{each.step}: {each.keys:,} keys")
    print(f"{savepoint} is a savepoint: penstock run {file} --restore {savepoint}")


def _tables(given: list[str]) -> dict[str, Path]:
    tables: dict[str, Path] = {}
    for text in given:
        step, equals, folder = text.partition("=")
        if not (step and equals and folder):
            raise ConfigError(f"{text!r}: write STEP=FOLDER, for example seen=/data/seen")
        if step in tables:
            raise ConfigError(f"step {step!r} is given twice")
        tables[step] = Path(folder)
    return tables


def savepoint_app() -> typer.Typer:
    """Group the commands."""
    app = typer.Typer(
        cls=SavepointGroup,
        no_args_is_help=True,
        help="Take a savepoint (JOB NAME), write its state to Parquet, or make one from Parquet.",
    )
    app.command(TAKE)(take)
    app.command("export")(export)
    app.command("import")(import_)
    return app
