"""The outgoing calls of a process: counted, and hit at one of them.

A profile function sees every call of a function that is written in C, in all threads. Calls that can
change something outside the process count: files, sockets, sqlite3, and everything of packages that are
no part of Python. Code of C and C++ that calls the system itself is seen as one call. A call into an installed package
counts, too, when it comes from outside: code that was compiled with Cython is seen by that only.

A process that is killed before call n leaves the same as one that is killed after call n - 1. So one kill
for each call, and one at the end, are all the kills there are.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any


class Action(StrEnum):
    """What happens before a call."""

    KILL = "killed"  # SIGKILL
    STOP = "stopped"  # SIGSTOP, until the kit continues the process
    FAIL = "failed"  # the call raises OSError and is not made


_FILES = frozenset(
    [
        "open",
        "write",
        "writev",
        "pwrite",
        "fsync",
        "fdatasync",
        "link",
        "symlink",
        "rename",
        "replace",
        "unlink",
        "remove",
        "mkdir",
        "rmdir",
        "truncate",
        "ftruncate",
        "sendfile",
        "copy_file_range",
    ]
)
_OF_PYTHON = {
    "posix": _FILES,
    "io": frozenset(("open",)),
    "_io": frozenset(("open", "write", "flush", "close", "truncate")),
    "_socket": frozenset(("connect", "send", "sendall", "sendto", "sendmsg")),
    "_ssl": frozenset(("write",)),
    "sqlite3": frozenset(("execute", "executemany", "executescript", "commit", "rollback")),
}
_INSTALLED = frozenset(("site-packages", "dist-packages"))
_INSIDE = frozenset(("BytesIO", "StringIO"))
_PURE = frozenset(
    ["_cython_3", "llvmlite", "mmh3", "msgspec", "numba", "numpy", "orjson", "pandas", "pyarrow", "pydantic",
     "pydantic_core", "typing_extensions", "zstandard"]
)  # fmt: skip
_CALLS_BACK = frozenset(("pydantic", "pydantic_core"))  # it calls functions of a client's models while it converts one


def is_outgoing(callee: Any) -> bool:
    """Return whether a function written in C may change something outside of this process."""
    owner = getattr(callee, "__self__", None)
    module = getattr(callee, "__module__", None) or type(owner).__module__
    package = module.partition(".")[0]
    if package in _OF_PYTHON:
        return callee.__name__ in _OF_PYTHON[package] and type(owner).__name__ not in _INSIDE
    return _is_client(package)


def enters_client(frame: FrameType) -> bool:
    """Return whether a function in Python is one of an installed package, called from outside of that package.

    Clients that are made with Cython are seen by this only, at the functions that lead to their compiled code.
    """
    if not _INSTALLED.intersection(Path(frame.f_code.co_filename).parts) or frame.f_code.co_name == "<module>":
        return False
    package, caller = _package(frame), frame.f_back and _package(frame.f_back)
    return package not in (caller, "penstock") and caller not in _CALLS_BACK and _is_client(package)


def _is_inside(frame: FrameType | None, functions: Collection[str]) -> bool:
    while frame is not None and frame.f_code.co_name not in functions:
        frame = frame.f_back
    return frame is not None


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_client(package: str) -> bool:
    return package not in sys.stdlib_module_names and package not in _PURE and not package.startswith("_cython")


class Effects:
    """Counts the outgoing calls of this process, and performs ``action`` before call number ``at`` (from 1 on).

    Inside functions of the names ``locked_in`` a process is not stopped, but before the next call behind them.
    """

    def __init__(self, at: int = 0, action: Action = Action.KILL, locked_in: Collection[str] = ()) -> None:
        self.calls = 0
        self.places: list[str] = []
        self._at = at
        self._action = action
        self._locked_in = locked_in
        self._lock = threading.Lock()

    def watch_threads(self) -> None:
        """See the calls of all threads that begin from now on."""
        threading.setprofile(self._seen)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See the calls of this thread. Raises what a failed call raises, when nobody catches it."""
        sys.setprofile(self._seen)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, callee: Any) -> None:
        if event == "c_call" and is_outgoing(callee):
            name = callee.__name__
        elif event == "call" and enters_client(frame):
            name = frame.f_code.co_name
        else:
            return
        with self._lock:
            self.calls += 1
            mine = self.calls == self._at
            if mine and self._action is Action.STOP and _is_inside(frame, self._locked_in):
                self._at += 1
                mine = False
            self.places.append(name)
        if not mine:
            return
        match self._action:
            case Action.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Action.STOP:
                os.kill(os.getpid(), signal.SIGSTOP)
            case Action.FAIL:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
