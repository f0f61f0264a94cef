"""Lines that do not decode are dead letters of their source, each once and with its place; all others are rows."""

import re
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError, StateError
from penstock.connectors.open_connectors import ConnectorInspector, open_source
from penstock.contract.columns import Column
from penstock.contract.event_time import EventTime, TimeUnit
from penstock.contract.graph import Connector, Source
from penstock.steps.undecoded import RECORD_FIELDS

COLUMNS = (Column("n", "int64"), Column("at", "timestamp[us]"))
LINES = {
    "json": [
        '{"n": 0, "at": "2026-01-01 00:00:00"}',
        '{"n": "zero"}',
        "",
        '{"n": 1, "at": "2026-01-01 00:00:01"}',
        "{",
        '{"n": 2, "at": "2026-01-01 00:00:02"}',
        "caf\xe9",
    ],
    "csv": [
        "n,at",
        "0,2026-01-01 00:00:00",
        "zero,2026-01-01 00:00:00",
        "",
        "1,2026-01-01 00:00:01",
        "1,2,3",
        "2,2026-01-01 00:00:02",
        '"caf\xe9',
    ],
}
BAD = {"json": {2, 5, 7}, "csv": {3, 6, 8}}  # numbers of lines


def write(folder: Path, kind: str, name: str = "a") -> Path:
    """Write a file whose lines are partly bad, one of them no UTF-8."""
    file = folder / f"{name}.{'jsonl' if kind == 'json' else 'csv'}"
    file.write_bytes("\r\n".join(LINES[kind]).encode("latin-1"))
    return file


def source_of(folder: Path, kind: str, on_error: str | None = "dead-letter", **more: Any) -> Source:
    options = {"path": str(folder), "on_error": on_error, **more}
    return Source(Connector(kind, options), COLUMNS, EventTime("at", 0))


def read(source: Any, state: Any, most: int) -> list[dict[str, Any]]:
    """Read a split in pieces, each by a new reader: what the states say has to be right."""
    found: list[dict[str, Any]] = []
    while True:
        reader = source.open(state)
        piece = reader.read(most)
        if piece is None:
            return found
        assert piece.offset == len(found)
        found += piece.batch.to_pylist()
        state = reader.state()
        reader.close()


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("most", [1, 2, 100])
def test_every_line_is_a_row_or_a_dead_letter_wherever_reading_begins(tmp_path: Path, kind: str, most: int) -> None:
    file = write(tmp_path, kind)
    source = open_source(source_of(tmp_path, kind))
    (state,) = source.splits()
    found = read(source, state, most)
    reason, key, value, place, number = (field.name for field in RECORD_FIELDS)
    bad = [row for row in found if row[reason] is not None]
    assert [row["n"] for row in found if row[reason] is None] == [0, 1, 2]
    assert {row[number] for row in bad} == BAD[kind]
    lines = dict(enumerate(LINES[kind], 1))
    assert all(row[value] == lines[row[number]].encode("latin-1") for row in bad)
    assert all((row[key], row[place], row["n"]) == (None, file.name, None) for row in bad)
    assert len(found) == len([line for line in LINES[kind] if line]) - (kind == "csv")


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_job_writes_them_apart(tmp_path: Path, kind: str) -> None:
    write(tmp_path, kind)
    connector = {"json": ps.json, "csv": ps.csv}[kind](tmp_path, on_error="dead-letter")
    job = ps.Job()
    rows = job.source("in", connector, columns={c.name: c.type for c in COLUMNS}, event_time="at")
    rows.sink("out", ps.discard())
    rows.dead_letter.sink("bad", ps.discard())
    result = ps.run(job, collect=True)
    assert [row["n"] for row in result["out"]] == [0, 1, 2]
    assert {row["error_offset"] for row in result["bad"]} == BAD[kind]
    assert all(row["error_source"] == "in" and row["error"] for row in result["bad"])
    assert result.dead_letters == {"in": 3}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_folders_are_columns_of_good_lines_and_a_followed_folder_has_dead_letters(tmp_path: Path, kind: str) -> None:
    (tmp_path / "day=1").mkdir()
    write(tmp_path / "day=1", kind)
    connector = Connector(
        kind, {"path": str(tmp_path), "on_error": "dead-letter", "partition_by": "day", "follow": 0.1}
    )
    source = open_source(Source(connector, (*COLUMNS, Column("day", "int8")), None))
    found = [row for state in source.splits() for row in read(source, state, 100)]
    assert [row["day"] for row in found if row["n"] is not None] == [1, 1, 1]
    place, number = RECORD_FIELDS[3].name, RECORD_FIELDS[4].name
    letters = {row[place]: row[number] for row in found if row[number] is not None}
    assert letters.keys() == {f"day=1/a.{'jsonl' if kind == 'json' else 'csv'}"}
    assert len(found) == 6


@pytest.mark.parametrize("follow", [None, 0.1])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_event_time_that_no_timestamp_holds_is_a_dead_letter(
    tmp_path: Path, kind: str, follow: float | None
) -> None:
    lines: dict[str, tuple[str, ...]] = {
        "json": ('{"n": 0, "at": 5}', '{"n": 1, "at": 9223372036854775}', '{"n": 2}', '{"n": 3, "at": 7}')
    }
    lines["csv"] = ("n,at", "0,5", "1,9223372036854775", "2,", "3,7")
    (tmp_path / ("a.jsonl" if kind == "json" else "a.csv")).write_text("\n".join(lines[kind]))
    options = {"path": str(tmp_path), "on_error": "dead-letter", "follow": follow}
    columns = (Column("n", "int64"), Column("at", "int64"))
    source = open_source(Source(Connector(kind, options), columns, EventTime("at", 0, unit=TimeUnit.SECONDS)))
    found = [row for state in source.splits() for row in read(source, state, 100)]
    assert [row["n"] for row in found] == [0, None, 2, 3]
    reason, _, value, _, _ = (found[1][field.name] for field in RECORD_FIELDS)
    assert "out of bounds timestamp: 9223372036854775: correct the unit of event time, or such rows" in reason
    assert b"9223372036854775" in value


def test_without_the_option_a_bad_line_fails_the_job_and_names_it(tmp_path: Path) -> None:
    write(tmp_path, "json")
    source = open_source(source_of(tmp_path, "json", on_error=None))
    (state,) = source.splits()
    with pytest.raises(StateError, match=r"a\.jsonl, line 2: .*give the source onError: dead-letter"):
        source.open(state).read(100)


@pytest.mark.parametrize(("kind", "wrong"), [("json", "duration[us]"), ("csv", "list<item: int64>")])
def test_a_type_that_no_line_gives_is_refused_and_makes_no_dead_letters(tmp_path: Path, kind: str, wrong: str) -> None:
    write(tmp_path, kind)
    connector = Connector(kind, {"path": str(tmp_path), "on_error": "dead-letter", "partition_by": None})
    with pytest.raises(
        ConfigError, match=rf"{kind} source: column 'x' is {re.escape(wrong)}, and no {kind.upper()} gives"
    ):
        ConnectorInspector().source_schema(connector, (*COLUMNS, Column("x", wrong)))


def test_parquet_has_no_bad_lines() -> None:
    connector = Connector("s3", {"url": "s3://b/in", "on_error": "dead-letter"})
    with pytest.raises(ConfigError, match="onError: it is for json and csv"):
        ConnectorInspector().source_schema(connector, ())
