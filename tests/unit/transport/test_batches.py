"""Sizes, joining and cutting of batches."""

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.base.limits import ELEMENT_BYTES_MAX, ELEMENT_FIXED_CHARGE_BYTES
from penstock.model.elements import Data
from penstock.transport import batches

SCHEMA = pa.schema([("word", pa.string()), ("n", pa.int64())])


def batch(rows: int, size: int = 32) -> pa.RecordBatch:
    return pa.record_batch([["x" * size] * rows, list(range(rows))], schema=SCHEMA)


def data(rows: int, ts: tuple[int, int] | None = None) -> Data[pa.RecordBatch]:
    rows_batch = batch(rows)
    return Data(rows_batch, rows, batches.measure(rows_batch), *(ts or (None, None)))


def test_a_charge_counts_the_body_and_a_fixed_cost() -> None:
    assert batches.measure(batch(10)) == ELEMENT_FIXED_CHARGE_BYTES + 11 * 4 + 320 + 80
    whole = batch(10_000)
    assert batches.measure(whole) == ELEMENT_FIXED_CHARGE_BYTES + whole.nbytes
    piece = whole.slice(5000, 100)
    assert batches.measure(piece) == ELEMENT_FIXED_CHARGE_BYTES + 100 * 4 + 3200 + 800


def test_only_a_slice_that_pins_more_than_twice_its_size_is_copied() -> None:
    whole = batch(10_000)
    for rows, copied in ((10_000, False), (6_000, False), (1_000, True)):
        piece = whole.slice(100, rows) if rows < 10_000 else whole
        before = Data(piece, rows, batches.measure(piece), 1, 2)
        after = batches.compact(before)
        assert (after is not before) is copied
        assert after.payload.equals(piece)
        assert (after.charge, after.min_ts, after.max_ts) == (before.charge, 1, 2)


def test_parts_are_joined_in_order_and_their_bounds_too() -> None:
    parts = [data(2, (5, 9)), data(3, (1, 6))]
    assert batches.join(parts).equals(pa.concat_batches([p.payload for p in parts]))
    assert batches.join(parts[:1]) is parts[0].payload
    assert batches.bounds(parts) == (1, 9)
    assert batches.bounds([*parts, data(1)]) == (None, None)
    assert batches.bounds(parts[:1]) == (5, 9)


def test_rows_take_the_schema_of_their_stream_without_a_copy() -> None:
    strict = pa.schema([SCHEMA.field("word").with_nullable(False), SCHEMA.field("n")])
    rows = pa.RecordBatch.from_arrays(batch(3).columns, schema=strict)
    same = batches.conform(rows, SCHEMA)
    assert same.schema.equals(SCHEMA)
    assert same.column(0).buffers()[2].address == rows.column(0).buffers()[2].address
    assert batches.conform(same, SCHEMA) is same
    message = r"rows of \[word: string\] on an edge with rows of \[word: string"
    with pytest.raises(ConfigError, match=message):
        batches.conform(rows.select(["word"]), SCHEMA)


def shared_columns() -> dict[str, pa.RecordBatch]:
    column = pa.array(["x" * 20] * 100)
    nested = pa.StructArray.from_arrays([column] * 4, names=list("abcd"))
    return {
        "two": pa.record_batch([column] * 2, names=list("ab")),
        "four": pa.record_batch([column] * 4, names=list("abcd")),
        "nested": pa.record_batch([nested], names=["a"]),
    }


@pytest.mark.parametrize("kind", shared_columns())
def test_columns_that_share_their_memory_are_charged_as_they_will_be_decoded(kind: str) -> None:
    shared = shared_columns()[kind]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, shared.schema) as writer:
        writer.write_batch(shared)
    decoded = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    assert decoded.get_total_buffer_size() <= 2 * batches.measure(shared)


def test_a_batch_that_fits_is_not_cut() -> None:
    whole = data(100)
    assert list(batches.pieces(whole, whole.charge)) == [whole]


def test_a_batch_is_cut_in_pieces_of_at_most_so_much_or_one_row_and_none_is_copied() -> None:
    whole = data(100)
    for most in (whole.charge - 1, whole.charge // 3, ELEMENT_FIXED_CHARGE_BYTES, 1):
        parts = list(batches.pieces(whole, most))
        assert all(part.charge <= most or part.rows == 1 for part in parts)
        assert sum(part.rows for part in parts) == 100
        together = batches.whole([part.payload for part in parts])
        assert together is not None, "they are slices of one batch"
        assert together.equals(whole.payload)


@pytest.mark.parametrize("columns", [1, 20, 60, 200])
@pytest.mark.parametrize("kind", [pa.string(), pa.int8(), pa.list_(pa.string())])
@pytest.mark.parametrize("codec", [None, "lz4"])
def test_a_piece_arrives_as_no_more_than_a_receiver_allows(columns: int, kind: pa.DataType, codec: str | None) -> None:
    """Arrow writes up to 64 bytes behind the end of a slice, for each buffer."""
    value = {pa.string(): "v12", pa.int8(): 7}.get(kind, ["a", None])
    rows = pa.array([value if row % 9 else None for row in range(200)], kind)
    wide = pa.record_batch([rows] * columns, names=[f"c{number}" for number in range(columns)])
    whole = Data(wide, 200, batches.measure(wide))
    written = pa.ipc.IpcWriteOptions(compression=codec)
    for most in (whole.charge // 3, 2000, 1):
        for piece in batches.pieces(whole, most):
            sent = pa.ipc.read_record_batch(_body(piece.payload, written), wide.schema)
            assert sent.equals(piece.payload)
            assert sent.get_total_buffer_size() <= batches.CHARGES_MAX * piece.charge


def _body(rows: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> pa.Message:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [*messages][1]


def test_a_row_is_charged_the_same_however_small_the_piece_is() -> None:
    """Rows of a small batch, too, which pin the whole of it: windows follow the size of rows."""
    whole = data(20)
    assert whole.payload.get_total_buffer_size() < 4096
    held = whole.charge - ELEMENT_FIXED_CHARGE_BYTES
    for most in (whole.charge - 1, 1):
        parts = list(batches.pieces(whole, most))
        rows = sum(part.charge - ELEMENT_FIXED_CHARGE_BYTES for part in parts)
        assert rows <= held + 8 * len(parts) * whole.payload.num_columns, "an offset more each"


def test_a_row_larger_than_an_element_is_an_error_of_the_job() -> None:
    huge = Data(batch(1), 1, ELEMENT_BYTES_MAX + ELEMENT_FIXED_CHARGE_BYTES + 1)
    said = r"a row of \d+ bytes is larger than an element.* column '\w+', which has \d+ of them"
    with pytest.raises(ConfigError, match=said) as raised:
        list(batches.pieces(huge, ELEMENT_BYTES_MAX))
    assert "\nrecord: {" in str(raised.value)


def test_the_fingerprint_depends_on_types_and_not_on_metadata() -> None:
    noted = SCHEMA.with_metadata({"note": "x"})
    assert batches.fingerprint(noted) == batches.fingerprint(SCHEMA)
    assert batches.fingerprint(SCHEMA) != batches.fingerprint(pa.schema([("word", pa.string())]))
    assert len(batches.fingerprint(SCHEMA)) == 32


def test_slices_that_follow_each_other_are_one_slice_without_a_copy() -> None:
    block = pa.record_batch([["a", None, "ccc", "dd", "e"], [1, None, 3, 4, 5]], schema=SCHEMA)
    joined = batches.whole([block.slice(1, 2), block.slice(3, 1), block.slice(4)])
    assert joined is not None
    assert joined.equals(block.slice(1))
    mine, theirs = joined.column(0).buffers(), block.column(0).buffers()
    assert [b.address for b in mine if b] == [b.address for b in theirs if b]


def test_batches_of_different_buffers_are_not_joined_without_a_copy() -> None:
    block, other = batch(5), batch(5)
    assert batches.whole([block.slice(0, 2), block.slice(3)]) is None  # a row is missing
    assert batches.whole([block.slice(2, 2), block.slice(0, 2)]) is None  # the other way round
    assert batches.whole([block.slice(0, 2), other.slice(2)]) is None
    nested = pa.record_batch({"list": [[1], [2, 3], []]})
    assert batches.whole([nested.slice(0, 1), nested.slice(1)]) is None


def test_rows_of_another_type_are_the_fault_of_the_job() -> None:
    numbers = pa.record_batch({"word": [1]})
    with pytest.raises(ConfigError, match="on an edge with rows of"):
        batches.conform(numbers, pa.schema([("word", pa.string())]))


def test_a_small_slice_does_not_keep_its_batch_in_memory() -> None:
    small = batch(1000).slice(0, 10)
    made = batches.compact(Data(small, 10, small.nbytes, None, None)).payload
    assert made.get_total_buffer_size() < batch(1000).get_total_buffer_size() / 10
    assert made.equals(small)


def test_a_dictionary_that_is_larger_than_a_piece_does_not_cut_the_rows_one_by_one() -> None:
    """Each piece has the whole dictionary: no cut makes it smaller."""
    words = pa.array([f"word {n:06}" * 5 for n in range(2_000)])
    column = pa.DictionaryArray.from_arrays(pa.array([n % 2_000 for n in range(4_000)], pa.int32()), words)
    batch = pa.record_batch({"word": column, "n": pa.array(range(4_000))})
    whole = Data(batch, batch.num_rows, batches.measure(batch), 1, 2)
    most = 16 * 1024
    assert words.nbytes > 4 * most
    parts = list(batches.pieces(whole, most))
    assert 3 <= len(parts) <= 8
    assert pa.Table.from_batches([part.payload for part in parts]).to_pydict() == batch.to_pydict()
    assert max(part.charge for part in parts) <= most + words.nbytes
