"""``penstock replay``: PySpark, in its own process, pushes a dataset into a running job."""

import signal
import subprocess
import sys

import typer


def replay(context: typer.Context) -> None:
    """Push a dataset into a running job with PySpark.

    The arguments are those of `python -m penstock_spark replay`.
    """
    command = [sys.executable, "-m", "penstock_spark", "replay", *context.args]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has to be waited for
    try:
        raise typer.Exit(subprocess.run(command, check=False).returncode)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
