"""Starts servers to try things with, and runs until Ctrl-C: ``python -m tools.servers``, or ``make servers``."""

import signal
import sys
import tempfile
import threading
from pathlib import Path

from tools.servers.fetched import ServerMissing
from tools.servers.kafka import KafkaBroker


def main() -> int:
    """Run a broker in a folder that is removed at the end. Returns the exit status."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="penstock-servers-") as folder:
        try:
            broker = KafkaBroker(Path(folder) / "kafka")
            broker.start()
        except ServerMissing as error:
            print(error, file=sys.stderr)
            return 1
        try:
            print(f"Kafka: bootstrapServers: {broker.address}   (Ctrl-C ends it and removes its data)", flush=True)
            ended.wait()
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
