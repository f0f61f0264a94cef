"""Handshakes and replies of streams: fixed structs with a checksum, like the elements of ``wire``.

    0x20  channel   one stream of one channel     in the FlightDescriptor's command
    0x21  link      replies and credits of all channels of two workers, back to the sender
    0x11  reply     accepted or refused, with the reason; on the link

The wire version follows directly after the kind. So every later version can read it and report a
mismatch.

A receiver may hold a stream of a higher attempt until the receiver has reset itself to that attempt.
Then it accepts or refuses the stream. A held stream gets no reply before that.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError

from penstock.base.errors import PeerError
from penstock.base.limits import WORKERS_MAX
from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal
from penstock.model.wire import (
    WIRE_VERSION,
    channel_fields,
    read_channel,
    seal,
    unseal,
)

REPLY = 0x11
CHANNEL_HELLO = 0x20
LINK_HELLO = 0x21
FINGERPRINT_BYTES = 32
TEXT_BYTES_MAX = 1024

_HEAD = Struct("<BHQ")  # kind, wire version, attempt
_CHANNEL = Struct("<IIIIIII")
_LINK = Struct("<II")
_LENGTH = Struct("<H")


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
