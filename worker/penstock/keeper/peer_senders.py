"""Messages to other keepers: one thread and one short queue per address.

Everything said between keepers is repeated until it has its effect, so a sender that is behind
drops messages instead of blocking anybody: a stopped peer must not delay the others.
"""

import queue
import threading
from collections.abc import Callable

from penstock.base.errors import PenstockError
from penstock.base.limits import MESSAGE_QUEUE_MAX, PEER_SENDER_IDLE_S
from penstock.cluster.rpc import DELIVER, Client, Unreachable, refuses
from penstock.contract.control_messages import Envelope
from penstock.keeper.keeper_inbox import ForCoordinator, KeeperInbox
from penstock.protocol.control_events import PeerRefused

Dial = Callable[[str], Client]


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
