"""What formats of Kafka's values cost: rows to values, and values to rows, on one thread without a broker.

    python -m bench.formats [FORMAT ...] [--turns N]

A row has six columns, and some 100 bytes as JSON. Rates are rows per second of CPU. Every row is compared. For Avro a
small HTTP server here has the one schema: it is asked once for each direction.
"""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.kafka.decoding import RowDecoder
from penstock.connectors.kafka.encoding import RecordEncoder
from penstock.contract.kafka_options import KafkaInput, KafkaOutput, OutputFormat, RecordFormat

FORMATS = ("json", "csv", "raw", "avro")
ROWS = 20_000  # of one call: as many as a reader takes at once
CALLS = 10


class Message:
    """A record as the client gives it, as far as the decoder asks."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def value(self) -> bytes:
        """Return the value."""
        return self._value


class Registry(BaseHTTPRequestHandler):
    """Answers as a schema registry whose only schema is the one that it was given."""

    schema = b""

    def _do(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size:
            type(self).schema = self.rfile.read(size)
        answer = self.schema if self.command == "GET" else b'{"id": 1}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = _do

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the server's own method
        """Write nothing."""


@contextmanager
def registry() -> Iterator[str]:
    """Run the registry on the loopback interface, and give its address."""
    server = HTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def rows(raw: bool) -> pa.RecordBatch:
    """Make the rows: six columns, or one of bytes."""
    numbers = np.arange(ROWS)
    if raw:
        return pa.record_batch({"value": [b"%096d" % n for n in range(ROWS)]})
    return pa.record_batch(
        {
            "order": [f"order-{n:08d}" for n in range(ROWS)],
            "item": [f"item {n % 977}" for n in range(ROWS)],
            "count": pa.array(numbers % 90),
            "price": pa.array(numbers / 8),
            "paid": pa.array(numbers % 2 == 0),
            "at": pa.array(1_700_000_000_000_000 + numbers * 1000, pa.timestamp("us")),
        }
    )


def csv_values(batch: pa.RecordBatch) -> list[bytes]:
    """Return each row as a line of CSV; a sink does not write it."""
    return [",".join(map(str, row.values())).encode() for row in batch.to_pylist()]


def rate(call: Callable[[], Any]) -> float:
    """Return how many rows a second of CPU takes."""
    begun = time.thread_time()
    for _ in range(CALLS):
        call()
    return CALLS * ROWS / (time.thread_time() - begun)


def measure(name: str, address: str) -> dict[str, Any]:
    """Measure one format in both directions. Raises SystemExit when a row comes back as another one."""
    form, batch = RecordFormat(name), rows(name == "raw")
    place = address if form is RecordFormat.AVRO else None
    encoder = None
    if form is not RecordFormat.CSV:
        output = KafkaOutput("none:1", "orders", format=OutputFormat(name), registry=place)
        encoder = RecordEncoder(output, batch.schema)
    values = encoder.records(batch)["value"].to_pylist() if encoder else csv_values(batch)
    messages = [Message(value) for value in values]
    decoder = RowDecoder(KafkaInput("none:1", "orders", format=form, registry=place), batch.schema)
    if not decoder.rows(messages).equals(batch):
        raise SystemExit(f"{name}: rows come back as others")
    return {
        "format": name,
        "bytes": round(statistics.mean(map(len, values))),
        "encode_rows_per_s": round(rate(lambda: encoder.records(batch))) if encoder else None,
        "decode_rows_per_s": round(rate(lambda: decoder.rows(messages))),
    }


def main(arguments: list[str]) -> int:
    """Print a line of JSON for each format and turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args(arguments)
    if unknown := set(given.formats) - set(FORMATS):
        parser.error(f"there is no format {min(unknown)!r}")
    with registry() as address:
        for _ in range(given.turns):
            for name in given.formats or FORMATS:
                print(json.dumps(measure(name, address)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
