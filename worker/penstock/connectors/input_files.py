"""Which files of a folder a Parquet source reads, and which entries it passes over. No Arrow.

The set of files is fixed when a job first starts: it is part of the job's state. A file that comes
later is in no checkpoint, so nobody reads it. This module is what finds such files: it lists a
folder once, and opens nothing.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from penstock.base.limits import INPUT_NAMES_SHOWN_MAX
from penstock.contract.inputs import InputSeen

SUFFIX = ".parquet"
HIDDEN = (".", "_")


class Passed(StrEnum):
    """Why an entry of an input folder is not read."""

    HIDDEN = "hidden"
    FOLDER = "sub-folder"
    ENDING = f"not *{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The names that are read, sorted, and those that are passed over, each with its reason."""

    files: tuple[str, ...]
    passed: tuple[tuple[str, Passed], ...] = ()


def list_input(folder: Path) -> Listing:
    """List a folder. Blocking; raises OSError when it cannot be listed."""
    files: list[str] = []
    passed: list[tuple[str, Passed]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            reason = _passed(entry)
            if reason is None:
                files.append(entry.name)
            else:
                passed.append((entry.name, reason))
    return Listing(tuple(sorted(files)), tuple(sorted(passed)))


def _passed(entry: "os.DirEntry[str]") -> Passed | None:
    if entry.name.startswith(HIDDEN):
        return Passed.HIDDEN
    if entry.is_dir():
        return Passed.FOLDER
    return None if entry.name.endswith(SUFFIX) else Passed.ENDING


def look_at(path: Path, known: Collection[str]) -> InputSeen:
    """Compare a folder with the files that a job ``known``: which came later, what is passed over.

    Of many names the first ``INPUT_NAMES_SHOWN_MAX`` are kept, and all are counted. Blocking;
    raises OSError.
    """
    if not path.is_dir():
        return InputSeen(str(path), len(known))
    found = list_input(path)
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
    """Spell the first entries that are passed over, each with its reason."""
    return tuple(f"{name} ({why})" for name, why in found.passed[:INPUT_NAMES_SHOWN_MAX])


def nothing_to_read(found: Listing) -> str | None:
    """Say why a folder has no input, naming what is in it; None when there is a file to read."""
    if found.files:
        return None
    if not found.passed:
        return f"has no *{SUFFIX} file: it is empty"
    shown = ", ".join(spell_passed(found))
    more = len(found.passed) - INPUT_NAMES_SHOWN_MAX
    return f"has no *{SUFFIX} file; passed over: {shown}" + (
        f" and {more} more" if more > 0 else ""
    )
