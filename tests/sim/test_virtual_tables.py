"""The virtual table of Delta Lake does what the real client does, and the real client reads it."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow.parquet as pq

from sim.servers.delta_client import DeltaApi
from sim.servers.delta_table import LOG, RETENTION_S, VirtualDelta

COLUMNS = {"word": "string", "number": "long"}
HOURS = int(RETENTION_S / 3600)


def outcomes(open_table: Callable[[], Any], add_column: Callable[[], object]) -> list[object]:
    """Return what commits on old and new versions come to."""
    found: list[object] = []

    def commit(table: Any, file: str, name: str, number: int, tries: int) -> None:
        properties = deltalake.CommitProperties(
            max_commit_retries=tries, app_transactions=[deltalake.Transaction(name, number)]
        )
        action = deltalake.transaction.AddAction(file, 10, {}, 1, True, "{}")
        try:
            table.create_write_transaction(
                [action], "append", table.schema(), partition_by=[], commit_properties=properties
            )
        except deltalake.exceptions.CommitFailedError:
            found.append("refused")
        newest = open_table()
        found.append((newest.version(), newest.transaction_version("ours"), newest.transaction_version("other")))

    old, new = open_table(), open_table()
    commit(new, "a", "ours", 1, 0)
    commit(old, "b", "ours", 2, 0)
    commit(old, "b", "ours", 2, 3)
    commit(open_table(), "b", "ours", 2, 0)
    commit(old, "c", "other", 7, 0)
    commit(old, "c", "other", 7, 3)
    before = open_table()
    add_column()
    commit(before, "d", "third", 1, 3)
    return [*found, sorted(field.name for field in open_table().schema().fields)]


def test_the_twin_of_the_client_commits_as_the_client_does(tmp_path: Path) -> None:
    server = VirtualDelta(time.monotonic)
    server.make_table("output", COLUMNS)
    api = DeltaApi(lambda name, arguments: getattr(server, name)(*arguments))
    folder = written(server, tmp_path)

    def add_column() -> None:
        kind = deltalake.schema.PrimitiveType("string")
        deltalake.DeltaTable(str(folder)).alter.add_columns([deltalake.Field("theirs", kind)])

    real = outcomes(lambda: deltalake.DeltaTable(str(folder)), add_column)
    virtual = outcomes(
        lambda: api.DeltaTable("s3://simulated/output", None, {}), lambda: server.add_column("output", "theirs")
    )
    assert real == virtual
    assert real.count("refused") == 4


def test_the_client_reads_the_virtual_table_and_finds_the_same_old_files(tmp_path: Path) -> None:
    today = tmp_path.stat().st_mtime
    now = [today - 2 * RETENTION_S]
    server = VirtualDelta(lambda: now[0])
    server.make_table("output", COLUMNS)
    first, *_ = [server.append("output", [{"word": "a", "number": number}]) for number in range(3)]
    server.overwrite("output/of-no-version.parquet", b"old")
    server.delete_rows("output", first)
    now[0] = today - 60
    server.add_column("output", "theirs")
    server.compact("output")
    server.append("output", [{"word": "b", "number": 3}])
    server.overwrite("output/of-no-version-yet.parquet", b"new")
    folder = written(server, tmp_path)

    table = deltalake.DeltaTable(str(folder))
    files = [unquote(path) for path in paths(table)]
    rows = [row for file in files for row in pq.read_table(folder / file).to_pylist()]
    assert sorted(row["number"] for row in rows) == [1, 2, 3]
    assert sorted(map(str, rows)) == sorted(map(str, server.rows("output")))
    old = {f"output/{unquote(path)}" for path in table.vacuum(HOURS, dry_run=True, full=True)}
    assert old == set(server.unused("output")) == {f"output/{first}", "output/of-no-version.parquet"}


def paths(table: deltalake.DeltaTable) -> list[str]:
    """Return the names of the files of a table."""
    return [str(path) for path in table.get_add_actions().column("path").to_pylist()]


def written(server: VirtualDelta, folder: Path) -> Path:
    """Write the virtual table into a folder, with its times."""
    for key in server.keys("output/"):
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(server.read(key) or b"")
        os.utime(path, (server.modified(key), server.modified(key)))
    assert (folder / "output" / LOG).is_dir()
    return folder / "output"
