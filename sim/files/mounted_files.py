"""The files of a virtual disk as one process sees them: the real disk of a machine, or a network mount.

A mount over the network is a client with caches (close-to-open): what is written reaches the server at
``fsync`` or ``close``; an open file keeps the content that it had when it was opened; ``stat``,
``entries`` and a path that was missing may be answered from what the client saw before, a few times. A
file or folder that another client removed is stale. A local disk has none of that.

Before and after every call there is a hook: a point for a switch of threads and for faults.
"""

import errno
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from penstock.ports import EntryKind, FolderEntry
from sim.files.call_hooks import CallHook, FileCall, NoHook, ProcessEnded
from sim.files.virtual_disk import DEVICE, Node, VirtualDisk, VirtualFile, VirtualFolder, os_error, parts_of

FIRST_HANDLE = 1_000_000  # no number that the operating system gives: a call past the port fails
CACHE_USES_MAX = 3  # how often one remembered answer is given, as a cache ends after some seconds
WRITABLE = os.O_WRONLY | os.O_RDWR


@dataclass(slots=True)
class OpenNode:
    """Something that is open: a folder, or a file with the content that a reader sees."""

    node: Node
    path: str
    writes: bool = False
    content: bytes = b""
    reads: bool = True
    position: int = 0


@dataclass(slots=True)
class ClientCache:
    """What a client remembers, how often it may still say so, and how likely it does."""

    chances: Random
    staleness: float
    attributes: dict[tuple[int, str], tuple[os.stat_result | None, int]] = field(default_factory=dict)
    listings: dict[int, tuple[list[FolderEntry], int]] = field(default_factory=dict)

    def stale(self, uses: int) -> bool:
        """Say whether a remembered answer with ``uses`` left is given now."""
        return uses > 0 and self.chances.random() < self.staleness


@dataclass(frozen=True, slots=True)
class Mount:
    """How a process sees the disk. ``staleness`` is the chance that a network client answers from its cache."""

    machine: str
    network: bool = False
    staleness: float = 0.0
    seed: int = 0


class MountedFiles:
    """:class:`penstock.ports.FileSystem` of one process on a virtual disk."""

    def __init__(self, disk: VirtualDisk, mount: Mount, hook: CallHook | None = None) -> None:
        """Begin with nothing open and nothing remembered."""
        self.disk = disk
        self.mount = mount
        self._hook = hook or NoHook()
        self._power_failures = disk.power_failures
        self._ended = False
        self._handles: dict[int, OpenNode] = {}
        self._next = FIRST_HANDLE
        self._unsent: dict[int, bytearray] = {}
        self._removed: set[int] = set()  # what this client has removed stays open for itself
        self._cache = ClientCache(Random(mount.seed), mount.staleness if mount.network else 0.0)

    @property
    def open_paths(self) -> list[str]:
        """List what is open, for judges of leaks."""
        return sorted(opened.path for opened in self._handles.values())

    def end(self) -> None:
        """End the process: the system closes its files, so what it has written is sent."""
        for opened in self._handles.values():
            if opened.writes and isinstance(opened.node, VirtualFile):
                self._send(opened.node)
        self._ended = True
        self._handles.clear()

    # --- The calls of the port

    def open(self, path: str | Path, flags: int, mode: int = 0o666, *, within: int | None = None) -> int:
        """Open a file or folder; see the port."""
        with self._call("open", path, within) as whole:
            opened = self._find(path, flags, mode, within, whole)
        self._next += 1  # only now: an error means that nothing is open
        self._handles[self._next] = opened
        return self._next

    def close(self, handle: int) -> None:
        """Release what is open, also when that fails; send what was written, unless it fails."""
        try:
            with self._call("close", "", handle):
                opened = self._open_of(handle, stale_ok=True)
                if opened.writes and isinstance(opened.node, VirtualFile):
                    self._send(opened.node)
        finally:
            self._handles.pop(handle, None)

    def read(self, file: int, size: int) -> bytes:
        """Read on, in what was there when the file was opened."""
        with self._call("read", "", file):
            opened = self._open_of(file)
            if isinstance(opened.node, VirtualFolder):
                raise os_error(errno.EISDIR, opened.path)
            if not opened.reads:
                raise os_error(errno.EBADF, opened.path)
            content = opened.content if self.mount.network else opened.node.content
            piece = content[opened.position : opened.position + size]
            opened.position += len(piece)
            return piece

    def write(self, file: int, data: bytes | memoryview) -> int:
        """Write at the end of what was written; see the port."""
        with self._call("write", "", file):
            opened = self._open_of(file)
            if not opened.writes or not isinstance(opened.node, VirtualFile):
                raise os_error(errno.EBADF, opened.path)
            if self.disk.full:
                raise os_error(errno.ENOSPC, opened.path)
            written = self._unsent.setdefault(opened.node.number, bytearray(opened.node.content))
            written[opened.position : opened.position + len(data)] = data
            opened.position += len(data)
            self._forget_attributes(opened.node)
            if not self.mount.network:
                self._send(opened.node)
            return len(data)

    def fsync(self, handle: int) -> None:
        """Make content or names durable. After an error the content is never made durable."""
        try:
            with self._call("fsync", "", handle):
                opened = self._open_of(handle)
                if isinstance(opened.node, VirtualFolder):
                    self.disk.sync_names(opened.node)
                else:
                    self._send(opened.node)
                    self.disk.sync_content(opened.node)
        except OSError:
            failed = self._handles.get(handle)
            if failed is not None and isinstance(failed.node, VirtualFile):
                failed.node.dropped = True
            raise

    def stat(self, place: str | Path | int) -> os.stat_result:
        """Return the metadata; a network client may answer from its cache."""
        if isinstance(place, int):
            with self._call("stat", "", place):
                return self._stat(self._open_of(place).node)
        with self._call("stat", place, None):
            if not parts_of(place):
                return self._stat(self.disk.root)
            folder, name = self._place(place, None)
            found, uses = self._cache.attributes.get((folder.number, name), (None, 0))
            if not self._cache.stale(uses):
                node = folder.entries.get(name)
                found, uses = None if node is None else self._stat(node), CACHE_USES_MAX + 1
            self._cache.attributes[folder.number, name] = found, uses - 1
            if found is None:
                raise os_error(errno.ENOENT, str(place))
            return found

    def entries(self, folder: str | Path | int) -> list[FolderEntry]:
        """List a folder; a network client may answer from its cache."""
        with self._call("entries", *(("", folder) if isinstance(folder, int) else (folder, None))):
            if isinstance(folder, int):
                node = self._folder_of(folder)
            else:
                node = self._walk(parts_of(folder), None)
            found, uses = self._cache.listings.get(node.number, ([], 0))
            if not self._cache.stale(uses):
                found, uses = [FolderEntry(n, _kind(inner)) for n, inner in node.entries.items()], CACHE_USES_MAX + 1
            self._cache.listings[node.number] = found, uses - 1
            return list(found)

    def link(self, source: str | Path, target: str | Path, *, within: int | None = None) -> None:
        """Give a file a second name; see the port."""
        with self._call("link", target, within):
            file = self.disk.find(*self._place(source, within))
            folder, name = self._place(target, within)
            self.disk.link(file, folder, name)
            self._forget_attributes(file)
            self._forget(folder, name)

    def rename(self, source: str | Path, target: str | Path) -> None:
        """Move a file or folder; see the port."""
        with self._call("rename", target, None):
            from_place, to_place = self._place(source, None), self._place(target, None)
            replaced = to_place[0].entries.get(to_place[1])
            self.disk.rename(from_place, to_place)
            self._own_removal(replaced)
            self._forget(*from_place)
            self._forget(*to_place)

    def unlink(self, path: str | Path, *, within: int | None = None) -> None:
        """Remove a name of a file; see the port."""
        with self._call("unlink", path, within):
            self._remove(path, within, is_folder=False)

    def mkdir(self, path: str | Path, mode: int = 0o777, *, within: int | None = None) -> None:
        """Make a folder; see the port."""
        with self._call("mkdir", path, within):
            if not parts_of(path):
                raise os_error(errno.EEXIST, str(path))
            folder, name = self._place(path, within)
            self.disk.new_folder(folder, name, mode)
            self._forget(folder, name)

    def rmdir(self, path: str | Path, *, within: int | None = None) -> None:
        """Remove an empty folder; see the port."""
        with self._call("rmdir", path, within):
            self._remove(path, within, is_folder=True)

    def resolve(self, path: str | Path) -> Path:
        """Return the absolute path; there are no links."""
        return Path("/", path)

    # --- Calls and handles

    @contextmanager
    def _call(self, name: str, path: str | Path, within: int | None) -> Iterator[str]:
        self._check_alive()
        above = self._handles.get(-1 if within is None else within)
        whole = str(path) if above is None else posixpath.join(above.path, path) if path else above.path
        call = FileCall(self.mount.machine, name, whole)
        self._hook.before(call)
        self._check_alive()  # another thread may have ended the process meanwhile
        yield whole
        self._hook.after(call)

    def _check_alive(self) -> None:
        if self._ended or self._power_failures != self.disk.power_failures:
            raise ProcessEnded

    def _open_of(self, handle: int, *, stale_ok: bool = False) -> OpenNode:
        opened = self._handles.get(handle)
        if opened is None:
            raise os_error(errno.EBADF, str(handle))
        node = opened.node
        gone = node.removed if isinstance(node, VirtualFolder) else not node.links
        if gone and self.mount.network and not stale_ok and node.number not in self._removed:
            raise os_error(errno.ESTALE, opened.path)
        return opened

    def _folder_of(self, handle: int) -> VirtualFolder:
        opened = self._open_of(handle)
        if not isinstance(opened.node, VirtualFolder):
            raise os_error(errno.ENOTDIR, opened.path)
        return opened.node

    def _base(self, within: int | None) -> VirtualFolder | None:
        return None if within is None else self._folder_of(within)

    def _place(self, path: str | Path, within: int | None) -> tuple[VirtualFolder, str]:
        """Return the folder and the last name of a path."""
        base = self._base(within) if not posixpath.isabs(path) else None
        *above, name = parts_of(path)
        return self._walk(above, base), name

    # --- Files

    def _find(self, path: str | Path, flags: int, mode: int, within: int | None, whole: str) -> OpenNode:
        if flags & os.O_DIRECTORY or not parts_of(path):
            found = self._walk(parts_of(path), self._base(within))
            self._forget_names(found)
            return OpenNode(found, whole)
        folder, name = self._place(path, within)
        if not flags & os.O_CREAT and self._remembers_missing(folder, name):
            raise os_error(errno.ENOENT, whole)
        node = folder.entries.get(name)
        if node is None:
            node = self._created(folder, name, flags, mode)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise os_error(errno.EEXIST, whole)
        return self._open_node(node, whole, flags)

    def _created(self, folder: VirtualFolder, name: str, flags: int, mode: int) -> VirtualFile:
        if not flags & os.O_CREAT:
            raise os_error(errno.ENOENT, name)
        made = self.disk.new_file(folder, name, mode & ~0o022)
        self._forget(folder, name)
        return made

    def _open_node(self, node: Node, path: str, flags: int) -> OpenNode:
        writes = bool(flags & WRITABLE)
        if isinstance(node, VirtualFolder):
            if writes:
                raise os_error(errno.EISDIR, path)
            return OpenNode(node, path)
        if flags & os.O_TRUNC:
            self._forget_attributes(node)
            node.content, node.dropped = b"", False
            self._unsent.pop(node.number, None)
        return OpenNode(node, path, writes, self._content(node), not writes or bool(flags & os.O_RDWR))

    def _content(self, file: VirtualFile) -> bytes:
        """Return the content as this client sees it: with what it has not sent yet."""
        return bytes(self._unsent.get(file.number, file.content))

    def _send(self, file: VirtualFile) -> None:
        written = self._unsent.pop(file.number, None)
        if written is not None:
            file.content = bytes(written)

    def _stat(self, node: Node) -> os.stat_result:
        size = len(self._content(node)) if isinstance(node, VirtualFile) else 0
        links = node.links if isinstance(node, VirtualFile) else 2
        return os.stat_result((node.mode, node.number, DEVICE, links, 0, 0, size, 0, 0, 0))

    def _remove(self, path: str | Path, within: int | None, *, is_folder: bool) -> None:
        folder, name = self._place(path, within)
        self._forget(folder, name)
        node = self.disk.find(folder, name)
        self.disk.remove(folder, name, is_folder=is_folder)
        self._own_removal(node)

    def _own_removal(self, node: Node | None) -> None:
        if node is not None:
            self._removed.add(node.number)
            self._forget_attributes(node)

    # --- What a network client remembers

    def _walk(self, names: Iterable[str], within: VirtualFolder | None) -> VirtualFolder:
        """Find a folder. A client that has walked through a folder no longer remembers that it was missing."""
        above = self.disk.root if within is None else within
        for name in names:
            found = self.disk.folder_at(name, above)
            if self._cache.attributes.get((above.number, name), (found, 0))[0] is None:
                del self._cache.attributes[above.number, name]
            above = found
        return above

    def _remembers_missing(self, folder: VirtualFolder, name: str) -> bool:
        known = self._cache.attributes.get((folder.number, name))
        if known is None or known[0] is not None or not self._cache.stale(known[1]):
            return False
        self._cache.attributes[folder.number, name] = None, known[1] - 1
        return True

    def _forget(self, folder: VirtualFolder, name: str) -> None:
        """A client knows of its own changes."""
        self._cache.attributes.pop((folder.number, name), None)
        self._cache.listings.pop(folder.number, None)

    def _forget_names(self, folder: VirtualFolder) -> None:
        """A client asks the server when it opens a folder."""
        for place in [place for place in self._cache.attributes if place[0] == folder.number]:
            del self._cache.attributes[place]
        self._cache.listings.pop(folder.number, None)

    def _forget_attributes(self, node: Node) -> None:
        known = self._cache.attributes
        for place in [p for p, (found, _) in known.items() if found is not None and found.st_ino == node.number]:
            del known[place]


def _kind(node: Node) -> EntryKind:
    return EntryKind.FOLDER if isinstance(node, VirtualFolder) else EntryKind.FILE
