import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError, StateError
from penstock.base.limits import SOURCE_SPLITS_READ_MAX
from penstock.base.values import replace
from penstock.connectors import parquet_source
from penstock.connectors.parquet_source import (
    PIECE_BYTES,
    RELEASE_AFTER_BYTES,
    ParquetReader,
    ParquetSource,
    UnpacedReader,
    fits,
    piece_bytes,
    piece_rows,
    read_identity,
)
from penstock.contract.columns import Column
from penstock.contract.event_time import EventTime, TimeUnit
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState
from penstock.engine.source_reader import ReadBatcher, SourceReader
from penstock.ports import ReleasingReader
from penstock.protocol.task.task_messages import RowsRead, SplitEnded
from penstock.steps.base import BOUND_COLUMN, NO_BOUND

LINE = (Column("line", "string"),)


def write(folder: Path, name: str, lines: list[str | None], rows_of_group: int = 3) -> Path:
    file = folder / name
    table = pa.table({"line": pa.array(lines, pa.string()), "n": range(len(lines))})
    pq.write_table(table, file, row_group_size=rows_of_group)
    return file


def rest(reader: ParquetReader, rows: int) -> list[tuple[int, list[str | None]]]:
    found = []
    while (read := reader.read(rows)) is not None:
        found.append((read.offset, read.batch.column("line").to_pylist()))
    return found


def test_files_are_splits_by_name_and_rows_come_in_order(tmp_path: Path) -> None:
    write(tmp_path, "b.parquet", ["x", None, "", "y", "z"])
    write(tmp_path, "a.parquet", [])
    write(tmp_path, "_hidden.parquet", ["no"])
    source = ParquetSource(str(tmp_path), LINE)
    empty, full = source.splits()
    assert (empty.split, empty.finished) == ("a.parquet", True)
    assert (full.split, full.offset, full.finished) == ("b.parquet", 0, False)
    reader = source.open(full)
    assert rest(reader, 2) == [(0, ["x", None]), (2, [""]), (3, ["y", "z"])]
    assert reader.state().finished
    assert source.schema == pa.schema([("line", pa.string())])


@pytest.mark.parametrize("offset", range(8))
def test_a_reader_goes_on_from_any_offset(tmp_path: Path, offset: int) -> None:
    lines: list[str | None] = list("abcdefg")
    write(tmp_path, "a.parquet", lines)
    source = ParquetSource(str(tmp_path), LINE)
    first = source.splits()[0]
    state = SplitState(first.split, first.spec, offset)
    reader = source.open(state)
    assert [line for _, part in rest(reader, 2) for line in part] == lines[offset:]
    assert reader.state().offset == 7


def test_a_split_goes_on_where_its_state_says(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", list("abcdefg"))
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    reader.read(4)
    reader.read(4)
    again = source.open(reader.state())
    reader.close()
    assert rest(again, 100) == rest(source.open(reader.state()), 100)
    assert again.state().finished


def test_one_file_is_an_input_too(tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", ["x"])
    source = ParquetSource(str(file), LINE)
    assert rest(source.open(source.splits()[0]), 10) == [(0, ["x"])]


def test_undeclared_columns_are_those_of_the_first_file(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", ["x"])
    assert ParquetSource(str(tmp_path), ()).schema.names == ["line", "n"]


@pytest.mark.parametrize(
    "later", [{"line": ["x"]}, {"line": ["x"], "n": ["one"]}, {"line": ["x"], "n": [1], "more": [2]}]
)
def test_a_file_that_came_later_does_not_say_the_columns(tmp_path: Path, later: dict[str, list[object]]) -> None:
    """It is not read itself. Columns would be left out, or become texts, or the job would end with a KeyError."""
    write(tmp_path, "b.parquet", ["x", "y"])
    (state,) = ParquetSource(str(tmp_path), ()).splits()
    write(tmp_path, "a.parquet", ["z"])
    assert rest(ParquetSource(str(tmp_path), ()).open(state), 9) == [(0, ["x", "y"])]
    pq.write_table(pa.table(later), tmp_path / "a.parquet")
    with pytest.raises(StateError, match=r"its first file, a.parquet, has other columns .*: move files out that came"):
        ParquetSource(str(tmp_path), ()).open(state)
    declared = (Column("line", "string"), Column("n", "int64"))
    if later.keys() >= {"line", "n"} and later["n"] == [1]:
        assert rest(ParquetSource(str(tmp_path), declared).open(state), 9) == [(0, ["x", "y"])]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_other_kinds_of_text_become_strings(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"line": pa.array(["x", "y"]).cast(kind)}), tmp_path / "a.parquet")
    source = ParquetSource(str(tmp_path), LINE)
    read = source.open(source.splits()[0]).read(10)
    assert read is not None
    assert read.batch.schema == source.schema


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view()])
def test_other_kinds_of_bytes_are_read_as_the_declared_one(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"line": pa.array([b"x", None, b"y" * 30], kind)}), tmp_path / "a.parquet")
    source = ParquetSource(str(tmp_path), (Column("line", "binary"),))
    read = source.open(source.splits()[0]).read(10)
    assert read is not None
    assert read.batch.column("line").equals(pa.array([b"x", None, b"y" * 30]))


@pytest.mark.parametrize("columns", [(), (Column("at", "timestamp[us]"),)])
def test_times_of_the_old_type_are_read_though_nanoseconds_do_not_hold_them(
    tmp_path: Path, columns: tuple[Column, ...]
) -> None:
    times = pa.array(["9999-12-31", "0001-01-01", "2026-01-01 00:00:00.000001", None]).cast(pa.timestamp("us"))
    rows = pa.table({"at": times})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    source = ParquetSource(str(tmp_path), columns)
    assert source.schema == rows.schema
    read = source.open(source.splits()[0]).read(10)
    assert read is not None
    assert read.batch.column("at").equals(times)


def test_a_missing_input_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file or folder"):
        ParquetSource(str(tmp_path / "no"), LINE)
    with pytest.raises(ConfigError, match=r"has no \*\.parquet file: it is empty"):
        ParquetSource(str(tmp_path), LINE)


def test_a_missing_column_names_file_and_columns(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", ["x"])
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(ConfigError, match=r"b\.parquet has no column 'line': it has text"):
        ParquetSource(str(tmp_path), LINE).splits()


def test_a_changed_type_names_both_files(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", ["x"])
    pq.write_table(pa.table({"line": [1], "n": [1]}), tmp_path / "b.parquet")
    pattern = r"schema changes between files: in .*b\.parquet column 'line' is int64, .*string"
    with pytest.raises(ConfigError, match=pattern):
        ParquetSource(str(tmp_path), ()).splits()


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_a_truncated_file_is_named(tmp_path: Path, kept: int) -> None:
    write(tmp_path, "a.parquet", ["x"])
    file = write(tmp_path, "b.parquet", ["x"] * 100)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"b\.parquet \(\d+ bytes\) is truncated or is not Parq"):
        ParquetSource(str(tmp_path), LINE).splits()


def test_a_file_that_changed_since_cannot_be_replayed(tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", list("abc"))
    source = ParquetSource(str(tmp_path), LINE)
    state = source.splits()[0]
    whole = file.read_bytes()

    file.write_bytes(whole[:-1])
    with pytest.raises(StateError, match=r"a\.parquet shrank from"):
        source.open(state)
    file.write_bytes(whole + b"x")
    with pytest.raises(StateError, match=r"a\.parquet grew from .* put new rows into new files"):
        source.open(state)
    file.write_bytes(whole[:-20] + b"?" + whole[-19:])
    with pytest.raises(StateError, match=r"a\.parquet"):
        source.open(state)
    file.unlink()
    with pytest.raises(StateError, match=r"a\.parquet is gone: put it back"):
        source.open(state)


def test_damaged_data_names_file_and_row(tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", [f"{i}" * 50 for i in range(400)], rows_of_group=100)
    source = ParquetSource(str(tmp_path), LINE)
    state = source.splits()[0]
    meta = pq.read_metadata(file).row_group(2).column(0)
    data = bytearray(file.read_bytes())
    start = meta.dictionary_page_offset or meta.data_page_offset
    data[start : start + 40] = bytes(40)
    file.write_bytes(data)
    reader = source.open(state)
    with pytest.raises(StateError, match=r"a\.parquet cannot be read at row 200"):
        rest(reader, 1000)


def test_rows_are_stamped_by_what_came_before_in_their_split(tmp_path: Path) -> None:
    times = pa.array([50, 40, None, 70, 60], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "a.parquet")
    columns = (Column("ts", "timestamp[us]"),)
    source = ParquetSource(str(tmp_path), columns, EventTime("ts", out_of_orderness_us=5))
    expected = [NO_BOUND, 45, 45, 45, 65]
    assert source.schema.names == ["ts", BOUND_COLUMN]
    for cut in range(1, 5):
        reader = source.open(source.splits()[0])
        first = reader.read(cut)
        again = source.open(reader.state()).read(10)
        assert first is not None
        assert again is not None
        stamps = [*first.batch.column(BOUND_COLUMN).to_pylist(), *again.batch.column(BOUND_COLUMN).to_pylist()]
        assert stamps == expected


@pytest.mark.parametrize(("unit", "factor"), [("s", 1_000_000), ("ms", 1000), ("us", 1)])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_whole_numbers_of_a_unit_become_times(tmp_path: Path, kind: pa.DataType, unit: str, factor: int) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3], "at": pa.array([50, None, 40], kind)}), tmp_path / "a.parquet")
    columns = Column("n", "int64"), Column("at", str(kind))
    source = ParquetSource(str(tmp_path), columns, EventTime("at", 5, unit=TimeUnit(unit)))
    read = source.open(source.splits()[0]).read(10)
    assert read is not None
    assert read.batch.schema.equals(source.schema)
    assert source.schema.field("at").type == pa.timestamp("us")
    assert read.batch.column("at").cast(pa.int64()).to_pylist() == [50 * factor, None, 40 * factor]
    assert read.batch.column(BOUND_COLUMN).to_pylist() == [NO_BOUND, 50 * factor - 5, 50 * factor - 5]


def test_a_number_that_is_no_time_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1 << 62]}), tmp_path / "a.parquet")
    source = ParquetSource(str(tmp_path), (Column("at", "int64"),), EventTime("at", unit=TimeUnit.SECONDS))
    with pytest.raises(ConfigError, match=r"event time: .*4611686018427387904"):
        source.open(source.splits()[0]).read(1)
    (tmp_path / "texts").mkdir()
    write(tmp_path / "texts", "a.parquet", ["x"])
    with pytest.raises(ConfigError, match="'line' is string, not a whole number of a time unit"):
        ParquetSource(str(tmp_path / "texts"), LINE, EventTime("line", unit=TimeUnit.SECONDS))


def test_event_time_needs_a_timestamp(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", ["x"])
    with pytest.raises(ConfigError, match="column 'line' is string, not a timestamp"):
        ParquetSource(str(tmp_path), LINE, EventTime("line"))
    with pytest.raises(ConfigError, match="there is no column 'ts', only line"):
        ParquetSource(str(tmp_path), LINE, EventTime("ts"))


def test_pieces_are_bounded_in_bytes() -> None:
    assert piece_rows(100, 100, PIECE_BYTES) == 131_072
    assert piece_rows(1_000_000_000, 100, PIECE_BYTES) == 64
    assert 1000 < piece_rows(100_000_000, 100_000, PIECE_BYTES) < 4194


def test_pieces_of_many_files_with_a_rate_are_smaller_because_all_files_are_open() -> None:
    assert piece_bytes(1) == piece_bytes(64) == PIECE_BYTES
    assert piece_bytes(512) == PIECE_BYTES // 8
    assert piece_bytes(100_000) == PIECE_BYTES // 16


@pytest.mark.parametrize(("rate", "bytes_max"), [(10_000_000, 1024 * 1024), (None, PIECE_BYTES)])
def test_many_files_with_a_rate_are_read_by_smaller_pieces(tmp_path: Path, rate: int | None, bytes_max: int) -> None:
    draw = Random(3)
    lines: list[str | None] = [draw.randbytes(500).hex() for _ in range(3000)]
    first = write(tmp_path, "0.parquet", lines, 3000)
    for number in range(1, 300):
        os.link(first, tmp_path / f"{number}.parquet")
    source = ParquetSource(str(tmp_path), LINE, rate=rate)
    reader = source.open(source.splits()[0])
    while (read := reader.read(3000)) is None:
        assert not reader.state().finished
    assert read.batch.nbytes < bytes_max
    assert rate or read.batch.num_rows > 1000  # of some that were due, or of a piece


def held_files(folder: Path) -> int:
    """Return how many files of a folder this process holds open."""
    held = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # another thread has closed it meanwhile
            held += os.readlink(f"/proc/self/fd/{number}").startswith(f"{folder}/")
    return held


def test_a_file_is_closed_between_its_row_groups_when_that_is_asked(tmp_path: Path) -> None:
    lines: list[str | None] = [letter * (RELEASE_AFTER_BYTES // 2) for letter in "abcdefgh"]
    write(tmp_path, "a.parquet", lines, rows_of_group=3)
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    assert isinstance(reader, ReleasingReader)
    seen, released = [], []
    while (read := reader.read(1)) is not None:
        seen += read.batch.column("line").to_pylist()
        assert held_files(tmp_path) == 1
        released.append(reader.release())
        assert held_files(tmp_path) == (0 if released[-1] else 1)
    assert seen == lines
    assert released == [False, False, True, False, False, True, False, True]


def test_a_file_stays_open_when_little_was_read_of_it(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", list("abcdef"), rows_of_group=3)
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    assert isinstance(reader, ReleasingReader)
    reader.read(3)
    assert not reader.release()
    reader.read(3)
    assert reader.release()
    assert held_files(tmp_path) == 0


def test_one_row_group_takes_a_part_of_its_bytes(tmp_path: Path) -> None:
    draw = Random(5)
    lines: list[str | None] = [draw.randbytes(500).hex() for _ in range(60_000)]
    file = write(tmp_path, "a.parquet", lines, rows_of_group=60_000)
    del lines
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    before = pa.total_allocated_bytes()
    assert reader.read(100) is not None
    assert 4 * (pa.total_allocated_bytes() - before) < file.stat().st_size


def test_a_file_that_changed_while_it_was_closed_is_not_read_on(tmp_path: Path) -> None:
    row = "a" * RELEASE_AFTER_BYTES
    file = write(tmp_path, "a.parquet", [row, "b"], rows_of_group=1)
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    assert isinstance(reader, ReleasingReader)
    reader.read(1)
    assert reader.release()
    write(tmp_path, "a.parquet", [row, "c"], rows_of_group=1)
    with pytest.raises(StateError, match=r"a\.parquet was rewritten since the job began"):
        reader.read(1)
    file.unlink()
    with pytest.raises(StateError, match=r"a\.parquet is gone: put it back"):
        reader.read(1)


def test_a_file_that_ends_early_is_not_waited_for(tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", list("abc"))
    reader = ParquetSource(str(tmp_path), LINE).open(
        SplitState(SplitId("a.parquet"), replace(read_identity(file), rows=5).as_json(), 0)
    )
    assert reader.read(9) is not None
    with pytest.raises(StateError, match=r"a\.parquet ends at row 3 of 5: it was rewritten"):
        reader.read(9)


def test_a_file_with_a_rate_stays_open(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", list("abc"))
    source = ParquetSource(str(tmp_path), LINE, rate=5)
    assert not isinstance(source.open(source.splits()[0]), ReleasingReader)


def test_of_many_files_few_are_open_and_all_are_read(tmp_path: Path) -> None:
    names = [f"{number:03}" for number in range(5 * SOURCE_SPLITS_READ_MAX // 2)]
    for name in names:
        write(tmp_path, f"{name}.parquet", [f"{name}-{row}" for row in range(7)], rows_of_group=3)
    source = ParquetSource(str(tmp_path), LINE)
    task = SourceReader("in", source, ReadBatcher(2))
    splits = source.splits()
    task.open(splits)
    assert held_files(tmp_path) == 0
    seen: dict[str, list[str]] = {name: [] for name in names}
    ended: set[SplitId] = set()
    while (event := task.next(lambda split: split not in ended)) is not None:
        assert held_files(tmp_path) <= SOURCE_SPLITS_READ_MAX
        if isinstance(event, SplitEnded):
            ended.add(event.split)
        elif isinstance(event, RowsRead):
            seen[event.split[:3]] += event.data.payload.column("line").to_pylist()
    assert seen == {name: [f"{name}-{row}" for row in range(7)] for name in names}
    assert held_files(tmp_path) == 0


def test_a_file_is_read_when_its_last_row_is(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", ["x", "y", "z"])
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    ends = []
    while reader.read(1) is not None:
        ends.append(reader.state().finished)
    assert ends == [False, False, True]


def test_a_file_is_not_closed_in_the_middle_of_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_source, "RELEASE_AFTER_BYTES", 0)
    monkeypatch.setattr(parquet_source, "PIECE_ROWS_MAX", 64)
    write(tmp_path, "a.parquet", [f"line {n}" for n in range(256)], rows_of_group=128)
    source = ParquetSource(str(tmp_path), LINE)
    reader = source.open(source.splits()[0])
    assert isinstance(reader, UnpacedReader)
    released = []
    for _ in range(4):
        assert reader.read(64) is not None
        released.append(reader.release())
    assert released == [False, True, False, True], "its rows would be decoded twice"


@pytest.mark.parametrize(
    ("found", "declared", "fit"),
    [("UTC", None, True), ("Europe/Berlin", None, False), (None, "UTC", False), ("Europe/Berlin", "UTC", True)],
)
def test_a_time_zone_is_neither_dropped_nor_guessed(found: str | None, declared: str | None, fit: bool) -> None:
    assert fits(pa.timestamp("us", found), pa.timestamp("us", declared)) is fit
