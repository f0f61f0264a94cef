"""Starts servers to try things with, and runs until Ctrl-C: ``python -m tools.servers``, or ``make servers``."""

import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from tools.servers.fetched import ServerMissing
from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PostgresServer

PASSWORD = "penstock"  # of a server that only this machine reaches, for as long as a person tries something


def main() -> int:
    """Run the servers that this machine has programs for, until Ctrl-C. Returns the exit status."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    running = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-servers-")))
        for start in (_kafka, _postgres):
            try:
                print(start(folder, stack), flush=True)
                running += 1
            except ServerMissing as error:
                print(error, file=sys.stderr)
        if not running:
            return 1
        print("# Paste the lines above into another shell. Ctrl-C ends the servers and removes their data.", flush=True)
        ended.wait()
    return 0


def _kafka(folder: Path, stack: ExitStack) -> str:
    broker = KafkaBroker(folder / "kafka")
    stack.callback(broker.stop)
    broker.start()
    return f"export KAFKA={broker.address}"


def _postgres(_: Path, stack: ExitStack) -> str:
    server = PostgresServer(PASSWORD)
    stack.callback(server.remove)
    server.start()
    return f"export PGURI={server.uri} PGPASSWORD={PASSWORD}"


if __name__ == "__main__":
    sys.exit(main())
