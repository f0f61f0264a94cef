"""The state of a step is the same after it was written to Parquet, made a savepoint, and written again."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.values import replace
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.contract.settings import StateBackend
from penstock.graph import load_job
from penstock.graph.compiled import CompiledJob
from penstock.model.keys import hash_columns, key_groups
from penstock.savepoint_tables.from_parquet import build_savepoint
from penstock.savepoint_tables.to_parquet import Exported, StoredState, export_state
from tests.support.balances_job import SCHEMA, write_job

NOW = datetime.fromisoformat("2026-11-25T03:04:05.678901")


def table_of(count: int) -> pa.Table:
    def row(i: int) -> dict[str, Any]:
        account = None if i == 7 else f"account-{i}"
        money = Decimal(i) / 4 if i % 5 else None
        return {
            "account": account,
            "total": i - 3,
            "note": f"ä{i}" if i % 3 else None,
            "rate": i / 7,
            "limit": money,
            "since": NOW,
        }

    return pa.Table.from_pylist([row(i) for i in range(count)], schema=SCHEMA)


@pytest.fixture
def job(tmp_path: Path) -> CompiledJob:
    return load_job(write_job(tmp_path, "balances_round_trip", []), ConnectorInspector())


def write(folder: Path, table: pa.Table) -> Path:
    folder.mkdir()
    pq.write_table(table.slice(0, 11), folder / "part-0.parquet")
    pq.write_table(table.slice(11), folder / "part-1.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def export(job: CompiledJob, savepoint: Path, *steps: str) -> list[Exported]:
    return export_state(job, StoredState.of_savepoint(savepoint), savepoint.parent / "tables", steps)


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: str(row["account"]))


def test_a_table_becomes_a_savepoint_and_the_same_table_again(job: CompiledJob, tmp_path: Path) -> None:
    given = table_of(40_000)
    (built,) = build_savepoint(job, {"add": write(tmp_path / "table", given)}, tmp_path / "savepoint")
    assert built.keys == 40_000
    (exported,) = export(job, tmp_path / "savepoint")
    assert (exported.step, exported.rows) == ("add", 40_000)
    found = pq.read_table(tmp_path / "tables" / "add")
    assert in_order(found.drop_columns(["key_group"])) == in_order(given)


def test_state_that_does_not_fit_the_memory_of_its_job_is_written_a_few_groups_at_a_time(
    job: CompiledJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.keyed_state.state_files.STATE_MERGE_BYTES_MAX", 1024 * 1024)
    small = replace(job.spec.state, backend=StateBackend.ROCKSDB, memory_bytes=1024 * 1024)
    job = replace(job, spec=replace(job.spec, state=small))
    given = table_of(40_000)
    build_savepoint(job, {"add": write(tmp_path / "table", given)}, tmp_path / "savepoint")
    (exported,) = export(job, tmp_path / "savepoint")
    assert exported.rows == 40_000
    assert exported.files > 3
    found = pq.read_table(tmp_path / "tables" / "add")
    groups = found.column("key_group").to_pylist()
    assert groups == sorted(groups)
    assert in_order(found.drop_columns(["key_group"])) == in_order(given)


def test_rows_have_their_key_groups_in_order(job: CompiledJob, tmp_path: Path) -> None:
    build_savepoint(job, {"add": write(tmp_path / "table", table_of(500))}, tmp_path / "savepoint")
    export(job, tmp_path / "savepoint", "add")
    found = pq.read_table(tmp_path / "tables" / "add")
    groups = key_groups(hash_columns([found.column("account")]), job.plan.max_key_groups)
    assert found.column("key_group").to_pylist() == groups.tolist()
    assert groups.tolist() == sorted(groups.tolist())
    again = build_savepoint(job, {"add": tmp_path / "tables" / "add"}, tmp_path / "second")
    assert again[0].keys == 500


Change = Callable[[pa.Table], pa.Table]
BAD: dict[str, tuple[Change, type[Exception], str]] = {
    "twice": (lambda t: pa.concat_tables([t, t.slice(3, 1)]), StateError, "a key is there twice"),
    "no column": (lambda t: t.drop_columns(["note"]), ConfigError, "missing: note"),
    "odd column": (lambda t: t.append_column("totla", t["total"]), ConfigError, "'totla'"),
    "column twice": (
        lambda t: t.append_column("total", t["total"]),
        ConfigError,
        "these columns are there twice: total",
    ),
    "key group twice": (
        lambda t: t.append_column("key_group", t["total"]).append_column("key_group", t["total"]),
        ConfigError,
        "these columns are there twice: key_group",
    ),
    "inexact": (
        lambda t: t.set_column(1, "total", pa.array([0.5] * len(t))),
        StateError,
        "column 'total'",
    ),
    "null number": (lambda t: t.set_column(1, "total", pa.nulls(len(t), pa.int64())), StateError, "cannot hold null"),
    "key group": (
        lambda t: t.append_column("key_group", pa.array([3] * len(t))),
        StateError,
        "key_group is 3, but the key of this row has",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_table_that_does_not_fit_makes_no_savepoint(job: CompiledJob, tmp_path: Path, name: str) -> None:
    change, error, text = BAD[name]
    table = write(tmp_path / "table", change(table_of(20)))
    with pytest.raises(error, match=text) as raised:
        build_savepoint(job, {"add": table}, tmp_path / "savepoint")
    assert str(table) in str(raised.value)
    assert [p.name for p in tmp_path.iterdir() if "savepoint" in p.name] == []


def test_a_damaged_page_is_the_fault_of_its_file(job: CompiledJob, tmp_path: Path) -> None:
    table = write(tmp_path / "table", table_of(40_011))
    file = table / "part-1.parquet"
    last = pq.ParquetFile(file).metadata.row_group(0).column(1)
    data = bytearray(file.read_bytes())
    end = last.dictionary_page_offset + last.total_compressed_size
    data[end - 1000 : end] = bytes(1000)
    file.write_bytes(data)
    with pytest.raises(
        StateError, match=r"part-1\.parquet, row 32,768 or a later one: is no Parquet file, or a damaged"
    ):
        build_savepoint(job, {"add": table}, tmp_path / "savepoint")
    assert not (tmp_path / "savepoint").exists()


def test_a_file_that_the_system_does_not_read_is_named(job: CompiledJob, tmp_path: Path) -> None:
    table = write(tmp_path / "table", table_of(20))
    (table / "part-1.parquet").unlink()
    (table / "part-1.parquet").symlink_to(tmp_path / "nothing")
    with pytest.raises(StorageError, match=r"part-1\.parquet: .*No such file"):
        build_savepoint(job, {"add": table}, tmp_path / "savepoint")


def test_a_state_with_several_entries_for_a_key_is_not_exported(job: CompiledJob, tmp_path: Path) -> None:
    build_savepoint(job, {"add": write(tmp_path / "table", table_of(20))}, tmp_path / "savepoint")
    stored = StoredState.of_savepoint(tmp_path / "savepoint")
    (file, *_) = (f for task in stored.root.tasks for f in task.files)
    task = replace(stored.root.tasks[0], files=(file, replace(file, state="add.seen")))
    stored = replace(stored, root=replace(stored.root, tasks=(task,)))
    with pytest.raises(ConfigError, match=r"step 'add' keeps several entries for a key in 'add\.seen'"):
        export_state(job, stored, tmp_path / "tables")
    assert not (tmp_path / "tables").exists()


def test_wrong_steps_and_folders_are_refused(job: CompiledJob, tmp_path: Path) -> None:
    table = write(tmp_path / "table", table_of(20))
    with pytest.raises(ConfigError, match="did you mean 'add'"):
        build_savepoint(job, {"ad": table}, tmp_path / "savepoint")
    with pytest.raises(ConfigError, match="step 'count' keeps computed values"):
        build_savepoint(job, {"count": table}, tmp_path / "savepoint")
    with pytest.raises(ConfigError, match=r"there is no file \*.parquet"):
        build_savepoint(job, {"add": tmp_path / "nothing"}, tmp_path / "savepoint")
    build_savepoint(job, {"add": table}, tmp_path / "savepoint")
    with pytest.raises(ConfigError, match="exists already"):
        build_savepoint(job, {"add": table}, tmp_path / "savepoint")
    with pytest.raises(StateError, match="has no state of step 'count'; it has: add"):
        export(job, tmp_path / "savepoint", "count")
    with pytest.raises(StateError, match="is not a savepoint"):
        export(job, tmp_path / "table")


def test_a_damaged_file_is_named_and_leaves_no_table(job: CompiledJob, tmp_path: Path) -> None:
    build_savepoint(job, {"add": write(tmp_path / "table", table_of(20))}, tmp_path / "savepoint")
    (file,) = (tmp_path / "savepoint").rglob("*.state")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(StateError, match="state 'add', epoch 1"):
        export(job, tmp_path / "savepoint")
    assert list((tmp_path / "tables").iterdir()) == []
