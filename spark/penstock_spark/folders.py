"""Folders of Parquet files, and a marker that says which dataset a folder has.

A folder that this package writes has a file ``_dataset.json``. It is written first with ``complete``
false, and at the end with true. After a crash the next run sees an incomplete dataset and writes it
again. A folder without the marker belongs to the user and is never emptied.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.contract.codec import parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUFFIX = ".parquet"
MARKER = "_dataset.json"
INCOMPLETE = "_incomplete"
ROW_GROUP_ROWS = 65_536  # of files that are drawn from a seed


def parquet_files(folder: Path) -> list[Path]:
    """List the Parquet files of a folder by name, without hidden files (``.`` or ``_`` first).

    Raises ConfigError if the folder does not exist or has no such file.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}: name an existing one")
    found = sorted(p for p in folder.iterdir() if is_visible(p.name) and p.is_file())
    if not found:
        raise ConfigError(f"no *{SUFFIX} file in {folder}: name the folder that holds them")
    return found


def is_visible(name: str) -> bool:
    """Return whether a reader treats a file of this name as data."""
    return name.endswith(SUFFIX) and not name.startswith((".", "_"))


def demand_columns(files: Iterable[Path], columns: Sequence[str]) -> None:
    """Read every footer. Raises ConfigError for a missing column, StateError for a damaged file.

    Spark itself would read nulls for a missing column, and the comparison would be wrong.
    """
    for file in files:
        try:
            found = pq.read_schema(file).names
        except (OSError, pa.ArrowInvalid) as error:
            raise StateError(f"{file} cannot be read as Parquet: {error}") from error
        missing = [c for c in columns if c not in found]
        if missing:
            raise ConfigError(f"{file} has no column {missing[0]!r}: it has {', '.join(found)}")


def read_marker(folder: Path) -> dict[str, Any] | None:
    """Return the marker of a complete dataset, or None."""
    try:
        marker: dict[str, Any] = parsed((folder / MARKER).read_text())
    except FileNotFoundError:
        return None
    except (PeerError, UnicodeError) as error:
        raise ConfigError(f"{folder / MARKER} is damaged: remove the folder and try again") from error
    return marker


def is_current(folder: Path, request: Mapping[str, Any]) -> bool:
    """Return whether the folder has the complete dataset of exactly this request."""
    marker = read_marker(folder)
    if marker is None or not marker.get("complete") or marker.get("request") != dict(request):
        return False
    sizes: dict[str, int] = marker["files"]
    found = {p.name: p.stat().st_size for p in folder.iterdir() if is_visible(p.name)}
    return found == sizes


def begin(folder: Path, request: Mapping[str, Any], *, replace: bool) -> Path:
    """Prepare the folder and return the subfolder for unfinished files.

    Raises ConfigError if the folder has another complete dataset (unless ``replace``), or files that
    this package did not write (always).
    """
    folder.mkdir(parents=True, exist_ok=True)
    marker = read_marker(folder)
    if marker is None and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no dataset of Penstock: name a new folder")
    if marker is not None and marker.get("complete") and not replace:
        raise ConfigError(f"{folder} holds another dataset: name a new folder, or give --replace to write it anew")
    _write_marker(folder, {"complete": False, "request": dict(request)})
    for old in folder.iterdir():
        if is_visible(old.name):
            old.unlink()
    unfinished = folder / INCOMPLETE
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    return unfinished


def finish(folder: Path, request: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    """Move the finished files into place and write the marker last; return the marker."""
    unfinished = folder / INCOMPLETE
    for part in sorted(unfinished.iterdir()):
        part.rename(folder / part.name)
    unfinished.rmdir()
    sizes = {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if is_visible(p.name)}
    marker = {"complete": True, "request": dict(request), **summary, "files": sizes}
    _write_marker(folder, marker)
    return marker


def write_parts(
    spark: "SparkSession",
    folder: Path,
    request: Mapping[str, Any],
    rows_of: Callable[[int], pa.Table],
    *,
    replace: bool,
) -> dict[str, Any]:
    """Write the dataset of a request, and return its marker. Part ``n`` has the rows ``rows_of(n)``.

    The request has the numbers of ``rows`` and ``files``. Spark calls ``rows_of`` for several parts at a time, so it
    must depend on nothing but ``n``. Raises ConfigError as ``begin`` does.
    """
    unfinished = begin(folder, request, replace=replace)
    numbers = range(request["files"])
    spark.sparkContext.parallelize(numbers, len(numbers)).foreachPartition(
        partial(_write_some, str(unfinished), rows_of)
    )
    return finish(folder, request, {"rows": request["rows"]})


def part_rows(rows: int, files: int, number: int) -> int:
    """Return how many of all ``rows`` are in part ``number``."""
    return rows // files + (number < rows % files)


def _write_some(folder: str, rows_of: Callable[[int], pa.Table], numbers: Iterator[int]) -> None:
    for number in numbers:
        pq.write_table(rows_of(number), Path(folder, f"part-{number:05d}{SUFFIX}"), row_group_size=ROW_GROUP_ROWS)


def _write_marker(folder: Path, marker: Mapping[str, Any]) -> None:
    temporary = folder / f"{MARKER}.new"
    with temporary.open("w") as file:
        json.dump(marker, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / MARKER)
