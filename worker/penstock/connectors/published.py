"""Which files of an output folder belong to a job: told by the owner file and by their names.

The module imports no Arrow and opens no sink: the command line lists these files, and
``run --fresh`` removes them. A folder that was taken over from another job also has that job's files
up to an epoch; they stay.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError, PeerError
from penstock.contract.codec import parsed
from penstock.file_system import OS_FILES, is_no_folder, read_plain

STAGING = "_staging"
OWNER = "OWNER.json"  # names the owner of a file sink, in its staging folder
OWNER_BYTES_MAX = 4096
REPORT_OWNER = "OWNER"  # names the owner of the reports of a discard sink
SUFFIXES = {"parquet": ".parquet", "json": ".jsonl", "csv": ".csv", "discard": ".json"}
FILE_KINDS = ("parquet", "json", "csv")  # sinks that share one kind of output folder
FILE_SUFFIXES = tuple(SUFFIXES[kind] for kind in FILE_KINDS)
STAGED = "*.part"


@dataclass(frozen=True, slots=True)
class OutputMark:
    """The owner of an output folder. Files of epochs up to ``after`` belong to the job before."""

    job_uid: str
    after: int = 0


def plain_step(step: str) -> str:
    """Return a step's name in the form used in file names."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", step)


def published_name(step: str, kind: str) -> re.Pattern[str]:
    """Return the pattern of the names of a sink step's published files; group 1 is the epoch."""
    name, end = re.escape(plain_step(step)), re.escape(SUFFIXES[kind])
    return re.compile(rf"(\d{{12,}})-{name}-\d{{3,}}\.\d{{4,}}\.\d{{4,}}-\d{{6,}}-\d{{4,}}{end}")


def mark_of(folder: Path, kind: str) -> OutputMark | None:
    """Read the owner of an output folder; None when it has none."""
    try:
        if kind == "discard":
            return OutputMark(_owner_in(folder / REPORT_OWNER))
        if is_no_folder(OS_FILES, folder / STAGING):
            return None  # a link, which leads to files of others
        plain = parsed(_owner_in(folder / STAGING / OWNER))
        after = plain.get("after") or {"epoch": 0}
        return OutputMark(str(plain["job_uid"]), int(after["epoch"]))
    except (OSError, ConfigError, PeerError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _owner_in(file: Path) -> str:
    return read_plain(OS_FILES, file, OWNER_BYTES_MAX).decode()


def own_files(folder: Path, kind: str, step: str, job_uid: str) -> list[Path] | None:
    """List the published files of a sink step; None when the folder belongs to another job."""
    mark = mark_of(folder, kind)
    if mark is None or mark.job_uid != job_uid:
        return None
    name = published_name(step, kind)
    found = [(name.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted(p for match, p in found if match and int(match[1]) > mark.after and p.is_file())


def epoch_of(file: Path) -> int:
    """Return the committed epoch in the name of a published file."""
    return int(file.name.split("-", 1)[0])


def own_staging(folder: Path, step: str, job_uid: str) -> list[Path]:
    """List the staged files of a job's sink step that are not yet published, or not yet removed."""
    staging, name = folder / STAGING, plain_step(step)
    places = (staging, staging / job_uid)
    return [f for place in places if place.is_dir() for f in place.glob(f"*-{name}-{STAGED}")]
