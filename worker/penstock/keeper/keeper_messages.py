"""The messages of a keeper: the one queue of what comes in, and a thread for each peer to send to.

Lanes put answers into the queue. Everything said between keepers is repeated until it has its effect,
so a sender that is behind drops messages instead of blocking anybody: a stopped peer must not delay
the others.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from penstock.base.errors import PenstockError, StorageError
from penstock.base.limits import KEEPER_INBOX_MAX, KEEPER_LANE_MAX, MESSAGE_QUEUE_MAX, PEER_SENDER_IDLE_S
from penstock.cluster.rpc import DELIVER, Client, Unreachable, refuses
from penstock.contract.control_messages import Envelope
from penstock.protocol.keeper_core_messages import CoordinatorEvent, MemberEvent, PeerRefused

Dial = Callable[[str], Client]


class Core(Enum):
    """Which state machine asked."""

    COORDINATOR = "coordinator"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class ForCoordinator:
    """One event on its way to the coordinator."""

    event: CoordinatorEvent


@dataclass(frozen=True, slots=True)
class ForMember:
    """One event on its way to the member."""

    event: MemberEvent


Item = ForCoordinator | ForMember


@dataclass(frozen=True, slots=True)
class EngineCrashed:
    """A thread of the keeper failed with an unexpected error: the process ends."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Leave:
    """This process was asked to end, for ``reason``."""

    reason: str


class KeeperInbox:
    """What the loop waits on. Bounded: what comes when it is full is refused."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Item | EngineCrashed | Leave] = queue.Queue(KEEPER_INBOX_MAX)

    def put(self, item: Item | EngineCrashed | Leave) -> None:
        """Add an answer or an event of our own; waits while the loop is behind."""
        self._queue.put(item)

    def offer(self, item: Item) -> None:
        """Add a message of a peer, which it will repeat. Raises StorageError when full."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            raise StorageError("the keeper's inbox is full; repeat later") from None

    def take(self, timeout_s: float | None) -> Item | EngineCrashed | Leave | None:
        """Wait for the next item, at most ``timeout_s``; None when there is none by then."""
        try:
            if timeout_s is not None and timeout_s <= 0:
                return self._queue.get_nowait()
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None


Job = Callable[[], Item | None]


class Lane:
    """One thread that does blocking jobs in order and puts their answers into the inbox.

    An error that a job does not turn into an answer is our bug: it ends the process, because a
    core that waits for ever for an answer would be worse.
    """

    def __init__(self, name: str, inbox: KeeperInbox) -> None:
        """Start the thread; it ends with the process."""
        self._inbox = inbox
        self._jobs: queue.Queue[Job] = queue.Queue(KEEPER_LANE_MAX)
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, job: Job) -> None:
        """Queue a job. Never blocks: cores have a bounded number of actions under way."""
        self._jobs.put_nowait(job)

    def _run(self) -> None:
        while True:
            try:
                answer = self._jobs.get()()
            except BaseException as error:
                self._inbox.put(EngineCrashed(error))
                return
            if answer is not None:
                self._inbox.put(answer)


class PeerSenders:
    """Sends envelopes to addresses. Only a refusal is reported.

    A sender that was not needed for ``PEER_SENDER_IDLE_S`` is ended, with its thread and channel: the
    address of a worker's earlier life is never used again.
    """

    def __init__(
        self,
        inbox: KeeperInbox,
        dial: Dial,
        complain: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """``complain`` gets a text when a peer refuses a message for a new reason.

        ``clock`` gives monotonic seconds.
        """
        self._inbox = inbox
        self._dial = dial
        self._complain = complain
        self._clock = clock
        self._senders: dict[str, _PeerSender] = {}
        self._used: dict[str, float] = {}  # in the order of their last use

    def send(self, address: str, envelope: Envelope) -> None:
        """Queue a message; never blocks. Called by one thread."""
        sender = self._senders.get(address)
        if sender is None:
            sender = _PeerSender(address, self._dial(address), self._inbox, self._complain)
            self._senders[address] = sender
        sender.offer(envelope)
        now = self._clock()
        self._used.pop(address, None)
        self._used[address] = now
        self._end_idle(now)

    def _end_idle(self, now: float) -> None:
        while self._used:
            oldest = next(iter(self._used))
            if now - self._used[oldest] < PEER_SENDER_IDLE_S:
                return
            del self._used[oldest]
            self._senders.pop(oldest).end()


class _PeerSender:
    def __init__(self, address: str, client: Client, inbox: KeeperInbox, complain: Callable[[str], None]) -> None:
        self._address = address
        self._client = client
        self._inbox = inbox
        self._complain = complain
        self._last_reason = ""
        self._queue: queue.Queue[Envelope | None] = queue.Queue(MESSAGE_QUEUE_MAX)
        threading.Thread(target=self._run, name=f"peer-sender-{address}", daemon=True).start()

    def offer(self, envelope: Envelope | None) -> None:
        try:
            self._queue.put_nowait(envelope)
        except queue.Full:
            return  # repeated by its sender, when this peer listens again

    def end(self) -> None:
        self._client.close()
        self.offer(None)

    def _refused(self, reason: str) -> None:
        # Messages are repeated, and so are their refusals: one line per reason is enough.
        if reason != self._last_reason:
            self._complain(f"{self._address} refused a message: {reason}")
            self._last_reason = reason

    def _run(self) -> None:
        while (envelope := self._queue.get()) is not None:
            try:
                self._client.call(DELIVER, envelope)
            except Unreachable:
                if refuses(self._address):
                    self._inbox.put(ForCoordinator(PeerRefused(self._address)))
            except PenstockError as error:
                self._refused(str(error))
            except ValueError:
                return  # the client was closed: this address is not needed any more
