"""What happens at a call of an engine to the shared disk: other threads run, and faults."""

import errno
from collections.abc import Callable
from random import Random
from typing import Protocol

from sim.files.call_hooks import ASKED_AGAIN, FileCall
from sim.files.virtual_disk import os_error
from sim.kernel.faults import Verdict
from sim.real_engine.thread_scheduler import ThreadScheduler

CHANGES = frozenset({"write", "fsync", "link", "rename", "unlink", "mkdir", "rmdir"})
NAMES = frozenset({"link", "rename"})
NEEDS_ROOM = frozenset({"write", "link", "mkdir"})
ERRORS = (errno.ENOSPC, errno.EIO, errno.ESTALE)


class FileHost(Protocol):
    """The cluster as the hook uses it."""

    scheduler: ThreadScheduler

    def file_verdict(self, *, changes: bool) -> Verdict:
        """Draw the outcome of a call."""
        ...

    def disk_is_full(self) -> bool:
        """Return whether there is no room."""
        ...

    def file_named(self, path: str) -> None:
        """Check a name that a file has got. Raises Violation."""
        ...


class FileFaults:
    """The :class:`sim.files.call_hooks.CallHook` of one engine. ``end`` ends its process and does not return."""

    def __init__(self, host: FileHost, chances: Random, end: Callable[[], None]) -> None:
        self._host = host
        self._chances = chances
        self._end = end
        self._later: dict[int, Verdict] = {}  # by thread: what comes after the call

    def before(self, call: FileCall) -> None:
        """Let others run; then refuse the call, end the process, or remember what comes after it."""
        self._host.scheduler.point()
        if call.name in NEEDS_ROOM and self._host.disk_is_full():
            raise os_error(errno.ENOSPC, call.path)
        verdict = self._host.file_verdict(changes=call.name in CHANGES)
        if verdict is Verdict.FAILED:
            raise os_error(self._chances.choice(ERRORS), call.path)
        if verdict is Verdict.CRASH_BEFORE:
            self._end()
        self._later[self._host.scheduler.current.number] = verdict

    def after(self, call: FileCall) -> None:
        """Check a new name; end the process, or lose the reply; then let others run."""
        if call.name in NAMES:
            self._host.file_named(call.path)
        verdict = self._later.pop(self._host.scheduler.current.number, Verdict.DONE)
        if verdict is Verdict.CRASH_AFTER:
            self._end()
        if verdict is Verdict.UNKNOWN:
            raise os_error(ASKED_AGAIN.get(call.name, errno.EIO), call.path)
        self._host.scheduler.point()
