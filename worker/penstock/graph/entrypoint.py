"""User code by name: ``package.module:function``, ``job.script``. Errors show the user's line."""

import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.graph.draft import short_path

SCRIPT_MODULE = "penstock_job_script"
SCRIPT_FUNCTION = "job"
_PENSTOCK = str(Path(__file__).parent.parent)


def add_folders(folders: Sequence[Path]) -> None:
    """Let imports find the folder of the job's file and the working directory, in this order."""
    for folder in reversed(folders):
        text = str(folder)
        if text in sys.path:
            sys.path.remove(text)
        sys.path.insert(0, text)


def resolve(reference: str, place: str) -> Callable[..., object]:
    """Import ``package.module:qualified.name``; ``place`` begins every message.

    Raises ConfigError: no such module, the module fails (with the user's line), no such name.
    """
    module_name, _, names = reference.partition(":")
    found: object = _import(module_name, reference, place)
    for name in names.split("."):
        known = (
            [n for n in vars(found) if not n.startswith("_")] if hasattr(found, "__dict__") else []
        )
        if not hasattr(found, name):
            raise ConfigError(f"{place}: {reference!r}: {unknown('name', name, known)}")
        found = getattr(found, name)
    if not callable(found):
        raise ConfigError(f"{place}: {reference!r} is no function but {type(found).__name__}")
    return found


def _import(module: str, reference: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            looked = ", ".join(p or "." for p in sys.path[:2])
            raise ConfigError(
                f"{place}: {reference!r}: there is no module {error.name!r} "
                f"(looked in {looked} and the environment)"
            ) from error
        raise ConfigError(f"{place}: importing {module!r} failed: {user_line(error)}") from error
    except Exception as error:
        raise ConfigError(f"{place}: importing {module!r} failed: {user_line(error)}") from error


def run_script(source: str, place: str) -> Callable[..., object]:
    """Run ``job.script`` as a module and return its function ``job``.

    ``place`` is ``file:line`` of its first line, so that tracebacks name lines of that file.
    """
    file, _, line = place.rpartition(":")
    first = int(line) if line.isdigit() else 1
    module = ModuleType(SCRIPT_MODULE)
    sys.modules[SCRIPT_MODULE] = module
    try:
        code = compile("\n" * (first - 1) + source, file or place, "exec")
        exec(code, vars(module))
    except SyntaxError as error:
        where = f"{file or place}:{error.lineno}"
        raise ConfigError(f"{where}: job.script: {error.msg}") from error
    except Exception as error:
        raise ConfigError(f"{place}: job.script failed: {user_line(error)}") from error
    function = getattr(module, SCRIPT_FUNCTION, None)
    if not callable(function):
        raise ConfigError(f"{place}: job.script defines no function {SCRIPT_FUNCTION}(params)")
    return function  # type: ignore[no-any-return]


def user_line(error: BaseException) -> str:
    """Say which line of user code raised, and what: ``jobs.py:7 (in build): ValueError: ...``."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short_path(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    if not frames:
        return what
    last = frames[-1]
    inside = "" if last.name == "<module>" else f" (in {last.name})"
    return f"{short_path(last.filename)}:{last.lineno}{inside}: {what}"


def _is_users(file: str) -> bool:
    return not file.startswith(("<frozen", _PENSTOCK))
