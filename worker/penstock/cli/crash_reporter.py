"""Tells what was in flight when ``penstock run --debug`` dies, which that process cannot do itself.

In other runs a keeper outlives its engine and says how it died. With ``--debug`` both are threads
of one process. So a second process waits for the end of a pipe. A run that ends as it should sends
one byte first.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.cli.exits import print_error
from penstock.cluster.in_flight import read_newest

ENDED_WELL = b"."


@contextmanager
def crash_reported(page: Path) -> Iterator[None]:
    """Have a death inside told on standard error; ``page`` is where the engine says what it does.

    A process of its own session, so that Ctrl-C does not end it.
    """
    command = [sys.executable, "-m", "penstock.cli.crash_reporter", str(page), str(_written(page))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        assert process.stdin is not None, "a pipe was asked for"
        try:
            yield
        finally:
            with suppress(BrokenPipeError):  # the reporter was killed
                process.stdin.write(ENDED_WELL)
                process.stdin.flush()


def _written(page: Path) -> int:
    """Return when the page was last written, in nanoseconds; 0 where there is none."""
    try:
        return page.stat().st_mtime_ns
    except OSError:
        return 0


def tell(page: Path, before: int) -> list[str]:
    """Say that the run died, and which rows were in the functions of the job.

    ``before`` is when the page was written before the run: it may be that of another one.
    """
    rows = (read_newest(page) or []) if _written(page) != before else []
    told = [f"in flight: {entry}" for entry in rows] or ["in flight: no row was in a function"]
    return [
        "the process of penstock run --debug died in the middle of the job",
        *told,
        "run it again to go on from the last checkpoint; without --debug it is restarted, and the"
        " signal and the last lines of its log are shown",
    ]


def main() -> None:
    """Wait for the end of the run."""
    page, before = Path(sys.argv[1]), int(sys.argv[2])
    if sys.stdin.buffer.read(1) != ENDED_WELL:
        for line in tell(page, before):
            print_error(line)


if __name__ == "__main__":
    main()
