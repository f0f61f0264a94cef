"""Words between a sender of pushed rows and the worker that takes them. JSON, one per batch.

sender -> worker   Hello (in the stream's descriptor), Rows with each batch, End
worker -> sender   Reply: to Hello, to every Rows, and to End when it is committed
"""

from enum import StrEnum

from penstock.base.errors import PeerError
from penstock.contract import codec
from penstock.contract.codec import Message

WIRE_VERSION = 1
NUMBER_MAX = 2**63 - 1  # of a sender, and of a row


class Hello(Message, tag="Hello"):
    """Who pushes what: ``sender`` is the number of the Spark task's attempt, the highest wins."""

    wire: int
    partition: int
    partitions: int
    sender: int


class Rows(Message, tag="Rows"):
    """The batch beside this begins at ``offset`` of its partition."""

    offset: int


class End(Message, tag="End"):
    """The partition has exactly ``offset`` rows."""

    offset: int


class Answer(StrEnum):
    """What a worker says.

    TAKEN: go on, all rows below ``next`` are here. REWIND: send again from ``next``. MOVED:
    dial ``owner``. RETRY: nobody owns it now (a reset); ask again. SUPERSEDED: a later attempt
    sends this partition: stop for good. FINISHED: the partition is committed to its end.
    REFUSED: see ``text``.
    """

    TAKEN = "taken"
    REWIND = "rewind"
    MOVED = "moved"
    RETRY = "retry"
    SUPERSEDED = "superseded"
    FINISHED = "finished"
    REFUSED = "refused"


class Reply(Message, tag="Reply"):
    """An answer with the offsets that go with it."""

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


def decode_push(data: bytes) -> Rows | End:
    """Read what a sender says beside or after its batches. Raises PeerError."""
    push: Rows | End = codec.decode(Rows | End, data)  # type: ignore[arg-type]
    _check_number("offset", push.offset)
    return push


def decode_reply(data: bytes) -> Reply:
    """Read a worker's answer. Raises PeerError."""
    return codec.decode(Reply, data)


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= NUMBER_MAX:
        raise PeerError(f"{name} {number} is out of range")
