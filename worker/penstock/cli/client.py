"""What the commands share that talk to a running job."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.base.errors import ConfigError, PeerError, PenstockError, StorageError
from penstock.cli.exits import Exit, print_error
from penstock.contract import codec

if TYPE_CHECKING:
    from penstock.contract.status import RequestAnswer
    from penstock.supervisor import JobClient


@contextmanager
def client_of(directory: Path, job: str) -> "Iterator[JobClient]":
    """Connect to a running job; leave with UNREACHABLE when there is none or it does not answer."""
    from penstock.supervisor import connect  # noqa: PLC0415  needs gRPC

    try:
        client = connect(directory.absolute(), job)
    except (ConfigError, StorageError, PeerError) as error:
        raise _unreachable(error) from error
    try:
        yield client
    except (StorageError, PeerError) as error:
        raise _unreachable(error) from error


def _unreachable(error: PenstockError) -> typer.Exit:
    print_error(str(error))
    return typer.Exit(Exit.UNREACHABLE)


def report(answer: "RequestAnswer", as_json: bool) -> None:
    """Print an answer and leave with FAILED when the request was refused or failed."""
    print(codec.encode(answer).decode() if as_json else answer.text or f"{answer.kind}: done")
    if answer.ok is False:
        raise typer.Exit(Exit.FAILED)
