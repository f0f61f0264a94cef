"""Who is woken by what a task sends, and when."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from penstock.base.errors import PeerError
from penstock.base.limits import SENDS_PER_PUMP_MAX, STREAM_UNWATCHED_S
from penstock.contract.ids import ChannelId, Epoch, Ordinal, StageIndex, TaskId, Term, Version
from penstock.model.elements import Barrier, BarrierKind, Credit, Data, Watermark
from penstock.model.wire import DataHead
from penstock.protocol.channel.flow_control import ReceiveChannel, SendChannel
from penstock.transport.batches import measure
from penstock.transport.input import TaskInput, Wakeup
from penstock.transport.output import LocalCreditCarrier, LocalOutput, RemoteOutput, SenderThread
from penstock.transport.stream import OutStream

SENDER = TaskId(StageIndex(0), Ordinal(0), 0)
RECEIVER = TaskId(StageIndex(1), Ordinal(0), 0)
CHANNEL = ChannelId(0, SENDER, RECEIVER)
BUFFER = 100_000
MIB = 1 << 20


def words(text: str = "word") -> Data[pa.RecordBatch]:
    batch = pa.record_batch([[text]], names=["w"])
    return Data(batch, 1, measure(batch), None, None)


def local(window: int = 8 * MIB) -> tuple[LocalOutput, TaskInput, Wakeup]:
    wakeup = Wakeup()
    task = TaskInput(RECEIVER, wakeup)
    receiver = task.add(ReceiveChannel(CHANNEL, window, window // 2, Version(1)), None)
    output = LocalOutput(SendChannel(BUFFER, 0.0, Version(1)), Wakeup(), receiver)
    receiver.begin(LocalCreditCarrier(output))
    wakeup.wait(0)
    return output, task, wakeup


@dataclass
class Sender:
    """Counts calls, and pumps when it is told to."""

    called: list[RemoteOutput] = field(default_factory=list)


def remote(flush_interval_s: float) -> tuple[RemoteOutput, Sender]:
    sender = Sender()
    state = SendChannel[pa.RecordBatch](BUFFER, flush_interval_s, Version(1))
    output = RemoteOutput(CHANNEL, state, Wakeup(), sender.called.append)
    output.accept()
    output.on_credit(Credit(CHANNEL, 8 * MIB, 0, Version(1), 8 * MIB))
    return output, sender


def test_a_task_of_the_same_worker_wakes_when_the_turn_is_over() -> None:
    output, task, wakeup = local()
    assert output.try_send(words("a"), more=True)
    assert output.try_send(words("b"), more=True)
    assert not wakeup.wait(0)
    assert not task.empty
    output.wake_receiver()
    assert wakeup.wait(0)
    output.wake_receiver()
    assert not wakeup.wait(0), "nothing was queued since"


def test_it_wakes_at_once_for_rows_without_others_behind_them_and_for_marks() -> None:
    output, _, wakeup = local()
    assert output.try_send(words())
    assert wakeup.wait(0)
    assert output.try_send(words(), more=True)
    output.put(Watermark(1))
    assert wakeup.wait(0)


def always(_: ChannelId) -> bool:
    return True


def never(_: ChannelId) -> bool:
    return False


def test_a_local_sender_fetches_credit_when_it_runs_out_and_is_brought_it_while_it_waits() -> None:
    window, element = 16_384, words("x" * 1000)
    output, task, _ = local(window)
    fit = window // element.charge

    def send(times: int) -> bool:
        assert all(output.try_send(element) for _ in range(times))
        return output.starved

    assert send(fit + 1)
    assert output.stats().elements == fit
    assert task.poll(always, never) is not None  # small batches that wait are taken as one
    assert output.stats().elements == fit + 1, "the credit was brought, and the last one left"
    before = output.stats().credit_bytes
    assert task.poll(always, never) is not None
    assert output.stats().credit_bytes == before, "nobody waits for it"
    assert not send(fit), "the credit was fetched"


def test_a_local_sender_knows_at_once_which_rows_were_taken() -> None:
    output, task, _ = local()
    for _ in range(3):
        assert output.try_send(words(), more=True)
    assert output.outstanding_rows() == 3
    assert task.poll(always, never) is not None  # small batches that wait are taken as one
    assert output.outstanding_rows() == 0


def test_a_local_sender_that_asks_passes_on_what_there_is_room_for() -> None:
    window, element = 16_384, words("x" * 1000)
    output, task, _ = local(window)
    assert all(output.try_send(element) for _ in range(window // element.charge + 1))
    before = output.stats().elements
    with task.lock:  # as after a take whose credit was not fetched
        task._channels[CHANNEL].state.on_take(element.charge)
    assert output.outstanding_rows() == window // element.charge
    assert output.stats().elements == before + 1


def test_a_row_larger_than_the_window_leaves_when_all_rows_before_it_are_taken() -> None:
    output, task, _ = local(16_384)
    assert output.try_send(words())
    assert output.try_send(words("x" * 50_000))
    assert output.starved
    assert task.poll(always, never) is not None  # so little credit is not urgent
    assert output.stats().elements == 2


def test_a_larger_window_wakes_a_task_that_was_refused() -> None:
    output, _ = remote(60.0)
    output.on_credit(Credit(CHANNEL, 8 * MIB, 0, Version(1), 20_000))
    while output.try_send(words("x" * 1000)):
        pass
    assert not output.wakeup.wait(0)
    output.on_credit(Credit(CHANNEL, 8 * MIB, 0, Version(1), 8 * MIB))
    assert output.wakeup.wait(0)
    assert output.try_send(words("x" * 1000))


def test_a_version_that_comes_with_fetched_credit_wakes_the_task() -> None:
    task = TaskInput(RECEIVER, Wakeup())
    receiver = task.add(ReceiveChannel(CHANNEL, 8 * MIB, 4 * MIB, Version(1)), None)
    output = LocalOutput(SendChannel(BUFFER, 0.0, Version(1)), Wakeup(), receiver)
    task.announce(Version(2))  # without a carrier nobody sends it
    assert output.try_send(words()), "one element may leave without credit"
    assert not output.wakeup.wait(0)
    assert output.try_send(words())
    assert output.receiver_version == 2
    assert output.wakeup.wait(0)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Let threads change places as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_no_row_is_left_behind_between_two_threads_that_run_out_of_credit() -> None:
    output, task, wakeup = local(window=4096)
    rows, taken = 5000, 0

    def send() -> None:
        for number in range(rows):
            element = words("x" * (number % 3000))
            while not output.try_send(element, more=number % 3 > 0):
                output.wake_receiver()
                output.wakeup.wait(5)
        output.flush()

    thread = Thread(target=send, daemon=True)
    thread.start()
    while taken < rows:
        found = task.poll(always, never)
        if found is None:
            assert wakeup.wait(5), f"{taken} of {rows} rows have come"
            continue
        taken += found[1].rows  # type: ignore[union-attr]
    thread.join()
    assert not output.starved


@dataclass
class Written:
    """Notes what is written, and how long it has waited."""

    waited_s: list[float] = field(default_factory=list)

    def open(self) -> None:
        pass

    def send_batch(self, sequence: int, head: DataHead, batch: pa.RecordBatch, *, waited_s: float) -> None:
        self.waited_s.append(waited_s)

    def send_control(self, metadata: bytes) -> None:
        pass


def test_rows_that_waited_for_credit_say_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("penstock.transport.output.monotonic", lambda: now)
    output, _ = remote(0.0)
    stream = Written()
    output.connect(cast("OutStream", stream))
    for _ in range(3):
        assert output.try_send(words("x" * 20_000))
    output.pump()
    assert stream.waited_s == [0.0, 0.0, 0.0]
    output, _ = remote(0.0)
    stream = Written()
    output.connect(cast("OutStream", stream))
    big = words("x" * 9 * MIB)
    assert output.try_send(big)
    output.pump()
    assert output.try_send(big)
    output.pump()  # no credit
    now = 101.0
    output.pump()
    output.put(Watermark(1))
    now = 103.5
    output.on_credit(Credit(CHANNEL, 32 * MIB, 1, Version(1), 8 * MIB))
    output.pump()
    assert stream.waited_s == [0.0, 3.5]
    assert output.try_send(words())
    output.pump()
    assert stream.waited_s == [0.0, 3.5, 0.0]


def test_waiting_for_the_peer_to_accept_is_not_waiting_for_credit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("penstock.transport.output.monotonic", lambda: now)
    output = RemoteOutput(CHANNEL, SendChannel(BUFFER, 0.0, Version(1)), Wakeup(), lambda o: None)
    stream = Written()
    output.connect(cast("OutStream", stream))
    assert output.try_send(words())
    output.pump()
    now = 400.0
    output.accept()
    output.pump()
    assert stream.waited_s == [0.0]


@dataclass
class Unanswered:
    """A call that its receiver has not accepted. Notes who waits for its end."""

    watched: list[Callable[[Exception], None]] = field(default_factory=list)

    def open(self) -> None:
        pass

    def watch(self, on_end: Callable[[Exception], None]) -> None:
        self.watched.append(on_end)

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    times = [100.0]
    monkeypatch.setattr("penstock.transport.output.monotonic", lambda: times[-1])
    return times


def unanswered(flush_interval_s: float = 0.0) -> tuple[RemoteOutput, Sender, Unanswered]:
    sender, stream = Sender(), Unanswered()
    state = SendChannel[pa.RecordBatch](BUFFER, flush_interval_s, Version(1))
    output = RemoteOutput(CHANNEL, state, Wakeup(), sender.called.append)
    output.connect(cast("OutStream", stream))
    return output, sender, stream


def test_a_call_that_is_not_accepted_is_watched_and_its_error_is_that_of_the_channel(clock: list[float]) -> None:
    output, sender, stream = unanswered()
    assert output.pump() == clock[0] + STREAM_UNWATCHED_S
    assert stream.watched == []
    clock.append(clock[0] + STREAM_UNWATCHED_S)
    for _ in range(2):
        assert output.pump() is None
    (on_end,) = stream.watched
    sender.called.clear()
    on_end(PeerError("no"))
    assert sender.called == [output]
    with pytest.raises(PeerError, match="no"):
        output.pump()
    output.close()
    output.pump()  # closes the stream
    sender.called.clear()
    on_end(PeerError("the end of what was closed is no error"))
    assert sender.called == []


def test_a_call_that_is_accepted_in_time_is_not_watched(clock: list[float]) -> None:
    output, _, stream = unanswered()
    output.pump()
    output.accept()
    clock.append(clock[0] + STREAM_UNWATCHED_S)
    assert output.pump() is None
    assert stream.watched == []


def test_rows_that_wait_for_more_rows_do_not_delay_the_look_at_their_call(clock: list[float]) -> None:
    output, _, _ = unanswered(flush_interval_s=60.0)
    assert output.try_send(words())
    assert output.pump() == clock[0] + STREAM_UNWATCHED_S
    output, _, _ = unanswered(flush_interval_s=0.5)
    assert output.try_send(words())
    assert output.pump() == clock[0] + 0.5


def test_a_sender_is_called_for_the_deadline_only_when_the_turn_is_over() -> None:
    output, sender = remote(60.0)
    assert output.try_send(words(), more=True)
    assert sender.called == []
    output.wake_receiver()
    assert sender.called == [output]


def test_a_sender_is_called_once_for_a_turn_that_ends_in_a_flush() -> None:
    output, sender = remote(60.0)
    for _ in range(3):
        assert output.try_send(words(), more=True)
    output.flush()
    assert sender.called == [output]


def test_a_full_buffer_calls_the_sender_in_the_middle_of_a_pass() -> None:
    output, sender = remote(60.0)
    assert output.try_send(words("x" * BUFFER), more=True)
    assert sender.called == [output]


class Pumped:
    """An output that a sender thread pumps: it answers or fails as the test says."""

    def __init__(self, *answers: float | Exception | None) -> None:
        self.answers = list(answers)
        self.timer = 0.0
        self.closed = False

    def pump(self) -> float | None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def test_a_stream_that_breaks_is_reported_and_closed() -> None:
    broken: SimpleQueue[tuple[object, str]] = SimpleQueue()
    thread = SenderThread("sender", lambda output, error: broken.put((output, str(error))))
    output = Pumped(OSError("reset by peer"))
    thread.schedule(cast(RemoteOutput, output))
    assert broken.get(timeout=60.0) == (output, "reset by peer")
    assert output.closed
    thread.stop()
    assert thread.join(60.0)


def test_a_deadline_is_noted_once_however_often_the_output_is_pumped() -> None:
    later = monotonic() + 3600
    thread = SenderThread("sender", lambda *_: None)
    thread.stop()  # the calls are made here, in its place
    assert thread.join(60.0)
    output = Pumped(later, later, later)
    for _ in range(3):
        thread.schedule(cast(RemoteOutput, output))
    thread.stop()
    thread._run()
    assert len(thread._due) == 1


def test_credit_that_comes_behind_the_end_of_an_attempt_is_not_used() -> None:
    output, sender = remote(0.0)
    before = output.stats().credit_bytes
    output.close()
    called = len(sender.called)
    output.on_credit(Credit(CHANNEL, 16 * MIB, 0, Version(1), 8 * MIB))
    assert output.stats().credit_bytes == before
    assert len(sender.called) == called


def test_a_turn_that_is_full_is_followed_by_another() -> None:
    output, sender = remote(0.0)
    sent: list[object] = []
    stream = SimpleNamespace(open=lambda: None, send_control=sent.append)
    output.connect(cast("OutStream", stream))
    for epoch in range(SENDS_PER_PUMP_MAX + 1):
        output.put(Barrier(Term(1), Epoch(epoch), Version(1), BarrierKind.CHECKPOINT, Epoch(0), 0))
    sender.called.clear()
    output._scheduled = True
    output.pump()
    assert len(sent) == SENDS_PER_PUMP_MAX
    assert sender.called == [output]
    output.pump()
    assert len(sent) == SENDS_PER_PUMP_MAX + 1
