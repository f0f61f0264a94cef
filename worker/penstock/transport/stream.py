"""The writing end of one channel's Flight stream. The reverse direction is unused: see ``link``."""

from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base.threads import perf_counter
from penstock.base.values import replace
from penstock.contract.settings import CompressionSettings
from penstock.contract.trust import Shown
from penstock.model.compression import Packing
from penstock.model.handshake import Hello, encode_hello
from penstock.model.wire import DataHead, encode_data
from penstock.transport.batches import can_pack, conform, pack
from penstock.transport.flight_endpoint import call_options

STREAM_ERRORS = (fl.FlightError, pa.ArrowException, OSError)
_NOISE = (" gRPC client debug context:", " Detail: ", " Client context:")


def describe(error: BaseException) -> str:
    """Return the text of a stream's error in one line, without the contexts that gRPC appends."""
    text = " ".join(str(error).split())
    for noise in _NOISE:
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class OutStream:
    """One DoExchange call. Only the sender thread calls it, except :meth:`cancel`."""

    def __init__(
        self,
        client: Any,
        hello: Hello,
        schema: pa.Schema,
        compression: CompressionSettings,
        *,
        trust: Shown | None = None,
    ) -> None:
        self._client = client
        self._hello = hello
        self._schema = schema
        self._packing = Packing(compression) if can_pack(compression, schema) else None
        self._trust = trust
        self._writer: Any = None
        self._reader: Any = None
        self._begun = False
        self._cancelled = False

    def open(self) -> None:
        """Begin the call with the handshake. Raises FlightError when the peer cannot be reached."""
        hello = encode_hello(self._hello)
        descriptor = fl.FlightDescriptor.for_command(hello)
        options = call_options(self._trust, hello)
        self._writer, self._reader = self._client.do_exchange(descriptor, options)
        if self._cancelled:
            self._reader.cancel()

    def send_batch(self, sequence: int, head: DataHead, batch: pa.RecordBatch, *, waited_s: float = 0.0) -> None:
        """Write a batch, packed where that is faster. May block.

        ``waited_s`` is how long the batch has waited for credit.
        """
        rows = conform(batch, self._schema)
        packs = self._packing is not None and self._packing.packs(rows, head.charge)
        start = perf_counter()
        if not (packs and self._write_packed(sequence, head, rows)):
            self._write_plain(rows, encode_data(sequence, head))
        if self._packing is not None:
            self._packing.sent(perf_counter() - start + waited_s)

    def _write_packed(self, sequence: int, head: DataHead, rows: pa.RecordBatch) -> bool:
        """Write a batch packed; return False and write nothing when packing makes it larger."""
        metadata = encode_data(sequence, replace(head, packed=True))
        message = pack(rows, self._schema, metadata)
        if message.size > head.charge:
            return False
        self._writer.write_metadata(message)
        return True

    def _write_plain(self, rows: pa.RecordBatch, metadata: bytes) -> None:
        if not self._begun:
            self._begun = True
            self._writer.begin(self._schema)
        self._writer.write_with_metadata(rows, metadata)

    def send_control(self, metadata: bytes) -> None:
        """Write an element without a body. May block."""
        self._writer.write_metadata(metadata)

    def cancel(self) -> None:
        """End a blocked write, from any thread. Later writes fail."""
        self._cancelled = True
        if self._reader is not None:
            self._reader.cancel()

    def close(self) -> None:
        """End the call and, unless it was cancelled, wait for the peer's handler.

        Raises FlightError.
        """
        try:
            self._writer.close()
        except STREAM_ERRORS:
            if not self._cancelled:  # a cancelled call raises its error again when it is closed
                raise
