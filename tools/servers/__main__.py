"""Runs servers to try things with, until Ctrl-C: ``make servers``, or ``python -m tools.servers [NAME ...]``."""

import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tools.servers.fetched import ServerMissing
from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PostgresServer
from tools.servers.s3 import S3Server

PASSWORD = "penstock"  # of a server that only this machine reaches, for as long as a person tries something
Start = Callable[[Path, ExitStack], str]  # in a folder; it says what a person sets in the environment


def main(names: list[str]) -> int:
    """Run the servers ``names``, or all that this machine has programs for, until Ctrl-C. Returns the exit status."""
    if unknown := set(names) - set(SERVERS):
        print(f"there is no server {min(unknown)!r}: {', '.join(SERVERS)}", file=sys.stderr)
        return 2
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    running = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-servers-")))
        for name in names or SERVERS:
            try:
                print(SERVERS[name](folder, stack), flush=True)
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


def _s3(folder: Path, stack: ExitStack) -> str:
    server = S3Server(folder / "s3", "penstock", PASSWORD)
    stack.callback(server.stop)
    server.start()
    url = server.bucket("penstock")
    return f"export S3={url} S3_ENDPOINT={server.endpoint} AWS_ACCESS_KEY_ID=penstock AWS_SECRET_ACCESS_KEY={PASSWORD}"


SERVERS: dict[str, Start] = {"kafka": _kafka, "postgres": _postgres, "s3": _s3}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
