"""A disk in memory: what it shows now, and what of it survives a power failure.

::

    mkdir, link, rename, unlink ──> entries of folders, now      fsync of the folder ──> durable entries
    write ──> content, now                                       fsync of the file ────> durable content

A change of names is durable as a whole, when one of the folders that it touches is synced. A change
that is not synced may survive a power failure, or not, whatever became of the changes before it. Content
and names are independent: a name may survive whose content is empty or cut short.

The disk is the server's side. Each process uses it through a view of its own (``mounted_files.py``).
There are no symbolic links, owners or times.
"""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from random import Random

DEVICE = 7


def os_error(code: int, path: str = "") -> OSError:
    """Return the error that the operating system raises for ``code``."""
    return OSError(code, os.strerror(code), path)


@dataclass(eq=False, slots=True)
class VirtualFile:
    """A file. ``links`` counts its names; ``dropped`` when a failed fsync threw changes away."""

    number: int
    mode: int
    content: bytes = b""
    durable: bytes = b""
    links: int = 0
    dropped: bool = False


@dataclass(eq=False, slots=True)
class VirtualFolder:
    """A folder: its entries now, and the ones that survive a power failure."""

    number: int
    mode: int
    entries: dict[str, "Node"] = field(default_factory=dict)
    durable: dict[str, "Node"] = field(default_factory=dict)
    removed: bool = False


Node = VirtualFile | VirtualFolder


@dataclass(frozen=True, slots=True, eq=False)
class NameChange:
    """Names that one call gave to a node or took away (None), in one or two folders."""

    places: tuple[tuple[VirtualFolder, str, Node | None], ...]


class VirtualDisk:
    """One disk, or the disk of a file server. Not thread-safe: the threads of a simulation take turns."""

    def __init__(self, *, links: bool = True) -> None:
        """Begin empty. Without ``links`` a second name is refused, as some file systems do."""
        self.links = links
        self.full = False
        self.power_failures = 0
        self._numbers = 1
        self.root = VirtualFolder(1, stat.S_IFDIR | 0o755)
        self._unsynced: list[NameChange] = []

    # --- Names

    def folder_at(self, path: str | PurePath, within: VirtualFolder | None = None) -> VirtualFolder:
        """Find a folder; a relative path begins at ``within``."""
        node: Node = self.root if within is None else within
        for name in parts_of(path):
            if not isinstance(node, VirtualFolder):
                raise os_error(errno.ENOTDIR, str(path))
            found = node.entries.get(name)
            if found is None:
                raise os_error(errno.ENOENT, str(path))
            node = found
        if not isinstance(node, VirtualFolder):
            raise os_error(errno.ENOTDIR, str(path))
        return node

    def new_file(self, folder: VirtualFolder, name: str, mode: int) -> VirtualFile:
        """Make an empty file at a free name."""
        self._need_room(name)
        made = VirtualFile(self._fresh(), stat.S_IFREG | mode)
        self._change((folder, name, made))
        return made

    def new_folder(self, folder: VirtualFolder, name: str, mode: int) -> None:
        """Make an empty folder."""
        self._need_room(name)
        self._need_free(folder, name)
        self._change((folder, name, VirtualFolder(self._fresh(), stat.S_IFDIR | mode)))

    def link(self, file: Node, folder: VirtualFolder, name: str) -> None:
        """Give a file a second name."""
        self._need_free(folder, name)
        if not self.links or isinstance(file, VirtualFolder):
            raise os_error(errno.EPERM, name)
        self._need_room(name)
        self._change((folder, name, file))

    def rename(self, source: tuple[VirtualFolder, str], target: tuple[VirtualFolder, str]) -> None:
        """Move a node. Two names of one file stay as they are, as POSIX says."""
        node, there = self.find(*source), target[0].entries.get(target[1])
        if node is there:
            return
        if isinstance(node, VirtualFolder) and target[0] in self._folders(node):
            raise os_error(errno.EINVAL, target[1])
        if isinstance(there, VirtualFolder) and source[0] in self._folders(there):
            raise os_error(errno.ENOTEMPTY, target[1])
        if there is not None:
            self._need_replaceable(node, there, target[1])
        self._change((*source, None), (*target, node))

    def remove(self, folder: VirtualFolder, name: str, *, is_folder: bool) -> None:
        """Remove a name: of a file, or of an empty folder."""
        node = self.find(folder, name)
        if isinstance(node, VirtualFolder) != is_folder:
            raise os_error(errno.ENOTDIR if is_folder else errno.EISDIR, name)
        if isinstance(node, VirtualFolder) and node.entries:
            raise os_error(errno.ENOTEMPTY, name)
        self._change((folder, name, None))

    def find(self, folder: VirtualFolder, name: str) -> Node:
        """Return what has a name. Raises FileNotFoundError."""
        node = folder.entries.get(name)
        if node is None:
            raise os_error(errno.ENOENT, name)
        return node

    # --- Durability

    def sync_names(self, folder: VirtualFolder) -> None:
        """Make the names of a folder durable, with all that was changed together with them, or before in order."""
        folders, synced = {id(folder)}, list[NameChange]()
        for change in reversed(self._unsynced):
            touched = {id(f) for f, *_ in change.places}
            if touched & folders:
                folders |= touched
                synced.append(change)
        for change in reversed(synced):
            _apply(change)
        self._unsynced = [c for c in self._unsynced if c not in synced]

    def sync_content(self, file: VirtualFile) -> None:
        """Make the content durable, unless an earlier sync failed: then the system has forgotten it."""
        if not file.dropped:
            file.durable = file.content

    def power_failure(self, chances: Random | None = None) -> None:
        """Lose what is not durable; with ``chances`` some of it survives, each thing for itself."""
        self.power_failures += 1
        for change in self._unsynced:
            if chances is not None and chances.random() < 0.5:
                _apply(change)
        self._unsynced.clear()
        files: set[VirtualFile] = set()
        for folder in self._folders(self.root, durable=True):
            folder.entries, folder.removed = dict(folder.durable), False
            for node in folder.entries.values():
                if isinstance(node, VirtualFile):
                    node.links = 0
                    files.add(node)
        for folder in self._folders(self.root):
            for node in folder.entries.values():
                if isinstance(node, VirtualFile):
                    node.links += 1
        for file in sorted(files, key=lambda f: f.number):
            file.content = file.durable = _left(file, chances)
            file.dropped = False

    # --- What is there, for judges

    def contents(self, under: str = "/") -> dict[str, bytes]:
        """Return the content of every file below ``under``, by path. Empty when ``under`` is missing."""
        try:
            top = self.folder_at(under)
        except OSError:
            return {}
        return dict(sorted(_walk(top, "".join(f"/{name}" for name in parts_of(under)))))

    # --- Inside

    def _folders(self, top: VirtualFolder, *, durable: bool = False) -> Iterator[VirtualFolder]:
        left = [top]
        while left:
            folder = left.pop()
            yield folder
            inside = folder.durable if durable else folder.entries
            left += [node for node in inside.values() if isinstance(node, VirtualFolder)]

    def _change(self, *places: tuple[VirtualFolder, str, Node | None]) -> None:
        for folder, name, node in places:
            if folder.removed:
                raise os_error(errno.ENOENT, name)
            match folder.entries.pop(name, None):
                case VirtualFile() as before:
                    before.links -= 1
                case VirtualFolder() as before:
                    before.removed = True
            if node is not None:
                folder.entries[name] = node
            if isinstance(node, VirtualFile):
                node.links += 1
            elif node is not None:
                node.removed = False
        self._unsynced.append(NameChange(places))

    def _fresh(self) -> int:
        self._numbers += 1
        return self._numbers

    def _need_room(self, name: str) -> None:
        if self.full:
            raise os_error(errno.ENOSPC, name)

    def _need_free(self, folder: VirtualFolder, name: str) -> None:
        if name in folder.entries:
            raise os_error(errno.EEXIST, name)

    def _need_replaceable(self, node: Node, there: Node, name: str) -> None:
        if isinstance(there, VirtualFolder):
            if not isinstance(node, VirtualFolder):
                raise os_error(errno.EISDIR, name)
            if there.entries:
                raise os_error(errno.ENOTEMPTY, name)
        elif isinstance(node, VirtualFolder):
            raise os_error(errno.ENOTDIR, name)


def parts_of(path: str | PurePath) -> list[str]:
    """Return the names in a path, without the root."""
    names = [name for name in str(path).split("/") if name not in ("", ".")]
    assert ".." not in names, f"{path}: the code that ships walks no folder upwards"
    return names


def _apply(change: NameChange) -> None:
    for folder, name, node in change.places:
        folder.durable.pop(name, None)
        if node is not None:
            folder.durable[name] = node


def _left(file: VirtualFile, chances: Random | None) -> bytes:
    """Return what is left of a file: all that is durable, and perhaps some of what is not."""
    if chances is None or file.dropped or file.content == file.durable or chances.random() < 0.5:
        return file.durable
    return file.content[: chances.randint(0, len(file.content))]


def _walk(folder: VirtualFolder, prefix: str) -> Iterator[tuple[str, bytes]]:
    for name, node in folder.entries.items():
        if isinstance(node, VirtualFolder):
            yield from _walk(node, f"{prefix}/{name}")
        else:
            yield f"{prefix}/{name}", node.content
