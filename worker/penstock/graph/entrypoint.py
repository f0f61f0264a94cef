"""User code by name: ``package.module:function``, ``job.script``. Errors show the user's line."""

import importlib
import linecache
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.user_code import named, user_frames, user_traceback
from penstock.graph.draft import short_path

SCRIPT_MODULE = "penstock_job_script"
SCRIPT_FUNCTION = "job"


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
        raise ConfigError(f"{place}: importing {module!r} failed: {told(error)}") from error
    except BaseException as error:  # sys.exit() too: a module of a job is no script
        raise ConfigError(f"{place}: importing {module!r} failed: {told(error)}") from error


def run_script(source: str, place: str) -> Callable[..., object]:
    """Run ``job.script`` as a module and return its function ``job``.

    ``place`` is ``file:line`` of its first line, so that tracebacks name lines of that file.
    """
    file, _, line = place.rpartition(":")
    first = int(line) if line.isdigit() else 1
    module = ModuleType(SCRIPT_MODULE)
    sys.modules[SCRIPT_MODULE] = module
    lined = "\n" * (first - 1) + source
    # A traceback shows these lines, also where the file itself is not.
    linecache.cache[file or place] = (len(lined), None, lined.splitlines(keepends=True), file)
    try:
        code = compile(lined, file or place, "exec")
        exec(code, vars(module))
    except SyntaxError as error:
        where = f"{file or place}:{error.lineno}"
        raise ConfigError(f"{where}: job.script: {error.msg}") from error
    except BaseException as error:  # sys.exit() too
        raise ConfigError(f"{place}: job.script failed: {told(error)}") from error
    function = getattr(module, SCRIPT_FUNCTION, None)
    if not callable(function):
        raise ConfigError(f"{place}: job.script defines no function {SCRIPT_FUNCTION}(params)")
    return function  # type: ignore[no-any-return]


def told(error: BaseException) -> str:
    """Say which line of user code raised, and what, and show the user's frames below it."""
    trace = "" if isinstance(error, SyntaxError) else user_traceback(error)
    return user_line(error) + (f"\n{trace}" if trace else "")


def user_line(error: BaseException) -> str:
    """Say which line of user code raised, and what: ``jobs.py:7 (in build): ValueError: ...``."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short_path(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = user_frames(error)
    if not frames:
        return named(error)
    last = frames[-1]
    inside = "" if last.name == "<module>" else f" (in {last.name})"
    return f"{short_path(last.filename)}:{last.lineno}{inside}: {named(error)}"
