"""Messages between a sender of pushed rows and the worker that receives them. JSON, one per batch.

sender -> worker   Hello (in the stream's descriptor), Rows with each batch, PartitionEnd
worker -> sender   IngestReply: to Hello, to every Rows, and to the end when it is committed
"""

from enum import StrEnum

from penstock.base.errors import PeerError
from penstock.contract import codec
from penstock.contract.codec import Message

WIRE_VERSION = 1
NUMBER_MAX = 2**63 - 1  # of a sender, and of a row


class Hello(Message, tag="Hello"):
    """Opens a stream. ``sender`` is the number of the Spark task's attempt: the highest one wins."""

    wire: int
    partition: int
    partitions: int
    sender: int


class Rows(Message, tag="Rows"):
    """The batch in the same message begins at ``offset`` of its partition."""

    offset: int


class PartitionEnd(Message, tag="End"):
    """The partition has exactly ``offset`` rows."""

    offset: int


class IngestAnswer(StrEnum):
    """The answer of a worker.

    TAKEN: continue, all rows below ``next`` were received. REWIND: send again from ``next``.
    MOVED: connect to ``owner``. RETRY: the partition has no owner now (a reset), ask again.
    SUPERSEDED: a later attempt sends this partition, stop for good. FINISHED: the partition is
    committed to its end. REFUSED: ``text`` has the reason.
    """

    TAKEN = "taken"
    REWIND = "rewind"
    MOVED = "moved"
    RETRY = "retry"
    SUPERSEDED = "superseded"
    FINISHED = "finished"
    REFUSED = "refused"


class IngestReply(Message, tag="Reply"):
    """An answer and its offsets."""

    answer: str
    next: int = 0
    committed: int = 0
    owner: str = ""
    text: str = ""


def decode_hello(data: bytes) -> Hello:
    """Read a descriptor. Raises PeerError on anything else or another wire version."""
    hello = codec.decode(Hello, data)
    if hello.wire != WIRE_VERSION:
        raise PeerError(f"the sender speaks version {hello.wire}, this worker {WIRE_VERSION}")
    _check_number("sender", hello.sender)
    return hello


def decode_push(data: bytes) -> Rows | PartitionEnd:
    """Read the metadata of a batch, or the end of a partition. Raises PeerError."""
    push: Rows | PartitionEnd = codec.decode(Rows | PartitionEnd, data)  # type: ignore[arg-type]
    _check_number("offset", push.offset)
    return push


def decode_reply(data: bytes) -> IngestReply:
    """Read a worker's answer. Raises PeerError."""
    return codec.decode(IngestReply, data)


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= NUMBER_MAX:
        raise PeerError(f"{name} {number} is out of range")
