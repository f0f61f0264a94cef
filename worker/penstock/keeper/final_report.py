"""How an engine ended, in words: its status, what was in flight, its last lines."""

import collections
import os
import signal
import stat
from collections.abc import Sequence
from pathlib import Path

import penstock
from penstock.base.limits import (
    ENGINE_END_CHARS_MAX,
    ENGINE_LAST_LINES_MAX,
    FORK_BEGIN_TIMEOUT_S,
    IN_FLIGHT_NAMED_MAX,
    LOG_TAIL_BYTES_MAX,
)
from penstock.cluster.in_flight import InFlight
from penstock.contract.control_messages import DOES_NOT_LOAD, OUT_OF_MEMORY

STDOUT = 1
LOG = f"/proc/self/fd/{STDOUT}"
EXIT_UNCAUGHT = 1  # the interpreter's own, after a traceback
EXIT_CANNOT_START = 3  # the job's code does not load: another start would fail as well
STATUS_UNKNOWN = -1_000  # no signal has that number: how it ended is not known
STATUS_NEVER_BEGAN = -1_001  # nor has this one: the fork server did not begin it
EXIT_NOBODY_LISTENS = 4
EXIT_STORAGE = 5  # a file of the engine, or what a step reads, could not be reached: a later start may succeed
EXIT_CONNECTOR = 6  # a source or sink has failed: a later start may succeed, and each one counts
EXITS = {
    EXIT_STORAGE: "it did not get at its files, or at what a step reads, and is started again",
    EXIT_CONNECTOR: "a source or sink has failed, and it is started again",
    EXIT_NOBODY_LISTENS: "its keeper did not listen any more",
    70: "a task did not end in time, and only the end of the process ends it",
}
SIGNALS = {
    signal.SIGKILL: "by hand, or by the kernel because memory ran out",
}
_OURS = f'File "{Path(penstock.__file__).parent}/'
_NOISE = (
    "part=engine level=INFO",
    "part=engine level=WARNING",
    "Extension modules:",
    " in _bootstrap",  # of every thread
    "Z keeper job=",  # what the keeper logs to the same file
)
BEFORE_FATAL_LINES = 3
_FATAL = "Fatal Python error"


class LastLines:
    """The end of an engine's standard error.

    It keeps the last lines. Of a fatal error of the interpreter it keeps the first ones, which show
    where it was.
    """

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=ENGINE_LAST_LINES_MAX)
        self._fatal = False

    def hear(self, line: str) -> None:
        """Take a line. Log lines of a healthy engine, and frames of Penstock, are left out."""
        line = line.rstrip()
        if any(noise in line for noise in _NOISE) or _OURS in line:
            return
        if line.startswith(_FATAL) and not self._fatal:
            self._fatal = True
            while len(self._lines) > BEFORE_FATAL_LINES:
                self._lines.popleft()
        if line and not (self._fatal and len(self._lines) == ENGINE_LAST_LINES_MAX):
            self._lines.append(line)

    def lines(self) -> list[str]:
        """Return what was kept, oldest first."""
        return list(self._lines)


def how_it_ended(status: int, memory: str = "") -> str:
    """Spell an exit status as of ``subprocess``: below zero for a signal.

    ``memory``: the limit of what the kernel has ended because memory ran out.
    """
    if status == STATUS_UNKNOWN:
        return "the engine ended, and nobody saw how"
    if status == STATUS_NEVER_BEGAN:
        return (
            f"the fork server did not begin the engine within {FORK_BEGIN_TIMEOUT_S:.0f} s: is it stopped? Engines of"
            " this worker are started without it from now on"
        )
    if status >= 0:
        more = f": {EXITS[status]}" if status in EXITS else ""
        return f"the engine ended by itself (exit status {status}{more})"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"the engine was killed by signal {-status}"
    if memory:
        return f"the engine was killed by {name} (signal {-status}): {OUT_OF_MEMORY} ({memory})"
    more = f": {SIGNALS[signal.Signals(-status)]}" if -status in SIGNALS else ""
    return f"the engine was killed by {name} (signal {-status}{more})"


class Printed:
    """The log of this worker, when that is a file: there the functions of a job print.

    What an engine prints does not pass through its keeper, which has the file as its own standard
    output. So the end of the file is read, from where it ended when the engine began.
    """

    def __init__(self) -> None:
        """Remember where the log ends now."""
        self._from = _log_size()

    def last_lines(self) -> list[str]:
        """Return the last lines of the log; none where the log is no file."""
        size = _log_size()
        begin = max(self._from, size - LOG_TAIL_BYTES_MAX)
        try:
            with open(LOG, "rb") as file:
                file.seek(begin)
                text = file.read(size - begin).decode(errors="replace")
        except OSError:
            return []
        words = LastLines()
        cut = begin > self._from  # in the middle of a line
        for line in text.splitlines()[cut:]:
            words.hear(line)
        return words.lines()


def _log_size() -> int:
    """Return the size of this process's standard output, 0 when that is no file."""
    try:
        found = os.fstat(STDOUT)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def story(
    status: int,
    words: Sequence[str],
    in_flight: Sequence[InFlight] | None,
    memory: str = "",
    *,
    how: str = "",
) -> str:
    """Tell how an engine ended. The first line says how; rows in flight and its last lines follow.

    ``memory`` as of :func:`how_it_ended`; ``how`` replaces what the status says.
    """
    if status == EXIT_CANNOT_START and words:
        return f"{DOES_NOT_LOAD}: " + "\n".join(words)
    # Some readers show only the first line: it names an exception that was not caught, or a file that was not made.
    uncaught = f": {words[-1]}" if status in (EXIT_UNCAUGHT, EXIT_STORAGE, EXIT_CONNECTOR) and words else ""
    lines = [how or how_it_ended(status, memory) + uncaught]
    if in_flight is not None:
        lines += [f"in flight: {entry}" for entry in in_flight[:IN_FLIGHT_NAMED_MAX]]
        if len(in_flight) > IN_FLIGHT_NAMED_MAX:
            lines.append(f"in flight: {len(in_flight) - IN_FLIGHT_NAMED_MAX} more tasks")
        if not in_flight:
            lines.append("in flight: no row was in a function of the job")
    if words:
        lines += ["last lines:", *(f"  {word}" for word in words)]
    text = "\n".join(lines)
    return text if len(text) <= ENGINE_END_CHARS_MAX else f"{text[:ENGINE_END_CHARS_MAX]} [...]"
