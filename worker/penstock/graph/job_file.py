"""Reads a job file, applies ``--set``, and keeps a copy for engines.

The same reader reads YAML, JSON, a Python file and a kept copy. The kept copy is the job after ``--set`` as JSON.
Engines compile it. A second file has the place of every value in the user's file, so that errors
still name lines of the user's file.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.errors import ConfigError, PeerError
from penstock.base.os_errors import unreadable
from penstock.contract.codec import parsed
from penstock.contract.job_reader import SET, override, read_stream_job
from penstock.contract.reader import Origin
from penstock.contract.schema import Plain
from penstock.contract.streamjob import StreamJob
from penstock.graph.python_file import is_python, read_python_file
from penstock.graph.yaml_file import read_yaml_file


@dataclass(frozen=True, slots=True)
class JobFile:
    """A StreamJob, and the place of each value. User modules are searched for in ``folders``."""

    job: StreamJob
    plain: Plain
    origin: Origin = field(default_factory=Origin)
    folders: tuple[Path, ...] = ()


def read_job_file(path: Path, settings: Sequence[str] = (), *, cluster: bool = False) -> JobFile:
    """Read a file and apply ``--set`` texts in order. Raises ConfigError with file and line; StorageError.

    With ``cluster`` the file must also have all that the API server requires.
    """
    read = read_python_file if is_python(path.name) else read_yaml_file
    plain, origin = read(path)
    folder = path.absolute().parent
    kept = _read_places(_places_path(path))
    if kept is not None:
        origin, folder = kept
    places = dict(origin.places)
    for setting in settings:
        plain, where = override(plain, setting)
        places[where] = SET + setting
    origin = Origin(origin.file, places)
    folders = tuple(dict.fromkeys((folder, Path.cwd())))
    return JobFile(read_stream_job(plain, origin, cluster=cluster), plain, origin, folders)


def keep_job_file(file: JobFile, path: Path) -> None:
    """Write the job as JSON to ``path``, and the places of its values to a file in the same folder.

    A new folder has mode 0700. Raises ConfigError if the folder cannot be created.
    """
    places = {
        "file": file.origin.file,
        "folder": str(file.folders[0]) if file.folders else "",
        "places": dict(file.origin.places),
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--dir: {path.parent}: {error.strerror}") from error
    _places_path(path).write_text(json.dumps(places, indent=1), encoding="utf-8")
    path.write_text(json.dumps(file.plain, indent=1), encoding="utf-8")


def _places_path(path: Path) -> Path:
    return path.with_name(path.stem + ".places.json")


def _read_places(path: Path) -> tuple[Origin, Path] | None:
    if not path.exists():
        return None
    try:
        kept = parsed(path.read_text(encoding="utf-8"))
        return Origin(kept["file"], kept["places"]), Path(kept["folder"] or ".")
    except OSError as error:
        raise unreadable(path, error) from error
    except (PeerError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
