"""The command line: the composition root. Each command is a small file; heavy imports are late."""

import gc


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.disable()  # until modules are loaded, which live on: looking among them costs a sixth
    from penstock.cli.app import run  # noqa: PLC0415  importing the package costs nothing

    run()
