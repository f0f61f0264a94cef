"""What becomes of streams that come before their attempt: some are held, and none of them for ever."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.flight as fl
import pytest

from penstock.base.limits import HELD_STREAMS_MAX
from penstock.contract.ids import Attempt, Incarnation, JobUid, Ordinal
from penstock.model.wire import LinkHello, encode_hello
from penstock.transport.server import Receiver

DEADLINE_S = 60.0
HELLO = encode_hello(LinkHello(JobUid("job"), Attempt(9), Incarnation("life"), Ordinal(0), Ordinal(1)))


class Stream:
    """One caller on a thread of its own; it hears why it was refused."""

    def __init__(self, receiver: Receiver) -> None:
        self.refused = ""
        self.answered = threading.Event()
        self._receiver = receiver
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        context = SimpleNamespace(is_cancelled=lambda: False)
        writer = SimpleNamespace(write_metadata=lambda _: self.answered.set())
        try:
            self._receiver.handle(context, HELLO, cast(Any, None), writer)
        except fl.FlightUnauthorizedError as error:
            self.refused = str(error)


def test_no_more_streams_are_held_than_there_are_threads_to_spare() -> None:
    receiver = Receiver(JobUid("job"), Ordinal(1), lambda _: None)
    receiver.reset(Attempt(1))
    receiver._held = HELD_STREAMS_MAX
    one_more = Stream(receiver)
    one_more.thread.join(DEADLINE_S)
    assert "too many streams are held" in one_more.refused


def test_a_worker_that_closes_refuses_what_it_held() -> None:
    receiver = Receiver(JobUid("job"), Ordinal(1), lambda _: None)
    receiver.reset(Attempt(1))
    held = Stream(receiver)
    receiver.close()
    held.thread.join(DEADLINE_S)
    assert "this worker is closing" in held.refused


def test_a_link_ends_with_its_attempt_though_its_caller_stays() -> None:
    receiver = Receiver(JobUid("job"), Ordinal(1), lambda _: None)
    receiver.reset(Attempt(9))
    receiver.admit({Ordinal(0): Incarnation("life")}, {}, {})
    link = Stream(receiver)
    assert link.answered.wait(DEADLINE_S)
    receiver.reset(Attempt(10))
    link.thread.join(DEADLINE_S)
    assert not link.thread.is_alive()
    assert receiver.count() == (0, 0)


def test_bytes_that_are_no_handshake_are_refused() -> None:
    receiver = Receiver(JobUid("job"), Ordinal(1), lambda _: None)
    with pytest.raises(fl.FlightUnauthorizedError, match="refused"):
        receiver.handle(None, b"nonsense", None, None)
