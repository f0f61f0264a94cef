"""Messages of Arrow Flight as bytes, before Arrow decodes them.

    FlightData (protobuf): 1 descriptor (2: command) | 2 header | 3 app_metadata | 1000 body

``header`` is the metadata of an Arrow IPC message and ``body`` its body. Source of the layout:
``format/Flight.proto`` of Apache Arrow, and the encoding of protocol buffers.
"""

from dataclasses import dataclass

from penstock.base.errors import PeerError

SERVICE = "arrow.flight.protocol.FlightService"
EXCHANGE = "DoExchange"
_DESCRIPTOR, _HEADER, _METADATA, _BODY = 1, 2, 3, 1000
_COMMAND = 2
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class FlightData:
    """One message. Missing parts are empty. Nothing is copied."""

    command: memoryview = _NOTHING
    header: memoryview = _NOTHING
    metadata: memoryview = _NOTHING
    body: memoryview = _NOTHING


def decode(message: bytes) -> FlightData:
    """Read a message. Raises PeerError when the bytes are no message."""
    found = _fields(memoryview(message))
    descriptor = _fields(found.get(_DESCRIPTOR, _NOTHING))
    return FlightData(
        descriptor.get(_COMMAND, _NOTHING),
        found.get(_HEADER, _NOTHING),
        found.get(_METADATA, _NOTHING),
        found.get(_BODY, _NOTHING),
    )


def encode_metadata(metadata: bytes) -> bytes:
    """Write a message with metadata only."""
    size = len(metadata)
    sized = bytearray((_METADATA << 3 | _SIZED,))
    while size > 0x7F:
        sized.append(size & 0x7F | 0x80)
        size >>= 7
    sized.append(size)
    return bytes(sized) + metadata


def _fields(message: memoryview) -> dict[int, memoryview]:
    """Return the length-delimited fields by number; of a repeated field, the last."""
    found: dict[int, memoryview] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind, stop = tag & 7, at
        if kind == _SIZED:
            size, at = _varint(message, at)
            stop = at + size
            found[tag >> 3] = message[at:stop]
        elif kind == _VARINT:
            _, stop = _varint(message, at)
        elif kind in {_FIXED64, _FIXED32}:
            stop = at + (8 if kind == _FIXED64 else 4)
        else:
            raise PeerError(f"a message of Flight with a field of kind {kind}")
        if stop > len(message):
            raise PeerError("a field of a message of Flight is longer than the message")
        at = stop
    return found


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = 0
    for place in range(at, min(at + _VARINT_BYTES_MAX, len(message))):
        byte = message[place]
        value |= (byte & 0x7F) << 7 * (place - at)
        if byte < 0x80:
            return value, place + 1
    raise PeerError("a message of Flight ends within a number")
