"""What can happen at a call to a file system: a switch to another thread, an error, a lost reply, the end.

Before a call a hook may raise an error: the call is not performed. After it a hook may raise an
error too: the call was performed, and its reply is lost. A hook that ends the process raises
:class:`ProcessEnded`.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sim.files.virtual_disk import os_error


@dataclass(frozen=True, slots=True)
class FileCall:
    """One call: who makes it, the method of the port, and the path."""

    machine: str
    name: str
    path: str


class ProcessEnded(BaseException):
    """The process is gone. Nothing that it does while it unwinds reaches the disk."""


class CallHook(Protocol):
    """Called around every call of a mounted file system."""

    def before(self, call: FileCall) -> None:
        """The call is about to be performed. Raises OSError to refuse it; may switch threads."""
        ...

    def after(self, call: FileCall) -> None:
        """The call was performed. Raises OSError to lose its reply."""
        ...


class NoHook:
    """Nothing happens."""

    def before(self, call: FileCall) -> None:
        """Do nothing."""

    def after(self, call: FileCall) -> None:
        """Do nothing."""


class CallFault(Enum):
    """The fault at one call."""

    NO_SPACE = "no space"
    IO_ERROR = "I/O error"
    STALE = "stale handle"
    LOST_REPLY = "lost reply"
    ENDED_BEFORE = "process ended before"
    ENDED_AFTER = "process ended after"
    POWER_BEFORE = "power failed before"
    POWER_AFTER = "power failed after"


ERRORS = {
    CallFault.NO_SPACE: errno.ENOSPC,
    CallFault.IO_ERROR: errno.EIO,
    CallFault.STALE: errno.ESTALE,
}
BEFORE = (CallFault.ENDED_BEFORE, CallFault.POWER_BEFORE)
AFTER = (CallFault.ENDED_AFTER, CallFault.POWER_AFTER)
POWER = (CallFault.POWER_BEFORE, CallFault.POWER_AFTER)
# A client whose request was performed and whose reply was lost asks again, and is told this.
ASKED_AGAIN = {
    "link": errno.EEXIST,
    "mkdir": errno.EEXIST,
    "unlink": errno.ENOENT,
    "rmdir": errno.ENOENT,
    "rename": errno.ENOENT,
}


@dataclass(slots=True)
class OneFault:
    """Counts calls, and puts one fault at the ``index``-th, counted from 0. ``end`` ends the process or the power."""

    index: int
    fault: CallFault
    end: Callable[[CallFault], None]
    calls: int = 0
    hit: FileCall | None = None

    def before(self, call: FileCall) -> None:
        """Count the call; refuse it or end before it."""
        self.calls += 1
        if self.calls != self.index + 1:
            return
        self.hit = call
        if self.fault in ERRORS:
            raise os_error(ERRORS[self.fault], call.path)
        if self.fault in BEFORE:
            self._end()

    def after(self, call: FileCall) -> None:
        """End after the call, or lose its reply."""
        if self.calls != self.index + 1 or call != self.hit:
            return
        if self.fault in AFTER:
            self._end()
        if self.fault is CallFault.LOST_REPLY:
            raise os_error(ASKED_AGAIN.get(call.name, errno.EIO), call.path)

    def _end(self) -> None:
        self.end(self.fault)
        raise ProcessEnded
