"""Pushed input between the senders and the engines of one simulation. It takes the place of three names:

    IngestServer (connectors/ingest_server.py)      fl, time (penstock_spark/push.py)

The sender, the hub, its queues and announcements are the code that ships. Messages take the same way as those between
engines, see :mod:`sim.real_engine.flight_twins`. They are encoded as Arrow encodes them, without the frame of gRPC.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base import threads
from penstock.connectors.flight_data import FlightData
from sim.real_engine.flight_twins import Call, FlightMessage, FlightReader, FlightWriter, Pipe, SimFlightServer

Serve = Callable[[Iterator[FlightData]], Iterator[bytes]]


class SimIngestServer:
    """Twin of ``connectors.ingest_server.IngestServer``. It listens in the network of the run."""

    def __init__(self, _address: str, _credentials: object, serve: Serve, _streams_max: int) -> None:
        self._serve = serve
        network = SimFlightServer.network
        self.process = network.scheduler.current.process
        self.port = network.listen(self)

    def serve(self, call: Call, command: bytes) -> None:
        """Handle one stream, on a thread of this server's process."""
        try:
            with closing(self._serve(_messages(call, command))) as answers:  # type: ignore[type-var]
                for answer in answers:
                    call.down.write(FlightMessage(None, pa.py_buffer(answer)))
            for _ in _received(call):
                pass  # the sender reads the last answer before it ends
        except fl.FlightError as error:
            call.down.close(error)
            call.end(error)
        else:
            call.down.close(StopIteration())
            call.end()


def _messages(call: Call, command: bytes) -> Iterator[FlightData]:
    """Yield the messages of a sender until it ends or is gone."""
    yield FlightData(command=memoryview(command))
    yield from _received(call)


def _received(call: Call) -> Iterator[FlightData]:
    while True:
        try:
            yield call.up.read().data
        except (StopIteration, fl.FlightError):
            return


class SentMessages(FlightWriter):
    """The writing end of a sender: it encodes rows as Arrow's own client does."""

    def __init__(self, pipe: Pipe, call: Call) -> None:
        super().__init__(pipe, call)
        self._up = pipe

    def begin(self, schema: pa.Schema) -> None:
        """Send the schema."""
        self._send(_encoded(schema.serialize()))

    def write_metadata(self, data: Any) -> None:
        """Send bytes without a batch."""
        self._send(FlightData(metadata=memoryview(data)))

    def write_with_metadata(self, batch: pa.RecordBatch, data: Any) -> None:
        """Send a batch."""
        encoded = _encoded(batch.serialize())
        self._send(FlightData(header=encoded.header, metadata=memoryview(data), body=encoded.body))

    def _send(self, message: FlightData) -> None:
        self._up.write(FlightMessage(message, pa.py_buffer(b"")))


def _encoded(message: pa.Buffer) -> FlightData:
    read = pa.ipc.read_message(message)
    body = read.body
    return FlightData(header=memoryview(read.metadata), body=memoryview(b"" if body is None else body))


class SenderFlight:
    """Twin of ``pyarrow.flight`` for the sender."""

    FlightDescriptor = fl.FlightDescriptor

    class FlightClient:
        """A connection to the worker at an announced address."""

        def __init__(self, address: str) -> None:
            self._port = int(address.rsplit(":", 1)[1])

        def __enter__(self) -> "SenderFlight.FlightClient":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def do_exchange(self, descriptor: Any) -> tuple[FlightWriter, FlightReader]:
            """Open a stream."""
            call = SimFlightServer.network.call(self._port, descriptor.command)
            return SentMessages(call.up, call), FlightReader(call.down, call)


class SenderTime:
    """Twin of ``time`` for the sender."""

    monotonic = staticmethod(threads.monotonic)
    sleep = staticmethod(threads.sleep)
