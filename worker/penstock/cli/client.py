"""What the commands share that talk to a running job."""

import os
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
    from penstock.kubernetes.client import ApiClient
    from penstock.kubernetes.job_client import ClusterJobClient
    from penstock.supervisor import JobClient

USER_TIMEOUT_S = 30.0  # people wait longer than Leases do


def in_cluster(context: str | None, namespace: str | None) -> bool:
    """Say whether a job of a cluster is meant: either option says so."""
    return context is not None or namespace is not None


def api_client(context: str | None, namespace: str | None) -> "ApiClient":
    """Return a client of the cluster that the kubeconfig names. Raises ConfigError."""
    from penstock.kubernetes.access import kubeconfig_access  # noqa: PLC0415  needs httpx
    from penstock.kubernetes.client import ApiClient  # noqa: PLC0415

    return ApiClient(kubeconfig_access(context, namespace, os.environ), USER_TIMEOUT_S)


@contextmanager
def cluster_client_of(
    job: str, context: str | None, namespace: str | None
) -> "Iterator[ClusterJobClient]":
    """Ask about a job in a cluster; leave with UNREACHABLE when its server does not answer."""
    from penstock.kubernetes.job_client import ClusterJobClient  # noqa: PLC0415

    client = ClusterJobClient(api_client(context, namespace), job)
    try:
        yield client
    except (StorageError, PeerError) as error:
        raise _unreachable(error) from error
    finally:
        client.close()


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
