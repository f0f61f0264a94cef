"""Which files of a folder are input, and which came too late for a job."""

from pathlib import Path

import pytest

from penstock.base.limits import INPUT_NAMES_SHOWN_MAX
from penstock.connectors.input_files import list_input, look_at, nothing_to_read
from penstock.contract.status import passed_text, unread_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.parquet", "b.parquet", ".c.parquet", "_SUCCESS", "d.parq"):
        (tmp_path / name).touch()
    (tmp_path / "day=1").mkdir()
    return tmp_path


def test_a_listing_names_what_is_read_and_what_is_passed_over(folder: Path) -> None:
    found = list_input(folder)
    assert found.files == ("a.parquet", "b.parquet")
    assert found.passed == (
        (".c.parquet", "hidden"),
        ("_SUCCESS", "hidden"),
        ("d.parq", "not *.parquet"),
        ("day=1", "sub-folder"),
    )


def test_files_that_came_later_are_named_and_known_ones_are_not(folder: Path) -> None:
    seen = look_at(folder, {"a.parquet", "gone.parquet"}).of("lines")
    assert (seen.files, seen.unread, seen.unread_names) == (2, 1, ("b.parquet",))
    assert unread_text(seen) == (
        "input of lines: 1 file is not in the checkpoint and not read: b.parquet (in"
        f" {folder}; the set of files is fixed when a job first starts)"
    )
    assert passed_text(seen) == (
        "input of lines: passed over: .c.parquet (hidden), _SUCCESS (hidden), d.parq (not"
        " *.parquet), day=1 (sub-folder)"
    )
    assert not unread_text(look_at(folder, {"a.parquet", "b.parquet"}))


def test_of_many_files_a_few_are_named_and_all_are_counted(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"{number:04d}.parquet").touch()
        (tmp_path / f"{number:04d}.csv").touch()
    seen = look_at(tmp_path, ()).of("lines")
    assert (seen.unread, seen.passed) == (1000, 1000)
    assert len(seen.unread_names) == len(seen.passed_names) == INPUT_NAMES_SHOWN_MAX
    assert "1,000 files are not in the checkpoint" in unread_text(seen)
    assert "0004.parquet and 995 more" in unread_text(seen)


def test_a_single_file_has_nothing_beside_it(folder: Path) -> None:
    seen = look_at(folder / "a.parquet", {"a.parquet"})
    assert (seen.files, seen.unread, seen.passed) == (1, 0, 0)


def test_a_folder_without_input_says_what_is_in_it(tmp_path: Path) -> None:
    assert nothing_to_read(list_input(tmp_path)) == "has no *.parquet file: it is empty"
    (tmp_path / "a.parq").touch()
    (tmp_path / "x").mkdir()
    assert nothing_to_read(list_input(tmp_path)) == (
        "has no *.parquet file; passed over: a.parq (not *.parquet), x (sub-folder)"
    )
    (tmp_path / "a.parquet").touch()
    assert nothing_to_read(list_input(tmp_path)) is None
