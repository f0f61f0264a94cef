"""A folder that grows: each file is read once, in whatever order names come, and finished ones leave the state."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.followed_folder import FolderLane, FollowedFolder, LaneState, parse_lane
from penstock.connectors.lanes import LANES
from penstock.connectors.s3.object_folder import ObjectFolder
from penstock.connectors.s3.object_path import ObjectPath
from penstock.connectors.text_source import TextForm, TextSource
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState
from penstock.testing import connectors as kit

FORM = TextForm("json", pa.schema([("n", pa.int64())]))


def followed(folder: Path, every_s: float = 0.0) -> FollowedFolder:
    return FollowedFolder(str(folder), FORM, every_s)


def put(folder: Path, name: str, numbers: Iterable[int]) -> None:
    draft = folder / f"_{name}"
    draft.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
    draft.rename(folder / name)


def take(readers: list[FolderLane]) -> Counter[int]:
    found = Counter[int]()
    for reader in readers:
        while (read := reader.read(7)) is not None:
            found.update(read.batch.column("n").to_pylist())
    return found


def opened(folder: Path, states: Iterable[SplitState]) -> list[FolderLane]:
    source = followed(folder)
    return [source.open(state) for state in states]


def test_the_rules_of_a_source(tmp_path: Path) -> None:
    for file in range(8):
        put(tmp_path, f"{file}.jsonl", range(100 * file, 100 * file + 12))
    later = iter(range(1000))

    def more() -> None:
        put(tmp_path, f"z{next(later)}.jsonl", [7])

    assert kit.check_source(lambda: followed(tmp_path), more) >= 96


def test_files_that_come_later_are_read_once_also_those_whose_names_come_earlier(tmp_path: Path) -> None:
    put(tmp_path, "m.jsonl", range(10))
    readers = opened(tmp_path, followed(tmp_path).splits())
    assert take(readers) == Counter(range(10))
    put(tmp_path, "z.jsonl", range(10, 20))
    put(tmp_path, "a.jsonl", range(20, 30))
    put(tmp_path, "empty.jsonl", ())
    assert take(readers) == Counter(range(10, 30))
    again = opened(tmp_path, [reader.state() for reader in readers])
    assert take(again) == Counter()


def test_a_restored_lane_goes_on_within_a_file_and_repeats_nothing(tmp_path: Path) -> None:
    for file in range(12):
        put(tmp_path, f"{file}.jsonl", range(100 * file, 100 * file + 20))
    readers = opened(tmp_path, followed(tmp_path).splits())
    first = Counter(n for r in readers if (read := r.read(5)) for n in read.batch.column("n").to_pylist())
    put(tmp_path, "00.jsonl", [5000])
    rest = take(opened(tmp_path, [reader.state() for reader in readers]))
    expected = Counter(n for file in range(12) for n in range(100 * file, 100 * file + 20))
    assert first + rest == expected + Counter([5000])


def test_a_file_that_was_read_and_is_removed_leaves_the_state(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", range(10))
    put(tmp_path, "b.jsonl", range(10))
    readers = opened(tmp_path, followed(tmp_path).splits())
    take(readers)
    assert sum(len(parse_lane(r.state().spec).read) for r in readers) == 2
    (tmp_path / "a.jsonl").unlink()
    assert take(readers) == Counter()
    assert sum(len(parse_lane(r.state().spec).read) for r in readers) == 1


def test_a_file_is_not_looked_for_before_it_is_time(tmp_path: Path) -> None:
    source = followed(tmp_path, 3600.0)
    readers = [source.open(state) for state in source.splits()]
    assert take(readers) == Counter()
    put(tmp_path, "a.jsonl", range(10))
    assert take(readers) == Counter()
    assert all(3500 < reader.wait_s() <= 3600 for reader in readers)


def test_a_file_that_is_being_read_and_goes_away_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", range(20))
    readers = opened(tmp_path, followed(tmp_path).splits())
    states = [reader.state() for reader in readers if reader.read(5) is not None]
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(StateError, match=r"a\.jsonl is gone: put it back"):
        opened(tmp_path, states)


def test_a_file_that_is_made_empty_and_then_filled_is_read(tmp_path: Path) -> None:
    readers = opened(tmp_path, followed(tmp_path).splits())
    (tmp_path / "a.jsonl").touch()
    assert take(readers) == Counter()
    assert all(not parse_lane(reader.state().spec).read for reader in readers)
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    assert take(readers) == Counter([1])


@pytest.mark.parametrize("first", ['{"n": 1}\n', '{"n": 1}'])
@pytest.mark.parametrize("restored", [False, True])
def test_a_file_that_grows_after_it_was_read_is_named(tmp_path: Path, first: str, restored: bool) -> None:
    readers = opened(tmp_path, followed(tmp_path).splits())
    (tmp_path / "a.jsonl").write_text(first)
    assert take(readers) == Counter([1])
    (tmp_path / "a.jsonl").write_text(first + '\n{"n": 2}\n')
    if restored:
        readers = opened(tmp_path, [reader.state() for reader in readers])
    with pytest.raises(StateError, match=r"a\.jsonl had \d bytes when it was read and has \d\d now: .* new file"):
        take(readers)
    (tmp_path / "a.jsonl").unlink()
    put(tmp_path, "b.jsonl", [2])
    assert take(opened(tmp_path, [reader.state() for reader in readers])) == Counter([2])


def test_a_name_that_comes_back_is_another_file(tmp_path: Path) -> None:
    readers = opened(tmp_path, followed(tmp_path).splits())
    put(tmp_path, "a.jsonl", [1])
    assert take(readers) == Counter([1])
    (tmp_path / "a.jsonl").unlink()
    assert take(readers) == Counter()
    put(tmp_path, "a.jsonl", [2, 3])
    assert take(readers) == Counter([2, 3])


def test_a_lane_of_an_earlier_checkpoint_has_no_sizes() -> None:
    text = '{"file":null,"lane":3,"lanes":16,"read":["ab"]}'
    assert parse_lane(text).as_json() == text


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", range(20))
    (tmp_path / "b.jsonl").write_text('{"n": 1}\n{"n": "x"}\n')
    kit.check_bad_input(lambda: followed(tmp_path), "b.jsonl, line 2")


def test_the_folder_has_to_be_there_and_may_be_empty(tmp_path: Path) -> None:
    assert len(followed(tmp_path).splits()) == LANES
    with pytest.raises(ConfigError, match="there is no folder"):
        followed(tmp_path / "none").splits()


class OldKeys:
    """A store that refuses keys, by a code of its own."""

    def __init__(self, code: str) -> None:
        self._code = code

    def list_with_delimiter(self) -> None:
        raise OSError(f"400 Bad Request: <Code>{self._code}</Code>")


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken", "InvalidTokenId", "TokenRefreshRequired"])
def test_keys_that_are_refused_while_a_job_runs_are_waited_for(code: str) -> None:
    """A token is invalid, and not expired, beside keys of another time: of three files some may be read too early."""
    stores: list[Any] = [OldKeys(code), MemoryStore()]
    stores[1].put("a.jsonl", b'{"n": 1}\n')
    source = FollowedFolder(ObjectPath(ObjectFolder("s3://b/in", lambda: stores.pop(0))), FORM, 0.0)
    reader = source.open(SplitState(SplitId("lane-00"), LaneState(0, 1, frozenset()).as_json(), 0))
    with pytest.raises(StorageError, match="renew `sessionToken`"):
        reader.read(7)
    assert take([reader]) == Counter([1])


def test_follow_that_is_given_or_taken_out_later_is_refused_with_what_undoes_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n')
    whole, followed = TextSource(str(tmp_path), FORM), FollowedFolder(str(tmp_path), FORM, every_s=0.1)
    with pytest.raises(StateError, match=r"began without `follow`, take it out again, or begin anew"):
        followed.open(whole.splits()[0])
    with pytest.raises(StateError, match=r"began with `follow`, give it again, or begin anew"):
        whole.open(followed.splits()[0])


def test_a_name_that_is_no_utf_8_is_refused_and_shown(tmp_path: Path) -> None:
    """Arrow opens no such file, and a column and a terminal hold no such name."""
    odd, said = (
        os.fsencode(tmp_path) + b"/caf\xe9.jsonl",
        r"has the file caf\\xe9.jsonl: its name is no UTF-8: rename it",
    )
    put(tmp_path, "a.jsonl", [1])
    readers = opened(tmp_path, followed(tmp_path).splits())
    assert take(readers) == Counter([1])
    Path(os.fsdecode(odd)).write_bytes(b'{"n": 2}\n')
    with pytest.raises(StateError, match=said):
        take(readers)
    for refused in (followed(tmp_path).splits, TextSource(str(tmp_path), FORM).splits):
        with pytest.raises(ConfigError, match=said):
            refused()
