"""What every adapter of a port must do, as checks that need nothing but the adapter.

Each function takes a factory of fresh adapters (or the two halves of one) and raises
AssertionError where a promise of :mod:`penstock.ports` is broken. The fakes and the real
adapters run the same functions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.base.errors import StateError, StorageError
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.manifest import BlobRef
from penstock.ports import (
    BlobStore,
    Clock,
    Ids,
    LeaseStore,
    MetaStore,
    SinkPublisher,
    SinkWriter,
    Source,
    SwapConflict,
)

if TYPE_CHECKING:
    import pyarrow as pa


def _raises(kind: type[Exception], action: Callable[[], object]) -> None:
    try:
        action()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was due")


def check_clock(clock: Clock) -> None:
    """Monotonic time never goes back; wall time is in microseconds."""
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)
    assert isinstance(clock.wall_us(), int)


def check_ids(ids: Ids) -> None:
    """A text is never returned twice."""
    drawn = [ids.fresh() for _ in range(1000)]
    assert len(set(drawn)) == len(drawn)
    assert all(drawn)


def check_meta_store(make: Callable[[], MetaStore]) -> None:
    """Create once, swap exactly the version named, read what was written last."""
    store = make()
    assert store.get("a") is None
    first = store.create("a", b"1")
    assert store.get("a") == first
    _raises(SwapConflict, lambda: store.create("a", b"x"))
    second = store.swap("a", b"2", first.version)
    assert second.version != first.version
    _raises(SwapConflict, lambda: store.swap("a", b"x", first.version))
    _raises(SwapConflict, lambda: store.swap("never", b"x", first.version))
    assert store.get("a") == second
    again = store.swap("a", b"2", second.version)
    assert again.version != second.version, "equal content is a write too"
    assert store.get("b") is None


def check_lease_store(make: Callable[[], LeaseStore]) -> None:
    """One writer wins each version; a renewal is visible to every reader."""
    store = make()
    free = store.read()
    assert free.holder is None
    held = store.write("one", free.version)
    assert held.holder == "one"
    _raises(SwapConflict, lambda: store.write("two", free.version))
    assert store.read() == held
    renewed = store.write("one", held.version)
    assert renewed.renewed != held.renewed, "expiry is judged by a change of `renewed`"
    assert store.write(None, renewed.version).holder is None


def check_blob_store(make: Callable[[], BlobStore]) -> None:
    """Exclusive creation, checked reads, deletion that forgives."""
    store = make()
    name = BlobName("state/1-1-x-1.state")
    ref = store.put(name, b"content")
    assert (ref.name, ref.size) == (name, 7)
    assert store.get(ref) == b"content"
    store.check(ref)
    _raises(StorageError, lambda: store.put(name, b"content"))
    assert store.get(ref) == b"content"
    _raises(StateError, lambda: store.get(BlobRef(name, ref.sha256, 6)))
    _raises(StateError, lambda: store.get(BlobRef(name, "0" * 64, 7)))
    _raises(StateError, lambda: store.check(BlobRef(name, "0" * 64, 7)))
    _raises(StateError, lambda: store.get(BlobRef(BlobName("state/none"), ref.sha256, 7)))
    empty = store.put(BlobName("state/1-1-x-2.state"), b"")
    assert store.get(empty) == b""
    assert sorted(store.list_for_collection()) == [name, BlobName("state/1-1-x-2.state")]
    store.delete(name)
    store.delete(name)
    _raises(StateError, lambda: store.get(ref))
    assert list(store.list_for_collection()) == [BlobName("state/1-1-x-2.state")]


def check_source(source: Source) -> None:
    """A split read twice, in other pieces and from the middle, gives the same rows."""
    states = source.splits()
    assert states
    assert states == source.splits(), "the order of splits is deterministic"
    for state in states:
        assert state.offset == 0
        whole = _rows(source, state.split, 0, 1000)
        assert _rows(source, state.split, 0, 1) == whole
        middle = len(whole) // 2
        assert _rows(source, state.split, middle, 2) == whole[middle:]


def _rows(source: Source, split: str, offset: int, step: int) -> list[object]:
    state = next(s for s in source.splits() if s.split == split)
    reader = source.open(type(state)(state.split, state.spec, offset))
    rows: list[object] = []
    while True:
        read = reader.read(step)
        if read is None:
            break
        assert read.offset == offset + len(rows), "batch[i] has the offset `offset + i`"
        assert 1 <= read.batch.num_rows <= step
        rows += read.batch.to_pylist()
        assert reader.state().offset == offset + len(rows)
    if source.bounded:
        assert reader.state().finished
    reader.close()
    reader.close()
    return rows


def check_sink(
    make: Callable[[], tuple[SinkWriter, SinkPublisher]],
    rows: "pa.RecordBatch",
    visible: Callable[[], list[object]],
) -> None:
    """Nothing is seen before publication; doing it again, before and after a forget, adds nothing.

    ``visible`` returns the rows that a reader of the output sees now, in order.
    """
    writer, publisher = make()
    assert writer.seal(Epoch(1), "1-1-x-0").finish() is None, "no rows, no handle"
    writer.write(rows)
    writer.write(rows)
    first = writer.seal(Epoch(2), "1-2-x-1").finish()
    assert first is not None
    assert (first.rows, first.epoch) == (2 * rows.num_rows, 2)
    writer.write(rows)
    second = writer.seal(Epoch(3), "1-3-x-2").finish()
    assert second is not None
    assert visible() == []
    expected = rows.to_pylist()
    publisher.publish(first, Epoch(2))
    publisher.publish(first, Epoch(2))
    assert visible() == expected * 2
    publisher.discard(second)
    publisher.discard(second)
    publisher.forget(first)
    publisher.forget(first)
    publisher.publish(first, Epoch(2))
    assert visible() == expected * 2
    writer.write(rows)
    writer.close()
    writer.close()
    assert visible() == expected * 2, "rows of an open writer are nobody's"


def check_staging(make: Callable[[], tuple[SinkWriter, SinkPublisher]], rows: "pa.RecordBatch") -> None:
    """A discard leaves nothing: what was discarded cannot be published, and says so.

    For sinks whose handles name staged output; others carry it in the handle.
    """
    writer, publisher = make()
    writer.write(rows)
    handle = writer.seal(Epoch(1), "1-1-x-0").finish()
    assert handle is not None
    publisher.discard(handle)
    _raises(StateError, lambda: publisher.publish(handle, Epoch(1)))
    writer.close()
