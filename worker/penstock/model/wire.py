"""The app_metadata of every message on a channel: fixed little-endian structs, never JSON.

    byte 0   kind                      then                                         last 4 bytes
    0x01     data (body: Arrow batch)  sequence, charge, rows, event-time bounds    CRC-32
    0x02     barrier                   sequence, term, epoch, version, kind, ...    of all
    0x03     watermark                 sequence, event time                         before
    0x04     latency marker            sequence, source task, origin time
    0x05     end of stream             sequence
    0x06     idle (1) or active (0)    sequence, flag
    0x07     packed data (no body)     as for data; the compressed batch follows the checksum
    0x10     credits (reverse way)     one or more of channel, granted, taken, version, window

The sequence counts all elements of a channel from 1. Every decoder accepts exactly what its
encoder writes and raises PeerError on anything else: wrong length, checksum, kind or range.
The checksum covers the metadata only; the transport has checksums for the body. A packed batch is
an Arrow IPC stream of one batch with LZ4 buffers. So each batch can be packed or not, while the
compression of a Flight stream is fixed for the whole stream.

Handshakes and replies of streams are fixed structs with a checksum, too:

    0x20  channel   one stream of one channel     in the FlightDescriptor's command
    0x21  link      replies and credits of all channels of two workers, back to the sender
    0x11  reply     accepted or refused, with the reason; on the link

The wire version follows directly after the kind. So every later version can read it and report a
mismatch. A receiver may hold a stream of a higher attempt until the receiver has reset itself to that
attempt. Then it accepts or refuses the stream. A held stream gets no reply before that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from zlib import crc32

from penstock.base.errors import PeerError
from penstock.base.limits import (
    CREDITS_PER_MESSAGE_MAX,
    ELEMENT_BYTES_MAX,
    ELEMENT_FIXED_CHARGE_BYTES,
    STEPS_MAX,
    WORKERS_MAX,
)
from penstock.base.values import hot_dataclass, replace
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
    Term,
    Version,
)
from penstock.model.elements import (
    Active,
    Barrier,
    BarrierKind,
    Control,
    Credit,
    EndOfStream,
    Idle,
    LatencyMarker,
    Watermark,
)

WIRE_VERSION = 2

DATA = 0x01
BARRIER = 0x02
WATERMARK = 0x03
LATENCY = 0x04
END = 0x05
IDLE = 0x06
PACKED = 0x07
CREDIT = 0x10

CHARGE_MAX = ELEMENT_BYTES_MAX + ELEMENT_FIXED_CHARGE_BYTES

_CRC = Struct("<I")
_DATA = Struct("<BQQIBqq")
_BARRIER = Struct("<BQQQQBQq")
_WATERMARK = Struct("<BQq")
_LATENCY = Struct("<BQIIIq")
_END = Struct("<BQ")
_IDLE = Struct("<BQB")
_CREDIT = Struct("<IIIIIIIQQQQ")

DATA_HEAD_BYTES = _DATA.size + _CRC.size

REPLY = 0x11
CHANNEL_HELLO = 0x20
LINK_HELLO = 0x21
FINGERPRINT_BYTES = 32
TEXT_BYTES_MAX = 1024

_HEAD = Struct("<BHQ")  # kind, wire version, attempt
_CHANNEL = Struct("<IIIIIII")
_LINK = Struct("<II")
_LENGTH = Struct("<H")


@hot_dataclass
class DataHead:
    """The metadata of a batch. Event times are microseconds; None when they are unknown.

    The ``charge`` of a ``packed`` batch is the charge of its decoded rows.
    """

    rows: int
    charge: int
    min_ts: int | None = None
    max_ts: int | None = None
    packed: bool = False


Head = DataHead | Control


def seal(body: bytes) -> bytes:
    """Append the checksum that :func:`unseal` checks."""
    return body + _CRC.pack(crc32(body))


def unseal(message: bytes) -> bytes:
    """Return the message without its checksum. Raises PeerError when the checksum is wrong."""
    body = message[: -_CRC.size]
    if not body or _CRC.pack(crc32(body)) != message[-_CRC.size :]:
        raise PeerError(f"message of {len(message)} bytes fails its checksum")
    return body


def encode_data(sequence: int, head: DataHead) -> bytes:
    """Encode the metadata of a batch. Either both event-time bounds are given or neither."""
    bounded = head.min_ts is not None and head.max_ts is not None
    kind = PACKED if head.packed else DATA
    body = _DATA.pack(kind, sequence, head.charge, head.rows, bounded, head.min_ts or 0, head.max_ts or 0)
    return seal(body)


def encode_control(sequence: int, element: Control) -> bytes:
    """Encode a control element, which has no body."""
    match element:
        case Barrier(term, epoch, version, kind, committed, time_us):
            body = _BARRIER.pack(BARRIER, sequence, term, epoch, version, kind, committed, time_us)
        case Watermark(time_us):
            body = _WATERMARK.pack(WATERMARK, sequence, time_us)
        case LatencyMarker(source, origin_ns):
            task = (source.stage, source.worker, source.slot)
            body = _LATENCY.pack(LATENCY, sequence, *task, origin_ns)
        case EndOfStream():
            body = _END.pack(END, sequence)
        case Idle() | Active():
            body = _IDLE.pack(IDLE, sequence, isinstance(element, Idle))
    return seal(body)


def decode(message: bytes) -> tuple[int, Head]:
    """Read one element's metadata: (sequence, head). Raises PeerError on any other bytes."""
    body = unseal(message)
    known = _DECODERS.get(body[0])
    if known is None:
        raise PeerError(f"unknown element kind 0x{body[0]:02x}")
    struct, build = known
    if len(body) != struct.size:
        raise PeerError(f"element 0x{body[0]:02x} has {len(body)} bytes, not {struct.size}")
    fields = struct.unpack(body)
    if fields[1] < 1:
        raise PeerError("sequence numbers begin at 1")
    return fields[1], build(*fields[2:])


def encode_credits(owed: Sequence[Credit]) -> bytes:
    """Encode 1..CREDITS_PER_MESSAGE_MAX credits as one message."""
    assert 1 <= len(owed) <= CREDITS_PER_MESSAGE_MAX, f"{len(owed)} credits in a message"
    structs = (_CREDIT.pack(*channel_fields(c.channel), c.granted, c.received, c.version, c.window) for c in owed)
    return seal(bytes((CREDIT,)) + b"".join(structs))


def decode_credits(message: bytes) -> list[Credit]:
    """Read what :func:`encode_credits` wrote. Raises PeerError on any other bytes."""
    body = unseal(message)
    count, rest = divmod(len(body) - 1, _CREDIT.size)
    if body[0] != CREDIT or rest or not 1 <= count <= CREDITS_PER_MESSAGE_MAX:
        raise PeerError(f"not a credit message: kind 0x{body[0]:02x}, {len(body)} bytes")
    return [
        Credit(read_channel(fields[:7]), fields[7], fields[8], Version(fields[9]), _window(fields[10]))
        for fields in _CREDIT.iter_unpack(memoryview(body)[1:])
    ]


def channel_fields(channel: ChannelId) -> tuple[int, int, int, int, int, int, int]:
    """Return the seven unsigned numbers that identify a channel on the wire."""
    s, r = channel.sender, channel.receiver
    return (channel.edge, s.stage, s.worker, s.slot, r.stage, r.worker, r.slot)


def read_channel(fields: Sequence[int]) -> ChannelId:
    """Build a channel from its seven numbers. Raises PeerError when one is out of range."""
    edge, *tasks = fields
    if edge >= STEPS_MAX * STEPS_MAX:
        raise PeerError(f"edge {edge} is out of range")
    return ChannelId(edge, read_task(*tasks[:3]), read_task(*tasks[3:]))


def read_task(stage: int, worker: int, slot: int) -> TaskId:
    """Build a task from its three numbers. Raises PeerError when one is out of range."""
    if stage >= STEPS_MAX or worker >= WORKERS_MAX:
        raise PeerError(f"task {stage}.{worker}.{slot} is out of range")
    return TaskId(StageIndex(stage), Ordinal(worker), slot)


def _data(charge: int, rows: int, bounded: int, min_ts: int, max_ts: int) -> DataHead:
    if not ELEMENT_FIXED_CHARGE_BYTES <= charge <= CHARGE_MAX:
        raise PeerError(f"charge of {charge} bytes is out of range")
    if bounded == 1 and min_ts <= max_ts:
        return DataHead(rows, charge, min_ts, max_ts)
    if bounded or min_ts or max_ts:
        raise PeerError(f"event-time bounds [{min_ts}, {max_ts}] with flag {bounded}")
    return DataHead(rows, charge)


def _window(size: int) -> int:
    if not size:
        raise PeerError("a window of no bytes would let nothing through")
    return size


def _packed(charge: int, rows: int, bounded: int, min_ts: int, max_ts: int) -> DataHead:
    return replace(_data(charge, rows, bounded, min_ts, max_ts), packed=True)


def _barrier(*fields: int) -> Barrier:
    term, epoch, version, kind, committed, time_us = fields
    if kind not in _BARRIER_KINDS:
        raise PeerError(f"unknown barrier kind {kind}")
    return Barrier(Term(term), Epoch(epoch), Version(version), BarrierKind(kind), Epoch(committed), time_us)


def _latency(stage: int, worker: int, slot: int, origin_ns: int) -> LatencyMarker:
    return LatencyMarker(read_task(stage, worker, slot), origin_ns)


def _idle(flag: int) -> Idle | Active:
    if flag > 1:
        raise PeerError(f"idle flag is {flag}, neither 0 nor 1")
    return Idle() if flag else Active()


_BARRIER_KINDS = frozenset(BarrierKind)
_DECODERS: dict[int, tuple[Struct, Callable[..., Head]]] = {
    DATA: (_DATA, _data),
    BARRIER: (_BARRIER, _barrier),
    WATERMARK: (_WATERMARK, Watermark),
    LATENCY: (_LATENCY, _latency),
    END: (_END, EndOfStream),
    IDLE: (_IDLE, _idle),
    PACKED: (_DATA, _packed),
}
# A longer message has a packed batch behind its metadata.
ELEMENT_HEAD_BYTES_MAX = max(struct.size for struct, _ in _DECODERS.values()) + _CRC.size


class AdmissionVerdict(IntEnum):
    """The decision of a receiver on a stream. The numbers are those on the wire; HELD is never sent."""

    REFUSED = 0
    ACCEPTED = 1
    HELD = 2


@dataclass(frozen=True, slots=True)
class ChannelHello:
    """The handshake of one channel's stream. ``schema`` is the SHA-256 of the edge's Arrow schema."""

    job_uid: JobUid
    attempt: Attempt
    incarnation: Incarnation
    channel: ChannelId
    schema: bytes
    wire_version: int = WIRE_VERSION

    @property
    def sender(self) -> Ordinal:
        """The worker that opens the stream."""
        return self.channel.sender.worker

    @property
    def receiver(self) -> Ordinal:
        """The worker that receives the stream."""
        return self.channel.receiver.worker


@dataclass(frozen=True, slots=True)
class LinkHello:
    """The handshake of the stream that carries replies and credits from ``receiver`` to ``sender``."""

    job_uid: JobUid
    attempt: Attempt
    incarnation: Incarnation
    sender: Ordinal
    receiver: Ordinal
    wire_version: int = WIRE_VERSION


Hello = ChannelHello | LinkHello


@dataclass(frozen=True, slots=True)
class HandshakeReply:
    """The receiver's reply to a handshake. ``channel`` is None when the reply is about the link."""

    verdict: AdmissionVerdict
    channel: ChannelId | None = None
    reason: str = ""


def encode_hello(hello: Hello) -> bytes:
    """Encode the handshake of a stream."""
    is_channel = isinstance(hello, ChannelHello)
    kind = CHANNEL_HELLO if is_channel else LINK_HELLO
    head = _HEAD.pack(kind, hello.wire_version, hello.attempt)
    texts = _text(hello.job_uid) + _text(hello.incarnation)
    if isinstance(hello, ChannelHello):
        assert len(hello.schema) == FINGERPRINT_BYTES, "a schema's fingerprint has 32 bytes"
        return seal(head + texts + _CHANNEL.pack(*channel_fields(hello.channel)) + hello.schema)
    return seal(head + texts + _LINK.pack(hello.sender, hello.receiver))


def decode_hello(message: bytes) -> Hello:
    """Read the handshake of a stream. Raises PeerError on anything else.

    A handshake of another wire version is refused with both versions in the text, because its other
    fields may have another meaning.
    """
    body = unseal(message)
    if len(body) < _HEAD.size or body[0] not in {CHANNEL_HELLO, LINK_HELLO}:
        raise PeerError(f"not a handshake: {len(body)} bytes of kind 0x{body[0]:02x}")
    kind, version, attempt = _HEAD.unpack_from(body)
    if version != WIRE_VERSION:
        raise PeerError(
            f"peer speaks wire version {version}, this worker speaks {WIRE_VERSION}: "
            "run the same release of Penstock on all workers"
        )
    job_uid, at = _read_text(body, _HEAD.size)
    incarnation, at = _read_text(body, at)
    who = (JobUid(job_uid), Attempt(attempt), Incarnation(incarnation))
    if kind == CHANNEL_HELLO:
        _expect_length(body, at + _CHANNEL.size + FINGERPRINT_BYTES)
        channel = read_channel(_CHANNEL.unpack_from(body, at))
        return ChannelHello(*who, channel, body[at + _CHANNEL.size :])
    _expect_length(body, at + _LINK.size)
    sender, receiver = _LINK.unpack_from(body, at)
    if max(sender, receiver) >= WORKERS_MAX:
        raise PeerError(f"link from worker {sender} to {receiver} is out of range")
    return LinkHello(*who, Ordinal(sender), Ordinal(receiver))


def encode_reply(reply: HandshakeReply) -> bytes:
    """Encode the reply to a handshake. A reason longer than ``TEXT_BYTES_MAX`` is shortened."""
    assert reply.verdict != AdmissionVerdict.HELD, "a held stream gets no reply"
    body = bytes((REPLY, reply.verdict, reply.channel is not None))
    if reply.channel is not None:
        body += _CHANNEL.pack(*channel_fields(reply.channel))
    return seal(body + _text(reply.reason))


def decode_reply(message: bytes) -> HandshakeReply:
    """Read the reply to a handshake. Raises PeerError on anything else."""
    body = unseal(message)
    if len(body) < 3 or body[0] != REPLY or body[1] > AdmissionVerdict.ACCEPTED or body[2] > 1:
        raise PeerError(f"not a reply: {len(body)} bytes of kind 0x{body[0]:02x}")
    channel, at = None, 3
    if body[2]:
        try:
            channel = read_channel(_CHANNEL.unpack_from(body, at))
        except StructError as error:
            raise PeerError(f"reply is cut short: {error}") from error
        at += _CHANNEL.size
    reason, at = _read_text(body, at)
    _expect_length(body, at)
    return HandshakeReply(AdmissionVerdict(body[1]), channel, reason)


def _text(text: str) -> bytes:
    data = text.encode(errors="replace")[:TEXT_BYTES_MAX].decode(errors="ignore").encode()
    return _LENGTH.pack(len(data)) + data


def _read_text(body: bytes, at: int) -> tuple[str, int]:
    try:
        (length,) = _LENGTH.unpack_from(body, at)
        data = body[at + _LENGTH.size : at + _LENGTH.size + length]
        if len(data) != length or length > TEXT_BYTES_MAX:
            raise PeerError(f"text of {length} bytes is cut short or too long")
        return data.decode(), at + _LENGTH.size + length
    except (StructError, UnicodeDecodeError) as error:
        raise PeerError(f"handshake holds no text where one belongs: {error}") from error


def _expect_length(body: bytes, length: int) -> None:
    if len(body) != length:
        raise PeerError(f"handshake has {len(body)} bytes, not {length}")
