"""Exit codes of every command; part of the public interface."""

import sys
import traceback
from enum import IntEnum
from tempfile import NamedTemporaryFile

from penstock.base.errors import ConfigError, PenstockError
from penstock.base.visible import visible


class Exit(IntEnum):
    """What a shell script may rely on.

    OK: done; a bounded input is finished and committed, or the job was stopped on request.
    FAILED: the job failed, or a request to it was refused or failed.
    USAGE: the command, the file or the user's code must be edited.
    UNREACHABLE: no such job is running, or it does not answer.
    INTERRUPTED: Ctrl-C; once: stopped after a last checkpoint, twice: at once.
    """

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130


def exit_of_error(error: PenstockError) -> Exit:
    """Return the code of an error: whose fault it was."""
    return Exit.USAGE if isinstance(error, ConfigError) else Exit.FAILED


def print_error(text: str) -> None:
    """Write an error to standard error, each line marked. A closed standard error is no error."""
    try:
        for line in text.split("\n"):
            print(f"error: {visible(line)}", file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        return


def internal(error: BaseException) -> str:
    """Spell an error that is a fault of ours, and keep its stack trace in a file."""
    what = f"{type(error).__name__}: {error}"
    try:
        with NamedTemporaryFile("w", prefix="penstock-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
    except OSError as unkept:
        return f"{what}: this is a fault of Penstock; its stack trace cannot be kept: {unkept}"
    return f"{what}: this is a fault of Penstock; please report it with {file.name}"
