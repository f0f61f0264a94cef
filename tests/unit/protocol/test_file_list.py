"""Listing and merging of state files: what a manifest may hold."""

from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share
from penstock.contract.manifest import BlobRef, StateFile
from penstock.protocol.state_entries import (
    FileList,
    drops_tombstones,
    groups_of_files,
    next_order,
    through_last,
    to_merge,
)

ALL: Share = (Range(0, 10),)


def entry(order: int, size: int = 1, groups: Share = ALL) -> StateFile:
    return StateFile(BlobRef(BlobName(f"f{order}"), "", size), "s", groups, order, Epoch(order), 1)


def test_an_aborted_epochs_files_are_never_listed() -> None:
    files = FileList((entry(1),))
    files.propose(Epoch(2), (entry(1), entry(2)))
    files.propose(Epoch(3), (entry(1), entry(3)))
    files.confirm(Epoch(3))
    assert [f.order for f in files.committed] == [1, 3]
    files.confirm(Epoch(4))
    assert [f.order for f in files.committed] == [1, 3]


def test_gained_entries_are_taken_over_and_lost_groups_narrow() -> None:
    files = FileList((entry(5, groups=(Range(0, 5),)),))
    files.gain((entry(7, groups=(Range(5, 7),)),))
    assert next_order(files.committed) == 8
    files.lose((Range(0, 3), Range(5, 7)))
    assert [(f.order, f.groups) for f in files.committed] == [(5, (Range(3, 5),))]


def test_nothing_is_merged_while_files_are_few() -> None:
    assert to_merge([entry(i) for i in range(3)], 4) == ()


def test_small_new_files_are_merged_and_a_large_old_one_is_left() -> None:
    files = [entry(1, 1000), *(entry(i, 1) for i in range(2, 5))]
    merged = to_merge(files, 4)
    assert [f.order for f in merged] == [2, 3, 4]
    assert not drops_tombstones(merged, files), "the large one may hold an older value"


def test_all_files_are_merged_when_they_are_alike() -> None:
    files = [entry(i, 10) for i in range(1, 5)]
    assert to_merge(files, 4) == tuple(files)
    assert drops_tombstones(files, files)


def test_tombstones_go_when_what_is_older_shows_other_groups() -> None:
    old = replace(entry(1, 1000), groups=(Range(0, 4),))
    new = tuple(replace(entry(i), groups=(Range(4, 10),)) for i in (2, 3))
    assert groups_of_files(new) == (Range(4, 10),)
    assert drops_tombstones(new, (old, *new))
    assert not drops_tombstones(new, (replace(old, groups=(Range(3, 5),)), *new))


def test_files_are_merged_with_all_that_are_older() -> None:
    files = [entry(i) for i in (3, 1, 2, 4)]
    assert [f.order for f in through_last(files, {BlobName("f1"), BlobName("f3")})] == [1, 2, 3]
    assert through_last(files, {BlobName("of another task")}) == ()
