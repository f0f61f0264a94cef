"""Which files of a folder a source of files reads, and which entries it skips. Imports no Arrow.

A folder is one of a disk, or of a store of objects that gives the same methods as a path (:class:`InputPath`).

The set of files is fixed when a job first starts, as part of the job's state. A file that is added
later is in no checkpoint, so the job does not read it. This module finds such files: it lists a
folder once and opens no file.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Literal, Protocol, runtime_checkable
from urllib.parse import unquote

from penstock.base.limits import INPUT_NAMES_SHOWN_MAX
from penstock.contract.status import InputSeen

SUFFIX = ".parquet"
PACKED = ("", ".gz", ".zst")
SUFFIXES = {
    "parquet": (SUFFIX,),
    "json": tuple(end + packed for end in (".jsonl", ".ndjson", ".json") for packed in PACKED),
    "csv": tuple(".csv" + packed for packed in PACKED),
}
HIDDEN = (".", "_")


class HasSize(Protocol):
    """What ``stat`` returns."""

    @property
    def st_size(self) -> int:
        """Return the number of bytes."""
        ...


class InputPath(Protocol):
    """A folder or file of input: what a source uses of :class:`pathlib.Path`."""

    @property
    def name(self) -> str:
        """Return its last part."""
        ...

    @property
    def suffix(self) -> str:
        """Return the end of its name, with the dot."""
        ...

    def __truediv__(self, name: str, /) -> "InputPath":
        """Return a file of the folder."""
        ...

    def is_file(self) -> bool:
        """Return whether it is a file."""
        ...

    def is_dir(self) -> bool:
        """Return whether it is a folder."""
        ...

    def stat(self) -> HasSize:
        """Look at a file. Raises FileNotFoundError."""
        ...

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open a file that can be read at any place. Raises FileNotFoundError."""
        ...


@runtime_checkable
class StoredPath(Protocol):
    """An :class:`InputPath` in a store that tells versions of an object apart."""

    def entries(self) -> list[tuple[str, bool]]:
        """List the folder: names, and whether each is a sub-folder."""
        ...

    def names(self) -> list[str]:
        """List all files of the folder and of the folders in it, by their paths from there."""
        ...

    def version(self) -> str:
        """Return what names the present content of a file. Raises FileNotFoundError."""
        ...

    def pinned(self, version: str) -> InputPath:
        """Return the file such that all that is read is of this version. Reading raises StateError otherwise."""
        ...


def version_of(file: InputPath) -> str:
    """Return the version of a stored file, empty for one of a disk. Raises FileNotFoundError."""
    return file.version() if isinstance(file, StoredPath) else ""


def pinned(file: InputPath, version: str) -> InputPath:
    """Return the file such that only this version of it is read; one of a disk as it is."""
    return file.pinned(version) if isinstance(file, StoredPath) else file


class Passed(StrEnum):
    """Why an entry of an input folder is not read."""

    HIDDEN = "hidden"
    FOLDER = "sub-folder"
    ENDING = f"not *{SUFFIX}"
    ANOTHER_ENDING = "another ending"
    MISPLACED = "not in the folders of partitionBy"
    NO_TEXT = "its name is no UTF-8"


REFUSED = (Passed.MISPLACED, Passed.NO_TEXT)  # files that have rows: a folder with one cannot be read


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of the files to read, sorted, and of the skipped entries, each with its reason."""

    files: tuple[str, ...]
    passed: tuple[tuple[str, Passed], ...] = ()


def list_input(folder: InputPath, kind: str = "parquet", by: Sequence[str] = ()) -> Listing:
    """List a folder that a source of ``kind`` reads. Blocking; raises OSError when it cannot be listed.

    With ``by`` the files are in folders like ``year=2026/month=11``, and are named by their paths from ``folder`` on.
    """
    files: list[str] = []
    passed: list[tuple[str, Passed]] = []
    for name, is_folder in ((name, False) for name in _names(folder)) if by else _entries(folder):
        reason = _passed(name, kind, is_folder=is_folder)
        if reason is None and shown(name) != name:
            reason = Passed.NO_TEXT
        if reason is None and by and misplaced(name, by):
            reason = Passed.MISPLACED
        if reason is None:
            files.append(name)
        else:
            passed.append((name, reason))
    return Listing(tuple(sorted(files)), tuple(sorted(passed)))


def shown(name: str) -> str:
    """Return the name of a file for people, who may not have all bytes of it: Arrow and terminals take UTF-8 only."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _entries(folder: InputPath) -> list[tuple[str, bool]]:
    if isinstance(folder, StoredPath):
        return folder.entries()
    with os.scandir(str(folder)) as entries:
        return [(entry.name, entry.is_dir()) for entry in entries]


def _names(folder: InputPath) -> list[str]:
    """List all files below a folder. Hidden folders are not entered."""
    if isinstance(folder, StoredPath):
        return folder.names()
    found, root = [], str(folder)
    for place, folders, files in os.walk(root, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(HIDDEN)]
        found += [os.path.relpath(os.path.join(place, name), root) for name in files]
    return found


def _raise(error: OSError) -> None:
    raise error


def misplaced(file: str, by: Sequence[str]) -> str | None:
    """Return what is wrong with the folders of a file, None when they are ``NAME=VALUE`` for each name of ``by``."""
    *folders, _ = file.split("/")
    wanted = "/".join(f"{name}=..." for name in by)
    for folder, name in zip(folders, by, strict=False):
        found, equals, value = folder.partition("=")
        if not equals or unquote(found) != name or not value:
            return f"its folder {folder!r} is no {name}=VALUE (partitionBy wants {wanted})"
    if len(folders) < len(by):
        return f"it is in no folder {by[len(folders)]}=VALUE (partitionBy wants {wanted})"
    if len(folders) > len(by):
        return f"its folder {folders[len(by)]!r} is below {wanted}: name all folders in partitionBy"
    return None


def folder_names(partition_by: object) -> tuple[str, ...]:
    """Return the names in an option ``partitionBy``, none when it is not given."""
    return tuple(name.strip() for name in partition_by.split(",")) if isinstance(partition_by, str) else ()


def _passed(name: str, kind: str, *, is_folder: bool) -> Passed | None:
    if any(part.startswith(HIDDEN) for part in name.split("/")):
        return Passed.HIDDEN
    if is_folder:
        return Passed.FOLDER
    if name.endswith(SUFFIXES[kind]):
        return None
    return Passed.ENDING if kind == "parquet" else Passed.ANOTHER_ENDING


def look_at(path: InputPath, known: Collection[str], kind: str = "parquet", by: Sequence[str] = ()) -> InputSeen:
    """Compare a folder with a job's ``known`` files: return the new files and the skipped entries.

    All names are counted; the first ``INPUT_NAMES_SHOWN_MAX`` are returned. Blocking; raises
    OSError.
    """
    if not path.is_dir():
        return InputSeen(str(path), len(known))
    found = list_input(path, kind, by)
    unread = [name for name in found.files if name not in known]
    return InputSeen(
        str(path),
        len(known),
        len(unread),
        tuple(unread[:INPUT_NAMES_SHOWN_MAX]),
        len(found.passed),
        spell_passed(found),
    )


def spell_passed(found: Listing) -> tuple[str, ...]:
    """Return the first skipped entries as texts, each with its reason."""
    return tuple(f"{shown(name)} ({why})" for name, why in found.passed[:INPUT_NAMES_SHOWN_MAX])


def nothing_to_read(found: Listing, kind: str = "parquet", by: Sequence[str] = ()) -> str | None:
    """Return why a folder is no input, with what is in it; None when there is a file to read, and all can be read."""
    for name, why in found.passed:
        if why is Passed.MISPLACED:
            return f"has the file {name}: {misplaced(name, by)}: move it, or correct partitionBy"
        if why is Passed.NO_TEXT:
            return f"has the file {shown(name)}: {why}: rename it"
    if found.files:
        return None
    if not found.passed:
        return f"has no *{SUFFIXES[kind][0]} file: it is empty"
    told = ", ".join(spell_passed(found))
    more = len(found.passed) - INPUT_NAMES_SHOWN_MAX
    return f"has no *{SUFFIXES[kind][0]} file; passed over: {told}" + (f" and {more} more" if more > 0 else "")
