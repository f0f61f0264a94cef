"""The virtual table of Iceberg does what a real catalog does, and the real client reads it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import LongType, StringType

from sim.servers.iceberg_table import BUCKET, RETENTION_S, VirtualIceberg
from sim.servers.iceberg_writers import IcebergWriters
from sim.servers.lake_files import Unreadable
from tests.support.iceberg import NAME, IcebergTable, local_catalog

COLUMNS = {"word": "string", "number": "long"}
YOUNG = "output/data/of-no-snapshot-yet.parquet"


def outcomes(opened: Callable[[], Any]) -> list[object]:
    """Return what commits on old and new snapshots come to: the client tries none again."""
    found: list[object] = []

    def commit(table: Any, name: str, *, snapshot: bool) -> None:
        table.metadata.properties["commit.retry.num-retries"] = "0"
        transaction = table.transaction()
        transaction.set_properties({name: "1"})
        if snapshot:
            transaction.update_snapshot().fast_append().commit()
        try:
            transaction.commit_transaction()
        except CommitFailedException:
            found.append("refused")
        newest = opened().metadata
        found.append((len(newest.snapshots), sorted(newest.properties)))

    first, second = opened(), opened()
    commit(first, "a", snapshot=True)
    commit(second, "b", snapshot=True)
    third, fourth = opened(), opened()
    commit(third, "c", snapshot=False)
    commit(fourth, "d", snapshot=True)
    commit(third, "e", snapshot=True)
    fifth, sixth = opened(), opened()
    with sixth.update_schema() as update:
        update.add_column("theirs", StringType())
    commit(fifth, "f", snapshot=True)
    return [*found, [field.name for field in opened().schema().fields]]


def made() -> tuple[VirtualIceberg, IcebergWriters, list[float]]:
    """Return a server with a table, who writes to it, and its clock."""
    now = [0.0]
    server = VirtualIceberg(lambda: now[0])
    server.make_table("output", COLUMNS, not_null=("number",))
    return server, IcebergWriters(server, "output"), now


def test_the_virtual_catalog_commits_as_a_real_one_does(tmp_path: Path) -> None:
    table = IcebergTable(lambda: local_catalog(tmp_path)).create({"word": StringType(), "number": LongType()})
    catalog = local_catalog(tmp_path)
    real = outcomes(lambda: catalog.load_table(NAME))
    catalog.close()
    assert table.rows() == []
    virtual = outcomes(made()[1].opened)
    assert real == virtual
    assert real.count("refused") == 2


def test_the_client_reads_the_virtual_table_and_old_files_are_found() -> None:
    server, writers, now = made()
    for number in range(3):
        writers.append(number)
    writers.delete(0)
    server.overwrite("output/data/of-no-snapshot.parquet", b"old")
    writers.add_column("theirs")
    writers.compact()
    writers.merge_manifests()
    for number in range(3, 6):
        writers.append(number)
    writers.delete(2)
    rows = server.rows("output")
    assert sorted(row["number"] for row in rows) == [1, 3, 4, 5]
    assert sorted(map(str, rows)) == sorted(map(str, writers.opened().scan().to_arrow().to_pylist()))
    assert server.unused("output") == []
    now[0] = RETENTION_S
    server.overwrite(YOUNG, b"new")
    assert server.unused("output") == sorted(set(server.keys("output/")) - kept(writers) - {YOUNG})
    assert "output/data/of-no-snapshot.parquet" in server.unused("output")
    expired = writers.expire()
    assert set(expired) <= set(server.unused("output"))
    assert any(key.startswith("output/data/") for key in expired)
    for key in server.unused("output"):
        server.delete(key)
    assert server.rows("output") == rows
    assert set(server.keys("output/")) - kept(writers) == {YOUNG}


@pytest.mark.parametrize("part", ["manifest_list", "manifest_path", "file_path"])
def test_a_table_that_lacks_a_file_cannot_be_read(part: str) -> None:
    server, writers, _ = made()
    writers.append(1)
    table = writers.opened()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    (entry,) = manifest.fetch_manifest_entry(table.io)
    location = {
        "manifest_list": snapshot.manifest_list,
        "manifest_path": manifest.manifest_path,
        "file_path": entry.data_file.file_path,
    }[part]
    server.delete(location.removeprefix(BUCKET))
    with pytest.raises(Unreadable, match="and there is no such file"):
        server.rows("output")


def kept(writers: IcebergWriters) -> set[str]:
    """Return the keys of the files that the table has, as the client says."""
    table = writers.opened()
    found = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return {location.removeprefix(BUCKET) for location in found}
