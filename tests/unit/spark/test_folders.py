from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError, StateError
from penstock_spark import folders

REQUEST = {"kind": "test", "n": 1}


def write(folder: Path, request: dict[str, object], *, replace: bool = False) -> None:
    unfinished = folders.begin(folder, request, replace=replace)
    (unfinished / "part-0.parquet").write_text("0")
    folders.finish(folder, request, {"rows": 1})


def test_a_finished_dataset_is_known_again(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    write(folder, REQUEST)
    assert folders.is_current(folder, REQUEST)
    assert not folders.is_current(folder, {**REQUEST, "n": 2})
    assert [p.name for p in folders.parquet_files(folder)] == ["part-0.parquet"]


def test_a_dataset_with_a_changed_file_is_not_current(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    write(folder, REQUEST)
    (folder / "part-0.parquet").write_text("other")
    assert not folders.is_current(folder, REQUEST)


def test_an_unfinished_dataset_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folders.begin(folder, REQUEST, replace=False)
    assert not folders.is_current(folder, REQUEST)
    write(folder, {"kind": "another"})
    assert folders.is_current(folder, {"kind": "another"})


def test_a_complete_dataset_is_replaced_on_request_only(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    write(folder, REQUEST)
    with pytest.raises(ConfigError, match=r"holds another dataset.*--replace"):
        write(folder, {"kind": "another"})
    write(folder, {"kind": "another"}, replace=True)
    assert folders.is_current(folder, {"kind": "another"})


def test_a_users_folder_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty and holds no dataset"):
        write(tmp_path, REQUEST, replace=True)
    assert (tmp_path / "mine.parquet").read_text() == "mine"


def test_hidden_files_are_not_data(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", "_x.parquet", ".y.parquet", "z.txt"):
        (tmp_path / name).write_text("")
    assert [p.name for p in folders.parquet_files(tmp_path)] == ["a.parquet", "b.parquet"]


def test_a_missing_and_an_empty_folder_have_different_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        folders.parquet_files(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"no \*\.parquet file in"):
        folders.parquet_files(tmp_path)


def test_a_missing_column_and_damage_name_the_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    pq.write_table(pa.table({"text": ["a"]}), good)
    bad.write_text("no Parquet")
    with pytest.raises(ConfigError, match=r"good\.parquet has no column 'line': it has text"):
        folders.demand_columns([good], ["line"])
    with pytest.raises(StateError, match=r"bad\.parquet cannot be read"):
        folders.demand_columns([bad], ["line"])
