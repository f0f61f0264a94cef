"""All commands in one place, and what becomes of their errors."""

import gc
import os
import sys

import typer

from penstock.base.errors import PenstockError
from penstock.cli.exits import Exit, exit_of_error, internal, print_error
from penstock.cli.inspect_job import graph, validate
from penstock.cli.run import run as run_command
from penstock.cli.running_job import checkpoint, logs, partition, rebalance, replay, rescale, status, stop
from penstock.cli.savepoint_commands import savepoint_app
from penstock.cli.worker import worker_app

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 something must be edited, 3 no such job is running, "
    "130 Ctrl-C (once: stopped after a last checkpoint; twice: at once)."
)


PASSED_ON = {  # every argument is that of penstock_spark, --help too
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


def make_app() -> typer.Typer:
    """Build the command line."""
    app = typer.Typer(
        name="penstock",
        help="Stateful stream processing in Python.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # its help costs 0.1 s of imports
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command("run")(run_command)
    app.command("validate")(validate)
    app.command("graph")(graph)
    app.command("status")(status)
    app.command("rescale")(rescale)
    app.command("partition")(partition)
    app.command("rebalance")(rebalance)
    app.command("checkpoint")(checkpoint)
    app.add_typer(savepoint_app(), name="savepoint")
    app.command("stop")(stop)
    app.command("logs")(logs)
    app.command("replay", context_settings=PASSED_ON)(replay)
    app.add_typer(worker_app(), name="worker", hidden=True)
    app.callback()(_version)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from penstock import __version__  # noqa: PLC0415  only when asked

        print(f"penstock {__version__}")
        raise typer.Exit


def _version(
    version: bool = typer.Option(False, "--version", help="print the version", callback=_print_version, is_eager=True),
) -> None:
    """Stateful stream processing in Python."""


def run() -> None:
    """Run the command line; what goes wrong is a message and an exit code, never a traceback."""
    app = make_app()
    gc.freeze()
    gc.enable()
    sys.exit(exit_code(app))


def exit_code(app: typer.Typer) -> int:
    """Run a command line and return its exit code; errors are written to standard error."""
    code = _code_of(app)
    return code or Exit.FAILED if _fails_to_print() else code


def _code_of(app: typer.Typer) -> int:
    try:
        app()
        code: int | str | None = Exit.OK
    except SystemExit as ended:  # how typer ends, also after a closed pipe
        code = ended.code
    except PenstockError as error:
        print_error(str(error))
        code = exit_of_error(error)
    except OSError as error:  # of a file that was not checked before
        code = Exit.FAILED
        if not _fails_to_print():
            print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        print_error(internal(error))
        code = Exit.FAILED
    return Exit.OK if code is None else code if isinstance(code, int) else Exit.FAILED


def _fails_to_print() -> bool:
    """Say whether standard output takes nothing any more, and tell of it once.

    Nothing is told where the reader has gone (``| head``): it has what it wanted.
    """
    try:
        sys.stdout.write("")
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print_error(f"standard output: {error.strerror}")
        # Python writes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
