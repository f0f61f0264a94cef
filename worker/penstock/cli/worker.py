"""``penstock worker``: what the two containers of a worker's pod run. Not for people."""

import os
import sys

import typer


def keeper() -> None:
    """Run the keeper of this pod: Lease, commits, coordination, probes."""
    from penstock.keeper.pod_platform import main  # noqa: PLC0415  keep --help fast

    _leave(main())


def engine() -> None:
    """Run engines in this pod, whenever its keeper says so."""
    from penstock.engine.pod_host import main  # noqa: PLC0415  keep --help fast

    _leave(main())


def _leave(status: int) -> None:
    """End now: threads that wait for nothing must not hold a container back."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def worker_app() -> typer.Typer:
    """Group the two commands."""
    app = typer.Typer(no_args_is_help=True, help="What the containers of a worker's pod run.")
    app.command("keeper")(keeper)
    app.command("engine")(engine)
    return app
