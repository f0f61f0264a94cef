"""Elements between two workers over real sockets: order, credit, buffers, versions, rescale."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.limits import (
    CREDIT_FIRST_BYTES,
    CREDIT_FIRST_CHANNEL_BYTES_MIN,
    ELEMENT_FIXED_CHARGE_BYTES,
)
from penstock.contract.ids import ChannelId, Epoch, Ordinal, StageIndex, TaskId, Term, Version
from penstock.contract.settings import CompressionMode, CompressionSettings
from penstock.model.elements import (
    Active,
    Barrier,
    BarrierKind,
    Data,
    EndOfStream,
    Idle,
    LatencyMarker,
    Watermark,
)
from penstock.transport.batches import Packing, measure

Make = Callable[..., Any]
SCHEMA = pa.schema([("word", pa.string())])
BARRIER = Barrier(Term(1), Epoch(7), Version(1), BarrierKind.CHECKPOINT, Epoch(6), 99)


def task(stage: int, worker: int) -> TaskId:
    return TaskId(StageIndex(stage), Ordinal(worker), 0)


def channel(start: int, end: int) -> ChannelId:
    return ChannelId(0, task(0, start), task(1, end))


def words(*values: str, ts: tuple[int, int] | None = None) -> Data[pa.RecordBatch]:
    batch = pa.record_batch([list(values)], schema=SCHEMA)
    return Data(batch, len(values), measure(batch), *(ts or (None, None)))


def pair(make_worker: Make, start: int = 0, end: int = 1, **settings: Any) -> tuple[Any, Any]:
    """Two workers with one channel from the first to the second; one worker twice if local."""
    workers = {n: make_worker(n, **settings) for n in sorted({start, end})}
    members = {n: worker.peer() for n, worker in workers.items()}
    for worker in workers.values():
        worker.open(1, members, channel(start, end))
    output, pause = workers[start].exchange.output(channel(start, end)), Event()
    while output.window == CREDIT_FIRST_CHANNEL_BYTES_MIN:  # the first credit says more, or less
        pause.wait(0.002)
    return workers[start], workers[end]


@pytest.mark.parametrize("end", [0, 1], ids=["local", "remote"])
def test_the_sender_of_a_prompt_channel_learns_of_every_take(make_worker: Make, end: int) -> None:
    a, b = pair(make_worker, 0, end, prompt=frozenset({0}))
    output, pause = a.exchange.output(channel(0, end)), Event()
    a.send(end, words("x", "y"))
    output.put(BARRIER)  # so that the rows behind it are taken apart
    a.send(end, words("z"))
    output.flush()
    assert output.outstanding_rows() == 3
    while sum(stats.rows for stats in b.exchange.stats().inputs) < 3:
        pause.wait(0.002)
    assert rows_of(b.take()[1]) == ["x", "y"]
    while output.outstanding_rows() != 1:  # rows wait, so another channel would say nothing before half a window
        pause.wait(0.002)


def rows_of(element: object) -> list[str]:
    assert isinstance(element, Data)
    values: list[str] = element.payload.column(0).to_pylist()
    return values


@pytest.mark.parametrize("end", [0, 1], ids=["local", "remote"])
def test_every_kind_of_element_arrives_in_order(make_worker: Make, end: int) -> None:
    a, b = pair(make_worker, 0, end)
    marker = LatencyMarker(task(0, 0), 42)
    a.send(end, words("x", "y", ts=(3, 9)))
    output = a.exchange.output(channel(0, end))
    assert output.try_send(marker)
    controls = [Watermark(9), Idle(), BARRIER, Active(), EndOfStream()]
    for control in controls:
        output.put(control)
    got = [b.take() for _ in range(7)]
    assert {name for name, _ in got} == {channel(0, end)}
    first = got[0][1]
    assert rows_of(first) == ["x", "y"]
    assert (first.rows, first.min_ts, first.max_ts) == (2, 3, 9)
    assert first.charge == words("x", "y").charge
    assert [element for _, element in got[1:]] == [marker, *controls]


def test_batches_of_a_buffer_travel_as_one_element(make_worker: Make) -> None:
    a, b = pair(make_worker, flush_interval_s=60.0)
    for n in range(5):
        a.send(1, words(f"{n}", ts=(n, 10 + n)))
    assert b.try_take(0.05) is None
    a.exchange.output(channel(0, 1)).flush()
    _, element = b.take()
    assert rows_of(element) == ["0", "1", "2", "3", "4"]
    assert (element.min_ts, element.max_ts) == (0, 14)


def test_a_buffer_is_sent_at_its_deadline(make_worker: Make) -> None:
    a, b = pair(make_worker, flush_interval_s=0.01)
    a.send(1, words("alone"))
    assert rows_of(b.take()[1]) == ["alone"]


@pytest.mark.parametrize("end", [0, 1], ids=["local", "remote"])
def test_a_stalled_receiver_stops_the_sender_within_bounds_and_loses_nothing(make_worker: Make, end: int) -> None:
    settings = {"buffer_bytes": 20_000, "high_watermark_bytes": 100_000}
    a, b = pair(make_worker, 0, end, low_watermark_bytes=50_000, **settings)
    output = a.exchange.output(channel(0, end))
    sent, element = 0, words(*("w" * 100 for _ in range(50)))
    while True:
        if output.try_send(element):
            sent += 1
        elif not a.send_wakeup.wait(0.3):  # it has stopped for good
            break
    window = CREDIT_FIRST_BYTES  # the cost of a row is not known yet
    bound = window + 20_000 + 2 * element.charge
    assert window - element.charge <= sent * (element.charge - ELEMENT_FIXED_CHARGE_BYTES) <= bound
    assert sum(s.queued_bytes for s in b.exchange.stats().inputs) <= window
    output.put(EndOfStream())
    rows = 0
    while not isinstance(got := b.take()[1], EndOfStream):
        rows += got.rows
    assert rows == 50 * sent


@pytest.mark.parametrize("end", [0, 1], ids=["local", "remote"])
def test_an_element_larger_than_the_window_gets_through(make_worker: Make, end: int) -> None:
    small = {"buffer_bytes": 1000, "high_watermark_bytes": 2000, "low_watermark_bytes": 1000}
    a, b = pair(make_worker, 0, end, **small)
    for name in ("a", "b", "c"):
        a.send(end, words(name * 50_000))
        assert rows_of(b.take()[1]) == [name * 50_000]


def test_a_batch_of_more_than_half_a_window_is_cut_in_pieces(make_worker: Make) -> None:
    a, b = pair(make_worker)
    big = words(*("z" * (1 << 20) for _ in range(100)))  # 100 MiB
    a.send(1, big)
    sizes: list[int] = []
    while sum(sizes) < 100:
        sizes.append(b.take()[1].rows)
    assert sizes == [1] * 100


def test_a_slice_that_pins_its_parent_is_compacted_on_the_local_way(make_worker: Make) -> None:
    a, b = pair(make_worker, 0, 0)
    parent = words(*(f"{i}".zfill(32) for i in range(1000))).payload
    piece = parent.slice(500, 10)
    a.send(0, Data(piece, 10, measure(piece)))
    got = b.take()[1]
    assert rows_of(got) == [f"{i}".zfill(32) for i in range(500, 510)]
    assert got.payload.get_total_buffer_size() < 1000


@pytest.mark.parametrize("mode", list(CompressionMode))
def test_rows_are_the_same_whatever_the_compression(make_worker: Make, mode: CompressionMode) -> None:
    a, b = pair(make_worker, compression=CompressionSettings(mode))
    values = [f"{i % 7}" * 40 for i in range(300)]
    a.send(1, words(*values))
    a.send(1, words("", "last"))
    got: list[str] = []
    while len(got) < 302:
        got += rows_of(b.take()[1])
    assert got == [*values, "", "last"]


def test_rows_travel_packed_and_plain_in_one_stream_in_their_order(
    make_worker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def packs(packing: Packing, batch: pa.RecordBatch, size: int) -> bool:
        asked.append(len(asked) % 3 < 2)  # the first plain one begins Flight's own stream late
        return asked[-1]

    monkeypatch.setattr(Packing, "packs", packs)
    a, b = pair(make_worker, compression=CompressionSettings(CompressionMode.AUTO))
    values = [f"{i}" * 100 for i in range(30)]
    for value in values:
        a.send(1, words(value))
        a.exchange.output(channel(0, 1)).flush()
    got: list[str] = []
    while len(got) < len(values):
        got += rows_of(b.take()[1])
    assert got == values
    assert len(asked) == len(values)


def test_rows_that_packing_makes_larger_travel_plain(make_worker: Make) -> None:
    wide = pa.record_batch({f"column_{n}": ["ab", "cd"] * 5 for n in range(100)})
    lz4 = CompressionSettings(CompressionMode.LZ4)
    a, b = pair(make_worker, compression=lz4, schema=wide.schema)
    a.send(1, Data(wide, wide.num_rows, measure(wide)))
    got = b.take()[1]
    assert got.payload.equals(wide)


@pytest.mark.parametrize("end", [0, 1], ids=["local", "remote"])
def test_a_loaded_version_is_announced_and_wakes_the_sender(make_worker: Make, end: int) -> None:
    a, b = pair(make_worker, 0, end)
    output = a.exchange.output(channel(0, end))
    assert output.receiver_version == 1
    b.exchange.input(task(1, end)).announce(Version(2))
    while output.receiver_version < 2:
        assert a.send_wakeup.wait(60)


def test_a_channel_that_is_not_read_keeps_its_elements_and_lets_others_pass(
    make_worker: Make,
) -> None:
    workers = [make_worker(n) for n in range(5)]
    members = {n: worker.peer() for n, worker in enumerate(workers)}
    for worker in workers:
        worker.open(1, members, channel(0, 2), channel(1, 2))
    workers[0].send(2, words("held"))
    workers[1].send(2, words("free"))
    task_input = workers[2].exchange.input(task(1, 2))
    for expected, blocked in (("free", channel(0, 2)), ("held", None)):
        while (got := task_input.poll(lambda name, no=blocked: name != no, lambda _: False)) is None:
            assert workers[2].take_wakeup.wait(60)
        assert rows_of(got[1]) == [expected]


def test_a_channel_is_added_to_a_link_that_is_up(make_worker: Make) -> None:
    a, b = pair(make_worker)
    added = ChannelId(0, task(1, 0), task(1, 1))
    members = {0: a.peer(), 1: b.peer()}
    for worker in (b, a):
        worker.exchange.extend(worker.wiring(members, added))
    assert a.exchange.output(added).try_send(words("more"))
    name, element = b.take()
    assert name == added
    assert rows_of(element) == ["more"]
    assert a.events == b.events == []


def test_a_rescale_adds_channels_to_an_attempt_and_retires_others(make_worker: Make) -> None:
    a, b, joiner = make_worker(0), make_worker(1), make_worker(2)
    old = {0: a.peer(), 1: b.peer()}
    new = {**old, 2: joiner.peer()}
    a.open(1, old, channel(0, 1))
    b.open(1, old, channel(0, 1))
    joiner.open(1, new, channel(0, 2), channel(2, 1))
    joiner.send(1, words("early"))  # held by b, which does not know the joiner yet
    for worker in (a, b):
        worker.exchange.extend(worker.wiring(new, channel(0, 2), channel(2, 1)))
    a.send(2, words("moved"))
    assert rows_of(b.take()[1]) == ["early"]
    assert rows_of(joiner.take()[1]) == ["moved"]
    for worker in (joiner, b, a):
        worker.exchange.retire([channel(0, 2), channel(2, 1)])
    assert joiner.exchange.close()
    a.send(1, words("stays"))
    assert rows_of(b.take()[1]) == ["stays"]
    reborn = make_worker(2, "life-2b")
    back = {**old, 2: reborn.peer()}
    reborn.open(1, back, channel(0, 2), channel(2, 1))
    reborn.send(1, words("again"))  # held as well: the same ordinal, another life
    for worker in (a, b):
        worker.exchange.extend(worker.wiring(back, channel(0, 2), channel(2, 1)))
    a.send(2, words("back"))
    assert rows_of(b.take()[1]) == ["again"]
    assert rows_of(reborn.take()[1]) == ["back"]
    assert a.events == b.events == joiner.events == reborn.events == []
