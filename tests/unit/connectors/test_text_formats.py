"""What is written as JSON lines and CSV is what a reader gets: every value, by every common reader."""

import csv
import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConfigError
from penstock.connectors.file_output import stage
from penstock.connectors.text_formats import (
    BadLine,
    csv_decoder,
    csv_form,
    decode,
    decode_each,
    json_decoder,
    json_form,
    json_lines,
)
from penstock.connectors.text_source import TextForm, TextSource
from penstock.file_system import OS_FILES

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
texts = st.lists(st.none() | st.text(), min_size=1, max_size=20)


@given(texts, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=20, max_size=20))
def test_json_lines_are_read_back_by_the_standard_library(words: list[str | None], numbers: list[int]) -> None:
    batch = pa.record_batch({'w"ord\n': pa.array(words, pa.string()), "n": numbers[: len(words)]})
    lines = json_lines(batch).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == batch.to_pylist()


@given(texts)
def test_a_source_of_json_lines_reads_what_the_sink_wrote(words: list[str | None]) -> None:
    batch = pa.record_batch({"word": pa.array(words, pa.string())})
    lines = pa.array(json_lines(batch).splitlines(keepends=True), pa.large_binary())
    found = decode(lines, json_decoder(batch.schema))
    assert not isinstance(found, BadLine)
    assert found.equals(batch)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_block_is_halved_down_to_its_bad_lines(good: list[bool]) -> None:
    schema, calls = pa.schema([("n", pa.int64())]), list[int]()
    decoder = json_decoder(schema)

    def counted(lines: pa.Array) -> pa.RecordBatch:
        calls.append(len(lines))
        return decoder(lines)

    lines = pa.array([b'{"n": %d}' % n if fine else b"{" for n, fine in enumerate(good)], pa.large_binary())
    found = decode_each(lines, schema, counted)
    places = [n for n, fine in enumerate(good) if fine]
    assert (found.good, found.rows.column(0).to_pylist()) == (places, places)
    assert sorted(found.bad) == [n for n, fine in enumerate(good) if not fine]
    assert len(calls) < 2 * len(good), "a tree of halves has fewer blocks"
    assert sum(calls) <= len(good) * (1 + len(good).bit_length()), "each line is decoded once on each level"


def test_values_of_every_type() -> None:
    stamp = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
    values = {
        "f": (pa.float64(), 1.5, 1.5),
        "o": (pa.bool_(), True, True),
        "d": (pa.date32(), date(2026, 1, 2), "2026-01-02"),
        "t": (pa.time64("us"), time(3, 4, 5, 6), "03:04:05.000006"),
        "e": (pa.decimal128(9, 2), Decimal("1.20"), "1.20"),
        "z": (pa.timestamp("us", "Europe/Berlin"), stamp, "2026-01-02T03:04:05.000678Z"),
        "s": (pa.timestamp("us"), stamp.replace(tzinfo=None), "2026-01-02T03:04:05.000678"),
    }
    batch = pa.record_batch({name: pa.array([value, None], kind) for name, (kind, value, _) in values.items()})
    first, second = (json.loads(line) for line in json_lines(batch).splitlines())
    assert first == {name: told for name, (_, _, told) in values.items()}
    assert second == dict.fromkeys(values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
        (pa.date64(), [date(1969, 12, 31), None]),
        (pa.time32("s"), [time(23, 59, 59), None]),
        (pa.time32("ms"), [time(0, 0, 0, 1000), None]),
        (pa.time64("us"), [time(23, 59, 59, 999999), time(0), None]),
        (pa.time64("ns"), [time(1, 2, 3, 4), None]),
    ],
)
def test_a_source_of_json_reads_the_days_and_times_that_the_sink_wrote(kind: pa.DataType, values: list[Any]) -> None:
    batch = pa.record_batch({"at": pa.array(values, kind), "n": range(len(values))})
    lines = pa.array([line + b"\n" for line in json_lines(batch).splitlines()], pa.large_binary())
    found = decode(lines, json_decoder(batch.schema))
    assert isinstance(found, pa.RecordBatch)
    assert found.equals(batch)


@pytest.mark.parametrize("value", ["20260101", '"2026-01-01T10:00:00"', '"today"', '""'])
def test_what_is_no_date_is_not_taken_for_days_since_1970(value: str) -> None:
    line = pa.array([f'{{"day": {value}}}\n'.encode()], pa.large_binary())
    assert isinstance(decode(line, json_decoder(pa.schema([("day", pa.date32())]))), BadLine)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_number_that_is_too_large_for_a_float_does_not_become_infinity(form: str) -> None:
    schema = pa.schema([("price", pa.float32())])
    decoder = json_decoder(schema) if form == "json" else csv_decoder(schema, schema.names, ",")
    texts = ["1e39", "0.1", "-3.5e38", "3.4e38"]
    lines = [f'{{"price": {text}}}\n' if form == "json" else f"{text}\n" for text in texts]
    found = decode_each(pa.array(map(str.encode, lines), pa.large_binary()), schema, decoder)
    assert found.rows.column(0).equals(pa.array([0.1, 3.4e38], pa.float32()))
    assert {n: why for n, why in found.bad.items() if "too large for float" in why} == found.bad
    assert list(found.bad) == [0, 2]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_digits_of_csv_that_no_double_holds_are_no_infinity(kind: pa.DataType) -> None:
    schema = pa.schema([("price", kind)])
    lines = pa.array([b"1e400\n", b"0.5\n", b"-1e999\n", b"inf\n", b"-inf\n"], pa.large_binary())
    found = decode_each(lines, schema, csv_decoder(schema, schema.names, ","))
    assert found.rows.column(0).to_pylist() == [0.5, float("inf"), float("-inf")]
    assert list(found.bad) == [0, 2]
    assert all("too large for" in why for why in found.bad.values())


def test_what_is_within_a_value_of_json_is_held_to_its_type() -> None:
    inner = pa.struct([("day", pa.date32()), ("price", pa.float32()), ("rest", pa.list_(pa.float32()))])
    schema = pa.schema([("x", pa.list_(inner))])
    texts: dict[str, Any] = {
        '[{"day": "2026-01-31", "price": 0.5, "rest": [0.25, null]}, null]': [
            (date(2026, 1, 31), 0.5, [0.25, None]),
            None,
        ],
        "null": None,
        '[{"rest": null}]': [(None, None, None)],
        '[{"day": 5}]': "number",
        '[{"price": 1e39}]': "too large for float",
        '[{"rest": [0.5, -1e39]}]': "too large for float",
    }
    lines = pa.array([f'{{"x": {text}}}\n'.encode() for text in texts], pa.large_binary())
    found = decode_each(lines, schema, json_decoder(schema))
    rows = [value and [each and tuple(each.values()) for each in value] for value in found.rows.column(0).to_pylist()]
    assert rows == list(texts.values())[:3]
    assert [said in found.bad[n] for n, said in enumerate(list(texts.values())[3:], 3)] == [True] * 3


def test_a_time_in_a_zone_is_not_taken_for_one_of_utc() -> None:
    texts = ["2026-01-31T08:00:00+01:00", "2026-01-31T07:00:00.5Z", "2026-01-31T08:00:00"]
    lines = pa.array([f'{{"at": "{text}"}}\n'.encode() for text in texts], pa.large_binary())
    for zone, good in (("Europe/Berlin", [0, 1]), ("UTC", [0, 1, 2])):
        schema = pa.schema([("at", pa.timestamp("us", zone))])
        found = decode_each(lines, schema, json_decoder(schema))
        assert found.good == good
        assert found.rows.column(0)[0].as_py() == datetime(2026, 1, 31, 7, tzinfo=UTC)
        assert all("expected a zone offset" in why for why in found.bad.values())


def test_a_number_that_json_does_not_have_is_null() -> None:
    batch = pa.record_batch({"f": [float("nan"), float("inf"), 0.5]})
    assert [json.loads(line)["f"] for line in json_lines(batch).splitlines()] == [None, None, 0.5]


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.duration("s")])
def test_columns_that_a_format_cannot_hold_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="json sink: column 'odd' is "):
        json_form(pa.schema([("odd", kind)]))
    if kind != pa.duration("s"):
        with pytest.raises(ConfigError, match="csv sink: column 'odd' is "):
            csv_form(pa.schema([("odd", kind)]))


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.binary(2)])
def test_csv_takes_bytes_of_no_kind(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="csv sink: column 'odd' is "):
        csv_form(pa.schema([("odd", kind)]))


def test_csv_takes_texts_of_every_kind(tmp_path: Path) -> None:
    words = ["", "x" * 20, None]
    kinds = (pa.string(), pa.large_string(), pa.string_view())
    batch = pa.record_batch({str(kind): pa.array(words, kind) for kind in kinds})
    stage(OS_FILES, tmp_path / "a.csv", csv_form(batch.schema), [batch])
    assert (tmp_path / "a.csv").read_text().splitlines()[1:] == ['"","",""', ",".join(3 * [f'"{words[1]}"']), ",,"]


def test_csv_is_read_back_and_tells_null_from_empty(tmp_path: Path) -> None:
    batch = pa.record_batch({"w": ['a"b,c', "", None, "x"], "n": [1, None, 3, 4]})
    staged = stage(OS_FILES, tmp_path / "a.csv", csv_form(batch.schema), [batch, batch])
    assert staged.rows == 8
    text = (tmp_path / "a.csv").read_text()
    assert list(csv.reader(io.StringIO(text)))[:3] == [["w", "n"], ['a"b,c', "1"], ["", ""]]
    assert text.splitlines()[2:4] == ['"",', ",3"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [(pa.int64(), [None, 5, None]), (pa.timestamp("us", "UTC"), [None, NOON]), (pa.string(), [None, "x", ""])],
)
def test_a_null_that_is_a_whole_row_of_csv_is_no_empty_line(
    tmp_path: Path, kind: pa.DataType, values: list[object]
) -> None:
    """Readers pass over empty lines, ours and others: the row would be lost."""
    batch = pa.record_batch({"x": pa.array(values, kind)})
    stage(OS_FILES, tmp_path / "a.csv", csv_form(batch.schema), [batch])
    source = TextSource(str(tmp_path), TextForm("csv", batch.schema))
    read = source.open(source.splits()[0]).read(9)
    assert read is not None
    assert read.batch["x"].to_pylist() == [("" if kind == pa.string() else None) if v is None else v for v in values]
    assert len(list(csv.reader(io.StringIO((tmp_path / "a.csv").read_text())))) == len(values) + 1
    assert len(pyarrow.csv.read_csv(tmp_path / "a.csv")) == len(values)
