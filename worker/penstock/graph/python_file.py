"""A Python file as a job file: ``penstock run job.py``.

The file is read as a StreamJob whose ``job.script`` is its text, so that engines run what was read at
the start. Its job is the function ``job(params)``, or the one ``ps.Job`` at its top level.
"""

import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

from penstock.base.errors import ConfigError
from penstock.base.os_errors import unreadable
from penstock.base.user_code import short_path
from penstock.contract.reader import Origin
from penstock.contract.schema import Plain
from penstock.graph.builder import Job
from penstock.graph.parameters import Parameters

SUFFIX = ".py"
FUNCTION = "job"
_REMEDY = "write a function job(params) that returns the ps.Job, or make one ps.Job"


def read_python_file(path: Path) -> tuple[Plain, Origin]:
    """Read a Python file as a StreamJob named after it. Raises ConfigError or StorageError that names the file."""
    try:
        source = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no text in UTF-8: {error}") from error
    name = re.sub("[^a-z0-9]+", "-", path.stem.lower()).strip("-")
    plain: Plain = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": name},
        "spec": {"job": {"script": source}},
    }
    file = short_path(str(path))
    return plain, Origin(file, {"": f"{file}:1"})


def is_python(file: str) -> bool:
    """Return whether a file is read as Python."""
    return file.endswith(SUFFIX)


def job_of(module: ModuleType, place: str) -> Callable[[Parameters], object]:
    """Return what builds the job of a file that was run. Raises ConfigError unless it has one.

    ``place`` is the ``file:line`` of its first line.
    """
    file = place.rpartition(":")[0]
    found: dict[int, tuple[str, object, str]] = {}
    for name, value in vars(module).items():
        if name == FUNCTION and callable(value):
            found[id(value)] = (f"{name}()", value, _defined_at(value, file))
        elif isinstance(value, Job):
            found.setdefault(id(value), (name, value, value.place))
    if not found:
        raise ConfigError(f"{place}: the file defines no job: {_REMEDY}")
    if len(found) > 1:
        *_, last = found.values()
        named = ", ".join(f"{name} at {where}" for name, _, where in found.values())
        raise ConfigError(f"{last[2]}: the file defines more than one job: {named}")
    ((_, value, where),) = found.values()
    return _builder(value, where)


def _defined_at(function: object, file: str) -> str:
    line = function.__code__.co_firstlineno if isinstance(function, FunctionType) else 1
    return f"{file}:{line}"


def _builder(value: object, where: str) -> Callable[[Parameters], object]:
    if callable(value):
        return value

    def build(params: Parameters) -> object:
        if len(params):
            names = ", ".join(params)
            raise ConfigError(f"{where}: this job takes no parameters ({names}): only a function job(params) does")
        return value

    return build
