"""The one object that is the truth, and the one that holds what is wanted.

``Latest`` changes only by compare-and-swap; each swap writes a fresh ``swap_id``, so that a
swap whose reply was lost can be told from another's. Everything else is a view of it.
"""

from dataclasses import dataclass

from penstock.contract.ids import (
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SwapId,
    Term,
    Version,
)
from penstock.contract.manifest import BlobRef


@dataclass(frozen=True, slots=True)
class Leader:
    """The worker named by the last swap of the term; ``address`` is its keeper's."""

    ordinal: Ordinal
    incarnation: Incarnation
    address: str


@dataclass(frozen=True, slots=True)
class Member:
    """One worker of an attempt: its engine's life and the addresses of keeper and engine."""

    ordinal: Ordinal
    incarnation: Incarnation
    keeper: str
    flight: str


@dataclass(frozen=True, slots=True)
class Retained:
    """A checkpoint that collection must not touch. ``savepoint`` is the user's name for it."""

    epoch: Epoch
    root: BlobRef
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """An incarnation that the leader has given up; whoever restarts workers may end it."""

    ordinal: Ordinal
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request of ``desired``: done, or refused or failed with a reason."""

    request: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Latest:
    """State of the job that outlives every worker; at most 64 KiB encoded, asserted.

    ``version`` and ``workers`` are the committed assignment's; ``max_epoch`` is the highest epoch
    ever committed (new ones exceed it, even after a restore of an older one);
    ``published_through`` the newest epoch whose output is known to be visible.
    """

    job_uid: JobUid
    swap_id: SwapId
    term: Term = Term(0)
    leader: Leader | None = None
    attempt: Attempt = Attempt(0)
    version: Version = Version(0)
    workers: int = 0
    epoch: Epoch = Epoch(0)
    max_epoch: Epoch = Epoch(0)
    root: BlobRef | None = None
    members: BlobRef | None = None
    retained: tuple[Retained, ...] = ()
    pinned: tuple[Retained, ...] = ()
    lost: tuple[Lost, ...] = ()
    published_through: Epoch = Epoch(0)
    finished: bool = False
    stopped: bool = False
    failure: str | None = None
    lost_output: tuple[Epoch, ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """Something asked for once: ``checkpoint``, ``savepoint``, ``stop``. ``id`` makes it level-triggered."""

    id: str
    kind: str
    argument: str | None = None


@dataclass(frozen=True, slots=True)
class Restore:
    """What a new job or an explicit restore begins from; ``nonce`` makes it happen once."""

    nonce: str
    root: BlobRef | None
    allow_output_replay: bool = False
    drop_unpublished: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """What the operator (or, locally, the supervisor) wants; the leader answers in ``Latest``."""

    workers: int
    requests: tuple[Request, ...] = ()
    restore: Restore | None = None
