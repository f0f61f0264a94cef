"""Which files of a folder a source of files reads, and which entries it skips. Imports no Arrow.

The set of files is fixed when a job first starts, as part of the job's state. A file that is added
later is in no checkpoint, so the job does not read it. This module finds such files: it lists a
folder once and opens no file.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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


class Passed(StrEnum):
    """Why an entry of an input folder is not read."""

    HIDDEN = "hidden"
    FOLDER = "sub-folder"
    ENDING = f"not *{SUFFIX}"
    ANOTHER_ENDING = "another ending"


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of the files to read, sorted, and of the skipped entries, each with its reason."""

    files: tuple[str, ...]
    passed: tuple[tuple[str, Passed], ...] = ()


def list_input(folder: Path, kind: str = "parquet") -> Listing:
    """List a folder that a source of ``kind`` reads. Blocking; raises OSError when it cannot be listed."""
    files: list[str] = []
    passed: list[tuple[str, Passed]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            reason = _passed(entry, kind)
            if reason is None:
                files.append(entry.name)
            else:
                passed.append((entry.name, reason))
    return Listing(tuple(sorted(files)), tuple(sorted(passed)))


def _passed(entry: "os.DirEntry[str]", kind: str) -> Passed | None:
    if entry.name.startswith(HIDDEN):
        return Passed.HIDDEN
    if entry.is_dir():
        return Passed.FOLDER
    if entry.name.endswith(SUFFIXES[kind]):
        return None
    return Passed.ENDING if kind == "parquet" else Passed.ANOTHER_ENDING


def look_at(path: Path, known: Collection[str], kind: str = "parquet") -> InputSeen:
    """Compare a folder with a job's ``known`` files: return the new files and the skipped entries.

    All names are counted; the first ``INPUT_NAMES_SHOWN_MAX`` are returned. Blocking; raises
    OSError.
    """
    if not path.is_dir():
        return InputSeen(str(path), len(known))
    found = list_input(path, kind)
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
    return tuple(f"{name} ({why})" for name, why in found.passed[:INPUT_NAMES_SHOWN_MAX])


def nothing_to_read(found: Listing, kind: str = "parquet") -> str | None:
    """Return why a folder has no input, with what is in it; None when there is a file to read."""
    if found.files:
        return None
    if not found.passed:
        return f"has no *{SUFFIXES[kind][0]} file: it is empty"
    shown = ", ".join(spell_passed(found))
    more = len(found.passed) - INPUT_NAMES_SHOWN_MAX
    return f"has no *{SUFFIXES[kind][0]} file; passed over: {shown}" + (f" and {more} more" if more > 0 else "")
