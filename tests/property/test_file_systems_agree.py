"""The operating system and the virtual disk give the same answers to all calls of one process."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.file_system import FOLDER, FOLDER_NOT_LINKED, NEW_FILE, OLD_FILE, READ, REPLACED_FILE, OsFileSystem
from penstock.ports import FileSystem
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.virtual_disk import VirtualDisk

NAMES = st.sampled_from(["a", "b", "c", "a/b", "a/c", "b/a", "a/b/c"])
FLAGS = st.sampled_from([READ, OLD_FILE, NEW_FILE, REPLACED_FILE, FOLDER, FOLDER_NOT_LINKED])
HANDLES = st.integers(0, 5)
CALLS = st.one_of(
    st.tuples(st.just("open"), NAMES, FLAGS, st.one_of(st.none(), HANDLES)),
    st.tuples(st.just("close"), HANDLES),
    st.tuples(st.just("read"), HANDLES, st.sampled_from([1, 3, 100])),
    st.tuples(st.just("write"), HANDLES, st.binary(max_size=4)),
    st.tuples(st.just("fsync"), HANDLES),
    st.tuples(st.sampled_from(["stat", "entries"]), st.one_of(NAMES, HANDLES)),
    st.tuples(st.sampled_from(["link", "rename"]), NAMES, NAMES),
    st.tuples(st.sampled_from(["unlink", "mkdir", "rmdir"]), NAMES, st.one_of(st.none(), HANDLES)),
)


class Player:
    """Makes calls below one folder, and notes what each returns."""

    def __init__(self, files: FileSystem, root: str) -> None:
        self.files = files
        self.root = root
        self.handles: list[int] = []

    def play(self, call: tuple[Any, ...]) -> object:
        """Return the answer in a form that does not name the file system."""
        name, first, *rest = call
        try:
            return self._answer(name, first, rest)
        except OSError as error:
            return error.errno

    def close(self) -> None:
        while self.handles:
            self.files.close(self.handles.pop())

    def _answer(self, name: str, first: Any, rest: list[Any]) -> object:
        files = self.files
        match name:
            case "open":
                path, within = self._place(first, rest[1])
                self.handles.append(files.open(path, rest[0], within=within))
                return "opened"
            case "close":
                if first < len(self.handles):
                    files.close(self.handles.pop(first))
                return None
            case "read" | "write" | "fsync":
                handle = self._handle(first)
                return None if handle is None else getattr(files, name)(handle, *rest)
            case "stat":
                return self._stat(self._path_or_handle(first))
            case "entries":
                found = files.entries(self._path_or_handle(first))
                return sorted((entry.name, entry.kind.value) for entry in found)
            case "link" | "rename":
                return getattr(files, name)(f"{self.root}/{first}", f"{self.root}/{rest[0]}")
            case _:
                path, within = self._place(first, rest[0])
                return getattr(files, name)(path, within=within)

    def _stat(self, place: Any) -> object:
        found = self.files.stat(place)
        if stat.S_ISDIR(found.st_mode):
            return "folder"
        return found.st_size, found.st_nlink

    def _handle(self, number: int) -> int | None:
        return self.handles[number] if number < len(self.handles) else None

    def _place(self, name: str, within: int | None) -> tuple[str, int | None]:
        handle = None if within is None else self._handle(within)
        return (f"{self.root}/{name}", None) if handle is None else (name, handle)

    def _path_or_handle(self, place: Any) -> Any:
        handle = self._handle(place) if isinstance(place, int) else None
        return f"{self.root}/{place}" if handle is None else handle


@pytest.mark.parametrize("network", [False, True])
@given(calls=st.lists(CALLS, max_size=40))
def test_the_same_calls_have_the_same_answers(calls: list[tuple[Any, ...]], *, network: bool) -> None:
    with TemporaryDirectory() as folder:
        virtual = MountedFiles(VirtualDisk(), Mount("one", network=network, staleness=1.0))
        virtual.mkdir("/volume")
        real, simulated = Player(OsFileSystem(), folder), Player(virtual, "/volume")
        for number, call in enumerate(calls):
            expected = real.play(call)
            assert simulated.play(call) == expected, (number, call)
        assert _tree(Path(folder)) == virtual.disk.contents("/volume") or network
        real.close()
        simulated.close()
        assert _tree(Path(folder)) == virtual.disk.contents("/volume")
        assert virtual.open_paths == []


def _tree(root: Path) -> dict[str, bytes]:
    found = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {f"/volume/{path.relative_to(root)}": path.read_bytes() for path in sorted(found)}
