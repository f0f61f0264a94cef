"""Records to rows without a broker, and the settings of clients."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.kafka.client import client_settings
from penstock.connectors.kafka.decoding import RowDecoder
from penstock.connectors.kafka.lane_position import LanePosition, parse_position
from penstock.contract.bad_records import OnBadRecord
from penstock.contract.event_time import EventTime, TimeUnit
from penstock.contract.kafka_options import KafkaInput, RecordFormat
from penstock.steps.undecoded import REASON, RECORD_FIELDS

SCHEMA = pa.schema([("word", pa.string()), ("number", pa.int64()), ("why", pa.string())])


class Message:
    """What the client gives, as far as the decoder asks."""

    def __init__(
        self, offset: int, value: bytes | None, key: bytes | None = None, *headers: tuple[str, bytes | None]
    ) -> None:
        self._parts = (offset, value, key)
        self._headers = list(headers)

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._headers

    def offset(self) -> int:
        return self._parts[0]

    def value(self) -> bytes | None:
        return self._parts[1]

    def key(self) -> bytes | None:
        return self._parts[2]

    def partition(self) -> int:
        return 3


def options(**more: Any) -> KafkaInput:
    return KafkaInput("broker:9092", "orders", **more)


def decoded(values: list[bytes | None], **more: Any) -> list[dict[str, Any]]:
    decoder = RowDecoder(options(error_column="why", **more), SCHEMA)
    rows: list[dict[str, Any]] = decoder.rows([Message(n, v) for n, v in enumerate(values)]).to_pylist()
    return rows


@pytest.mark.parametrize("bad", [(), (0,), (7,), (0, 1, 2), (3, 4), tuple(range(8))])
def test_every_record_is_a_row_in_its_place_whatever_does_not_decode(bad: tuple[int, ...]) -> None:
    values: list[bytes | None] = [b'{"word": "x", "number": %d}' % n for n in range(8)]
    values[5] = None
    for place in bad:
        values[place] = b"{"
    rows = decoded(values)
    null = {5, *bad} - (set() if values[5] is None else {5} - set(bad))
    assert [row["number"] for row in rows] == [None if n in null else n for n in range(8)]
    assert [row["why"] is not None for row in rows] == [n in bad for n in range(8)]


def letters(values: list[bytes | None], keys: list[bytes | None] | None = None, **more: Any) -> pa.RecordBatch:
    decoder = RowDecoder(options(on_error=OnBadRecord.DEAD_LETTER, **more), SCHEMA)
    messages = [Message(n, v, None if keys is None else keys[n]) for n, v in enumerate(values)]
    return decoder.rows(messages)


def test_a_record_that_does_not_decode_is_there_as_it_came() -> None:
    found = letters([b'{"number": 1}', b"\xff{", None, b'{"number": "x"}'], [None, b"k", None, None]).to_pylist()
    assert [row["number"] for row in found] == [1, None, None, None]
    hidden = [tuple(row[f.name] for f in RECORD_FIELDS[1:]) for row in found]
    nothing = (None, None, None, None)
    bad = [(b"k", b"\xff{", "orders-3", 1), (None, b'{"number": "x"}', "orders-3", 3)]
    assert hidden == [nothing, bad[0], nothing, bad[1]]
    assert [row[REASON] is not None for row in found] == [False, True, False, True]


@pytest.mark.parametrize("taken", [{"on_error": OnBadRecord.DEAD_LETTER}, {"error_column": "why"}])
def test_an_event_time_that_no_timestamp_holds_does_not_decode(taken: dict[str, Any]) -> None:
    decoder = RowDecoder(options(**taken), SCHEMA, EventTime("number", 0, unit=TimeUnit.MILLISECONDS))
    values = [b'{"number": 1}', b'{"number": 9223372036854775807}', b'{"word": "x"}']
    found = decoder.rows([Message(n, value) for n, value in enumerate(values)])
    assert found.column("number").to_pylist() == [1, None, None]
    reasons = found.column("why" if "error_column" in taken else REASON).to_pylist()
    assert [why is not None for why in reasons] == [False, True, False]
    assert "correct the unit of event time" in reasons[1]


def test_a_key_that_is_no_text_is_a_record_that_does_not_decode() -> None:
    found = letters([b'{"number": 1}', b'{"number": 2}'], [b"\xff", b"a"], key_column="word").to_pylist()
    assert [(row["word"], row["number"]) for row in found] == [(None, 1), ("a", 2)]
    assert "column 'word'" in found[0][REASON]
    for value in (b"{}", None):
        with pytest.raises(StateError, match=r"offset 0: column 'word': .*onError: dead-letter"):
            RowDecoder(options(key_column="word"), SCHEMA).rows([Message(0, value, b"\xff")])


def test_headers_of_one_name_are_a_list() -> None:
    """Kafka has a list of headers. The last one of a name took the place of the others."""
    sent = (("trace", b"a"), ("hop", b"1"), ("hop", None), ("hop", b"\xff"))
    rows = RowDecoder(options(headers_column="word"), SCHEMA).rows([Message(0, b"{}", None, *sent), Message(1, b"{}")])
    assert rows.column("word").to_pylist() == ['{"trace": "a", "hop": ["1", null, "\\\\xff"]}', None]


def test_a_reason_goes_to_one_place() -> None:
    with pytest.raises(ConfigError, match="errorColumn or onError: dead-letter, not both"):
        letters([b"{}"], error_column="why")


def test_a_value_with_line_breaks_is_one_row() -> None:
    assert [row["word"] for row in decoded([b'{"word":\n "a",\r\n"number": 1}', b'{"word": "b\\n"}'])] == ["a", "b\n"]
    first, second = decoded([b"a,1\nb,2", b"c,3"], format=RecordFormat.CSV)
    assert (first["why"], second["word"]) == ("a value has a line break in it", "c")


@pytest.mark.parametrize("sign", [b"\n", b"\r", b"\r\n"])
def test_a_line_break_within_a_text_of_json_is_refused_and_becomes_no_other_sign(sign: bytes) -> None:
    rows = decoded([b'{"word": "a%sb"}' % sign, b'{"word":%s"c"}' % sign])
    assert [row["word"] for row in rows] == [None, "c"]
    assert "Invalid encoding in string" in rows[0]["why"]


def test_two_objects_in_one_value_are_no_two_rows() -> None:
    rows = decoded([b'{"word": "a"}{"word": "b"}', b'{"word": "c"}'])
    assert [row["word"] for row in rows] == [None, "c"]


def test_a_value_that_does_not_decode_is_named_by_topic_partition_and_offset() -> None:
    decoder = RowDecoder(options(), SCHEMA)
    messages = [Message(40, b'{"number": 1}'), Message(43, b'{"number": "x"}')]
    with pytest.raises(StateError, match=r"topic orders, partition 3, offset 43: .*onError: dead-letter"):
        decoder.rows(messages)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key_column": "wrod"}, "keyColumn: .*'wrod'.*word"),
        ({"timestamp_column": "word"}, r"timestampColumn: column 'word' is string, due is timestamp\[us\]"),
        ({"key_column": "word", "headers_column": "word"}, "column 'word' is to be filled by two parts"),
        ({"format": RecordFormat.RAW}, "format raw fills one column of binary or string"),
        ({"key_column": "word", "offset_column": "number", "error_column": "why"}, "no column is left for the value"),
    ],
)
def test_columns_that_cannot_be_filled_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RowDecoder(options(**more), SCHEMA)


def test_a_type_that_no_value_gives_is_refused_and_makes_no_dead_letters() -> None:
    letters = options(format=RecordFormat.CSV, on_error=OnBadRecord.DEAD_LETTER)
    with pytest.raises(
        ConfigError, match=r"kafka source: column 'x' is list<item: int64>, and no CSV gives such values"
    ):
        RowDecoder(letters, pa.schema([("n", pa.int64()), ("x", pa.list_(pa.int64()))]))


def test_settings_of_a_client_come_from_a_file_and_only_by_known_names(tmp_path: Path) -> None:
    file = tmp_path / "client"
    file.write_text("# of the cluster\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    settings = client_settings("broker:9092", str(file))
    assert (settings["security.protocol"], settings["sasl.password"]) == ("SASL_SSL", "a=b")
    for line, said in [("sasl.kerberos.kinit.cmd=rm", "line 1: .*kinit"), ("nonsense", "line 1: .*name=value")]:
        file.write_text(line)
        with pytest.raises(ConfigError, match=said):
            client_settings("broker:9092", str(file))
    with pytest.raises(ConfigError, match="there is no clientFile"):
        client_settings("broker:9092", str(tmp_path / "none"))


def test_a_lane_is_read_back_as_it_was_written() -> None:
    place = LanePosition("orders", "id", 1, 3, {1: 12, 4: -2}, {1: 12, 4: 0})
    assert parse_position(place.as_json()) == place
    assert not place.finished
    assert place.at({1: 12, 4: 0}).finished
    assert [p for p in range(8) if place.holds(p)] == [1, 4, 7]
    with pytest.raises(StateError, match="a checkpoint describes a split of a Kafka topic"):
        parse_position('{"topic": "orders"}')
