"""Which files of an output folder are a job's own: by the mark of its owner and by their names.

No Arrow: what the command line looks at, and ``run --fresh`` removes, without a sink being opened.
A folder that was taken over from another job holds that one's files up to an epoch: they stay.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import PeerError
from penstock.contract.codec import parsed

STAGING = "_staging"
OWNER = "OWNER.json"  # of a Parquet sink, in its staging folder
REPORT_OWNER = "OWNER"  # of the reports of a discard sink
SUFFIXES = {"parquet": ".parquet", "discard": ".json"}
STAGED = "*.part"


@dataclass(frozen=True, slots=True)
class OutputMark:
    """Whose output a folder is. Files of epochs up to ``after`` are of the job before."""

    job_uid: str
    after: int = 0


def plain_step(step: str) -> str:
    """Return a step's name as it is part of file names."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", step)


def published_name(step: str, kind: str) -> re.Pattern[str]:
    """Return what the names of published files of a sink step look like; group 1 is the epoch."""
    name, end = re.escape(plain_step(step)), re.escape(SUFFIXES[kind])
    return re.compile(rf"(\d{{12,}})-{name}-\d{{3,}}\.\d{{4,}}\.\d{{4,}}-\d{{6,}}-\d{{4,}}{end}")


def mark_of(folder: Path, kind: str) -> OutputMark | None:
    """Read the mark of an output folder; None where there is none."""
    try:
        if kind == "discard":
            return OutputMark((folder / REPORT_OWNER).read_text())
        plain = parsed((folder / STAGING / OWNER).read_text())
        after = plain.get("after") or {"epoch": 0}
        return OutputMark(str(plain["job_uid"]), int(after["epoch"]))
    except (OSError, PeerError, ValueError, KeyError, TypeError, AttributeError):
        return None


def own_files(folder: Path, kind: str, step: str, job_uid: str) -> list[Path] | None:
    """List the published files of a sink step; None where the folder is not this job's."""
    mark = mark_of(folder, kind)
    if mark is None or mark.job_uid != job_uid:
        return None
    name = published_name(step, kind)
    found = [(name.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted(p for match, p in found if match and int(match[1]) > mark.after and p.is_file())


def epoch_of(file: Path) -> int:
    """Return the epoch with which a published file was committed."""
    return int(file.name.split("-", 1)[0])


def own_staging(folder: Path, step: str, job_uid: str) -> list[Path]:
    """List what a sink step of a job has staged and not published, or not yet forgotten."""
    staging, name = folder / STAGING, plain_step(step)
    places = (staging, staging / job_uid)
    return [f for place in places if place.is_dir() for f in place.glob(f"*-{name}-{STAGED}")]
