"""The writing end of one channel's Flight stream. The reverse way is unused: see ``link``."""

from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base.settings import CompressionSettings
from penstock.contract.trust import Trust
from penstock.model.compression import choose
from penstock.model.handshake import Hello, encode_hello
from penstock.transport.batches import conform
from penstock.transport.endpoint import call_options

STREAM_ERRORS = (fl.FlightError, pa.ArrowException, OSError)
_NOISE = (" gRPC client debug context:", " Detail: ", " Client context:")


def describe(error: BaseException) -> str:
    """Spell an error of a stream in one line, without gRPC's stack of contexts."""
    text = " ".join(str(error).split())
    for noise in _NOISE:
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class LinkRate:
    """How fast a peer takes bytes, measured where writing takes time; survives attempts."""

    __slots__ = ("bytes_per_s",)

    _SHARE_OF_NEWEST = 0.2

    def __init__(self, assumed_bytes_per_s: float) -> None:
        self.bytes_per_s = assumed_bytes_per_s

    def count(self, size: int, seconds: float) -> None:
        """Count one write of ``size`` bytes."""
        newest = size / max(seconds, 1e-6)
        self.bytes_per_s += self._SHARE_OF_NEWEST * (newest - self.bytes_per_s)


class OutStream:
    """One DoExchange call. All methods are for the sender thread, save :meth:`cancel`."""

    def __init__(
        self,
        client: Any,
        hello: Hello,
        schema: pa.Schema,
        compression: CompressionSettings,
        rate: LinkRate,
        *,
        trust: Trust | None = None,
    ) -> None:
        self._client = client
        self._hello = hello
        self._schema = schema
        self._compression = compression
        self._rate = rate
        self._trust = trust
        self._writer: Any = None
        self._reader: Any = None
        self._begun = False
        self._cancelled = False

    def open(self) -> None:
        """Begin the call with the handshake. Raises FlightError when the peer is not there."""
        hello = encode_hello(self._hello)
        descriptor = fl.FlightDescriptor.for_command(hello)
        options = call_options(self._trust, hello)
        self._writer, self._reader = self._client.do_exchange(descriptor, options)
        if self._cancelled:
            self._reader.cancel()

    def send_batch(self, metadata: bytes, batch: pa.RecordBatch) -> None:
        """Write a batch; the first one decides on the compression of the stream. May block."""
        if not self._begun:
            self._begun = True
            codec = choose(self._compression, batch, self._rate.bytes_per_s)
            options = pa.ipc.IpcWriteOptions(compression=codec)
            self._writer.begin(self._schema, options=options)
        rows = conform(batch, self._schema)
        start = perf_counter()
        self._writer.write_with_metadata(rows, metadata)
        self._rate.count(batch.get_total_buffer_size(), perf_counter() - start)

    def send_control(self, metadata: bytes) -> None:
        """Write an element without a body. May block."""
        self._writer.write_metadata(metadata)

    def cancel(self) -> None:
        """End a write that blocks, from any thread; later writes fail."""
        self._cancelled = True
        if self._reader is not None:
            self._reader.cancel()

    def close(self) -> None:
        """End the call and wait for the peer's handler, unless cancelled. Raises FlightError."""
        try:
            self._writer.close()
        except STREAM_ERRORS:
            if not self._cancelled:  # a cancelled call says so once more when it is closed
                raise
