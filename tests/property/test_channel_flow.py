"""Any interleaving of sends, arrivals, takes and lost credits keeps order, bounds and progress."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.limits import ELEMENT_FIXED_CHARGE_BYTES
from penstock.contract.ids import ChannelId, Ordinal, StageIndex, TaskId, Version
from penstock.model.elements import Data, Watermark
from penstock.protocol.channel.flow_control import Fill, Owed, ReceiveChannel, SendChannel

CHANNEL = ChannelId(0, TaskId(StageIndex(0), Ordinal(0), 0), TaskId(StageIndex(1), Ordinal(1), 0))
HIGH, LOW, BUFFER = 8_000, 3_000, 4_000
SIZE_MAX = 3 * HIGH

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["offer", "pass"]), st.integers(0, SIZE_MAX)),
        st.tuples(st.sampled_from(["mark", "send", "take", "tell", "lose", "tick"]), st.just(0)),
    ),
    max_size=120,
)


class Pair:
    """A channel, the credits on their way back, and what the task has seen."""

    def __init__(self) -> None:
        self.sender = SendChannel[int](BUFFER, 1.0, Version(1))
        self.receiver = ReceiveChannel(CHANNEL, HIGH, LOW, Version(1))
        self.queue: deque[tuple[int, list[int]]] = deque()
        self.seen: list[int] = []
        self.offered: list[int] = []
        self.taken = 0  # rows
        self.known_taken = 0  # to the sender
        self.now = 0.0
        self.sender.accept()
        self.sender.on_credit(self.receiver.credit())

    def offer(self, size: int) -> None:
        data = Data(len(self.offered), 1, size + ELEMENT_FIXED_CHARGE_BYTES)
        if self.sender.offer(data, self.now):
            self.offered.append(data.payload)

    def pass_on(self, size: int) -> None:
        data = Data(len(self.offered), 1, size + ELEMENT_FIXED_CHARGE_BYTES)
        waited = not self.sender.drained
        sequence = self.sender.passes(data)
        if sequence is not None:
            assert not waited, "it overtook what waited"
            self.offered.append(data.payload)
            self.arrive(sequence, data.charge, [data.payload])

    def send(self) -> None:
        outgoing = self.sender.take(self.now)
        if outgoing is None:
            return
        element = outgoing.element
        charge = element.charge if isinstance(element, Fill) else 0
        names = [p.payload for p in element.parts] if isinstance(element, Fill) else []
        self.arrive(outgoing.sequence, charge, names)

    def arrive(self, sequence: int, charge: int, names: list[int]) -> None:
        self.receiver.on_element(sequence, charge)
        self.queue.append((charge, names))
        assert self.receiver.queued_bytes <= max(HIGH, SIZE_MAX + ELEMENT_FIXED_CHARGE_BYTES)

    def take(self) -> None:
        if self.queue:
            charge, names = self.queue.popleft()
            self.receiver.on_take(charge)
            self.seen += names
            self.taken += len(names)

    def step(self, what: str, size: int) -> None:
        match what:
            case "offer":
                self.offer(size)
            case "pass":
                self.pass_on(size)
            case "mark":
                self.sender.put(Watermark(len(self.offered)))
            case "send":
                self.send()
            case "take":
                self.take()
            case "tell":
                self.sender.on_credit(self.receiver.credit())
                self.known_taken = self.taken
            case "lose":
                self.receiver.credit()
            case "tick":
                self.now += 0.5


@given(steps)
def test_everything_offered_arrives_once_in_order_whatever_the_interleaving(
    script: list[tuple[str, int]],
) -> None:
    pair = Pair()
    for what, size in script:
        pair.step(what, size)
        assert pair.sender.outstanding_rows == len(pair.offered) - pair.known_taken
    pair.sender.flush()
    for _ in range(2 * len(script) + 2):  # faults are over: now it must drain
        pair.send()
        pair.take()
        if pair.receiver.owed() is not Owed.NOTHING:
            pair.step("tell", 0)
    pair.step("tell", 0)
    while pair.queue or not pair.sender.drained:
        before = (len(pair.queue), pair.sender.sent)
        pair.step("send", 0)
        pair.step("take", 0)
        pair.step("tell", 0)
        assert before != (len(pair.queue), pair.sender.sent), "the channel is stuck"
    assert pair.seen == pair.offered
    pair.step("tell", 0)
    assert pair.sender.outstanding_rows == 0
