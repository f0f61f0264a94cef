import errno
import os
from pathlib import Path
from random import Random

import pytest

from penstock.file_system import (
    FOLDER,
    NEW_FILE,
    READ,
    REPLACED_FILE,
    closing,
    exists,
    is_folder,
    make_durable,
    read_plain,
    refresh_names,
    sync_names,
    write_all,
)
from sim.files.call_hooks import CallFault, OneFault, ProcessEnded
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.virtual_disk import VirtualDisk

VOLUME = Path("/volume")
A, B = VOLUME / "a", VOLUME / "b"


@pytest.fixture
def disk() -> VirtualDisk:
    """A disk with one durable folder."""
    made = VirtualDisk()
    make_durable(MountedFiles(made, Mount("maker")), VOLUME)
    return made


def local(disk: VirtualDisk) -> MountedFiles:
    return MountedFiles(disk, Mount("local"))


def remote(disk: VirtualDisk, machine: str = "one", staleness: float = 0.0) -> MountedFiles:
    return MountedFiles(disk, Mount(machine, network=True, staleness=staleness))


def write(files: MountedFiles, path: Path, content: bytes, *, sync: bool = True) -> None:
    with closing(files, files.open(path, REPLACED_FILE)) as file:
        write_all(files, file, content)
        if sync:
            files.fsync(file)


def test_a_file_needs_two_syncs_to_survive(disk: VirtualDisk) -> None:
    files = local(disk)
    for name, content, names in (("both", True, True), ("content", True, False), ("neither", False, False)):
        write(files, VOLUME / name, b"x", sync=content)
        if names:
            sync_names(files, VOLUME)
    write(files, VOLUME / "name", b"x", sync=False)
    disk.power_failure()
    assert disk.contents() == {"/volume/both": b"x"}


def test_a_name_may_survive_without_the_content(disk: VirtualDisk) -> None:
    files = local(disk)
    write(files, A, b"x", sync=False)
    sync_names(files, VOLUME)
    disk.power_failure()
    assert disk.contents() == {"/volume/a": b""}


def test_what_was_removed_may_come_back(disk: VirtualDisk) -> None:
    files = local(disk)
    write(files, A, b"x")
    sync_names(files, VOLUME)
    files.unlink(A)
    disk.power_failure()
    assert disk.contents() == {"/volume/a": b"x"}


def test_a_rename_is_durable_as_a_whole(disk: VirtualDisk) -> None:
    files = local(disk)
    make_durable(files, VOLUME / "staging")
    write(files, VOLUME / "staging" / "a", b"x")
    files.rename(VOLUME / "staging" / "a", A)
    sync_names(files, VOLUME)
    disk.power_failure()
    assert disk.contents() == {"/volume/a": b"x"}


def test_chance_decides_what_else_survives_and_a_seed_repeats_it() -> None:
    def left(seed: int) -> dict[str, bytes]:
        disk = VirtualDisk()
        files = local(disk)
        for number in range(8):
            write(files, Path(f"/{number}"), b"content", sync=False)
        disk.power_failure(Random(seed))
        return disk.contents()

    assert left(1) == left(1)
    assert len({tuple(left(seed).items()) for seed in range(5)}) > 1
    assert any(0 < len(content) < 7 for seed in range(5) for content in left(seed).values()), "some are cut short"


def test_a_failed_sync_forgets_the_data(disk: VirtualDisk) -> None:
    fault = OneFault(1, CallFault.IO_ERROR, lambda _: None)
    files = MountedFiles(disk, Mount("local"), fault)
    file = files.open(A, NEW_FILE)
    fault.index = 2
    files.write(file, b"x")
    with pytest.raises(OSError, match="Input/output"):
        files.fsync(file)
    files.fsync(file)
    sync_names(files, VOLUME)
    disk.power_failure()
    assert disk.contents() == {"/volume/a": b""}


def test_others_see_a_file_when_it_is_closed_and_they_open_it(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two")
    file = one.open(A, NEW_FILE)
    one.write(file, b"new")
    assert read_plain(two, A, 10) == b""
    before = two.open(A, READ)
    one.close(file)
    assert two.read(before, 9) == b"", "opened before the other one closed it"
    assert read_plain(two, A, 10) == b"new"


def test_a_client_answers_from_its_cache_for_a_while(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two", staleness=1.0)
    assert not exists(two, A)
    assert two.entries(VOLUME) == []
    write(one, A, b"x")
    assert not exists(two, A)
    assert two.entries(VOLUME) == []
    assert any(exists(two, A) for _ in range(9)), "a cache ends"
    assert any(two.entries(VOLUME) for _ in range(9))


def test_what_another_client_removed_is_stale(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two")
    write(one, A, b"x")
    mine, other = one.open(A, READ), two.open(A, READ)
    one.unlink(A)
    assert one.read(mine, 9) == b"x", "the client that removed it keeps it open"
    with pytest.raises(OSError, match="Stale") as stale:
        two.read(other, 9)
    assert stale.value.errno == errno.ESTALE


def test_a_full_disk_takes_nothing(disk: VirtualDisk) -> None:
    files = local(disk)
    write(files, A, b"x")
    disk.full = True
    for call in (
        lambda: write(files, A, b"more"),
        lambda: files.open(B, NEW_FILE),
        lambda: files.mkdir(B),
        lambda: files.link(A, B),
    ):
        with pytest.raises(OSError, match="No space"):
            call()
    files.unlink(A)


def test_links_may_be_missing() -> None:
    files = local(VirtualDisk(links=False))
    write(files, Path("/a"), b"x")
    with pytest.raises(PermissionError):
        files.link(Path("/a"), Path("/b"))


def test_a_process_that_is_gone_does_nothing_more(disk: VirtualDisk) -> None:
    one = remote(disk)
    file = one.open(A, NEW_FILE)
    one.write(file, b"x")
    one.end()
    with pytest.raises(ProcessEnded):
        one.unlink(A)
    assert disk.contents() == {"/volume/a": b"x"}, "the system closes its files"
    two = remote(disk, "two")
    disk.power_failure()
    with pytest.raises(ProcessEnded):
        two.stat(A)
    assert disk.contents() == {}


@pytest.mark.parametrize("fault", list(CallFault))
def test_a_fault_comes_before_or_after_the_call(disk: VirtualDisk, fault: CallFault) -> None:
    ended = list[CallFault]()
    files = MountedFiles(disk, Mount("local"), OneFault(0, fault, ended.append))
    with pytest.raises((OSError, ProcessEnded)) as raised:
        files.mkdir(A)
    ends = fault not in {CallFault.NO_SPACE, CallFault.IO_ERROR, CallFault.STALE, CallFault.LOST_REPLY}
    assert isinstance(raised.value, ProcessEnded) == ends
    assert ended == ([fault] if ends else [])
    made = fault in {CallFault.LOST_REPLY, CallFault.ENDED_AFTER, CallFault.POWER_AFTER}
    assert exists(local(disk), A) == made
    if fault is CallFault.LOST_REPLY:
        assert isinstance(raised.value, FileExistsError), "the client asked again"


def test_numbers_are_none_of_the_system(disk: VirtualDisk) -> None:
    with closing(files := local(disk), files.open(VOLUME, FOLDER)) as folder, pytest.raises(OSError, match="Bad file"):
        os.fsync(folder)


def test_a_client_asks_again_when_it_opens_the_folder(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two", staleness=1.0)
    assert not exists(two, A)
    write(one, A, b"x")
    refresh_names(two, VOLUME)
    assert exists(two, A)


def test_a_folder_that_another_client_has_just_made_is_no_file(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two", staleness=1.0)
    assert not exists(two, A)
    make_durable(one, A)
    make_durable(two, A)
    assert is_folder(two, A)


def test_a_client_knows_of_a_folder_that_it_has_walked_through(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two", staleness=1.0)
    assert not exists(two, A)
    make_durable(one, A)
    two.mkdir(A / "inside")
    assert is_folder(two, A)


def test_a_file_where_a_folder_has_to_be_is_refused_by_every_client(disk: VirtualDisk) -> None:
    one, two = remote(disk), remote(disk, "two", staleness=1.0)
    assert not exists(two, A)
    write(one, A, b"x")
    with pytest.raises(FileExistsError):
        make_durable(two, A)
