"""Rows for links: they compress as they are called; and how a slow link is asked for."""

import os
import shutil

import pyarrow as pa
import pytest

from bench import link
from bench.rows import BLOCK_ROWS, MADE_OF, SCHEMA, Rows, block

SIZE = 256


def share(kind: str) -> float:
    plain = MADE_OF[kind](SIZE)
    return len(pa.compress(plain, codec="lz4_raw", asbytes=True)) / len(plain)


@pytest.mark.parametrize("kind", MADE_OF)
def test_a_block_has_rows_of_one_size(kind: str) -> None:
    rows = block(kind, SIZE)
    assert len(rows) == BLOCK_ROWS
    assert {len(row) for row in rows.to_pylist()} == {SIZE}


def test_readings_compress_best_and_random_bytes_not_at_all() -> None:
    assert share("sensor") < 0.3 < share("text") < 0.6
    assert share("random") > 0.99


def test_a_split_is_read_from_any_offset_to_its_end() -> None:
    source = Rows("random", 8, BLOCK_ROWS + 5)
    (first,) = source.splits()
    reader = source.open(first)
    begun = reader.read(10)
    assert begun is not None
    again = source.open(reader.state())
    rest: list[tuple[int, bytes]] = []
    while (read := again.read(BLOCK_ROWS)) is not None:
        assert read.batch.schema == SCHEMA
        rest += zip(*(column.to_pylist() for column in read.batch.columns), strict=True)
    assert [number for number, _ in rest] == list(range(10, BLOCK_ROWS + 5))
    assert [row for _, row in rest[-5:]] == begun.batch.column(1).to_pylist()[:5]
    assert again.state().finished


def test_without_a_rate_a_command_runs_as_it_is() -> None:
    assert link.command("", ["a", "b"]) == ["a", "b"]


def test_a_rate_needs_tools_and_rights_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(SystemExit, match="1gbit needs iproute2, util-linux: apt-get install"):
        link.command("1gbit", ["a"])
    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="run it as root"):
        link.command("1gbit", ["a"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert link.command("1gbit", ["a", "b"])[-3:] == ["1gbit", "a", "b"]
