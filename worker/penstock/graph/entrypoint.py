"""Loads user code: ``package.module:function`` or ``job.script``. Errors show the user's line."""

import importlib
import linecache
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.user_code import user_line, user_traceback

SCRIPT_MODULE = "penstock_job_script"
SCRIPT_FUNCTION = "job"
_TAKEN = sys.stdlib_module_names - {"test"} | {"penstock"}  # nobody needs Python's own tests


def add_folders(folders: Sequence[Path]) -> None:
    """Put folders at the beginning of the search path of imports, in this order.

    Raises ConfigError for a file there that has the name of a standard module, which would be imported instead of it.
    """
    for folder in reversed(folders):
        for file in sorted(folder.glob("*.py")):
            if file.stem in _TAKEN:
                raise ConfigError(f"{file}: it would hide the module {file.stem} from Python: give it another name")
        text = str(folder)
        if text in sys.path:
            sys.path.remove(text)
        sys.path.insert(0, text)


def resolve(reference: str, place: str) -> Callable[..., object]:
    """Import ``package.module:qualified.name``. Error messages begin with ``place``.

    Raises ConfigError if the module does not exist or fails (with the user's line), or if the name
    does not exist or is not callable.
    """
    module_name, _, names = reference.partition(":")
    found: object = _import(module_name, reference, place)
    for name in names.split("."):
        known = [n for n in vars(found) if not n.startswith("_")] if hasattr(found, "__dict__") else []
        if not hasattr(found, name):
            raise ConfigError(f"{place}: {reference!r}: {unknown('name', name, known)}")
        found = getattr(found, name)
    if not callable(found):
        raise ConfigError(f"{place}: {reference!r} is not a function: it is {type(found).__name__}")
    return found


def _import(module: str, reference: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            searched = ", ".join(p or "." for p in sys.path[:2])
            raise ConfigError(
                f"{place}: {reference!r}: there is no module {error.name!r} "
                f"(searched in {searched} and the environment)"
            ) from error
        raise ConfigError(f"{place}: importing {module!r} failed: {error_with_traceback(error)}") from error
    except ConfigError:  # of a record or state: it names its own place
        raise
    except BaseException as error:  # sys.exit() as well: a job's module must not end the process
        raise ConfigError(f"{place}: importing {module!r} failed: {error_with_traceback(error)}") from error


def run_script(source: str, place: str, path: str | None = None) -> ModuleType:
    """Run the source of a job as a module and return the module.

    ``path`` is the Python file that it is; without one it is the ``job.script`` of a job file.
    ``place`` is the ``file:line`` of the first line. Tracebacks therefore name lines of the job
    file. Raises ConfigError if it fails.
    """
    file, _, line = place.rpartition(":")
    first = int(line) if line.isdigit() else 1
    module = ModuleType(SCRIPT_MODULE)
    if path is not None:
        module.__file__ = path
    sys.modules[SCRIPT_MODULE] = module
    padded = "\n" * (first - 1) + source  # so that line numbers are those of the job file
    # Tracebacks can then show the lines even on a machine that does not have the file.
    linecache.cache[file or place] = (len(padded), None, padded.splitlines(keepends=True), file)
    try:
        code = compile(padded, file or place, "exec")
    except SyntaxError as error:
        what = "job.script: " if path is None else ""
        raise ConfigError(f"{file or place}:{error.lineno}: {what}{error.msg}") from error
    except ValueError as error:  # a null byte
        raise ConfigError(f"{place}: {error}") from error
    try:
        exec(code, vars(module))
    except ConfigError:  # of a record or state: it names its own place
        raise
    except BaseException as error:  # sys.exit() as well
        failed = f"{place}: job.script failed: " if path is None else ""
        raise ConfigError(failed + error_with_traceback(error)) from error
    return module


def function_of(script: ModuleType, place: str) -> Callable[..., object]:
    """Return the function ``job`` of a ``job.script``. Raises ConfigError if there is none."""
    function = getattr(script, SCRIPT_FUNCTION, None)
    if not callable(function):
        raise ConfigError(f"{place}: job.script defines no function {SCRIPT_FUNCTION}(params)")
    return function  # type: ignore[no-any-return]


def error_with_traceback(error: BaseException) -> str:
    """Return :func:`user_line` and, on the next lines, the traceback of the user's frames."""
    trace = "" if isinstance(error, SyntaxError) else user_traceback(error)
    return user_line(error) + (f"\n{trace}" if trace else "")
