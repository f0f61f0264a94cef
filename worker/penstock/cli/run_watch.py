"""Watches a run of ``penstock run`` until it ends: shows it, and turns signals into a stop."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError, StorageError
from penstock.cli.exits import Exit, print_error
from penstock.cli.screen import Watched
from penstock.contract.status import ENDED, JobState, JobStatus
from penstock.model.kernels.place import folder_of_version, is_compiling

if TYPE_CHECKING:
    from penstock.supervisor import LocalCluster

LOOK_INTERVAL_S = 0.5
SAID_AFTER_S = 1.0
SAID = "compiling kernels: once on this machine for each kind of step, up to half a minute"


class Compiling:
    """Looks until it has said it, once."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        """``say`` shows one line; ``clock`` gives seconds."""
        self._say = say
        self._clock = clock
        self._since: float | None = None
        self._said = False

    def look(self) -> None:
        """Look; called again and again."""
        if self._said:
            return
        if not is_compiling(folder_of_version()):
            self._since = None
        elif self._since is None:
            self._since = self._clock()
        elif self._clock() - self._since >= SAID_AFTER_S:
            self._said = True
            self._say(SAID)


def watch(cluster: "LocalCluster", screen: Watched, interrupts: "Interrupts") -> Exit:
    """Show the job until it has ended; turn signals into a clean stop, then an immediate one.

    A reader of standard output that has gone (``| head``) is a reason to stop as well.
    """
    compiling = Compiling(screen.note)
    while True:
        ended = cluster.wait(LOOK_INTERVAL_S)
        status = ended if ended is not None else cluster.status()
        if status.state is not JobState.RUNNING:  # a job that runs waits for no kernel
            compiling.look()
        # The last counters are there when every process has ended, not before.
        if status.state not in ENDED or ended is not None:
            screen.show(status)
        if ended is not None:
            screen.close()
            if screen.lost is not None and interrupts.first_time():
                print_error(f"standard output: {screen.lost}: the job is {ended.state}")
            code = _ended(ended, interrupts)
            return code if screen.lost is None else Exit.FAILED
        if interrupts.count >= 2:
            cluster.kill()
            screen.show(cluster.status())
            screen.note("stopped at once; run it again to go on from the last checkpoint")
            return Exit.INTERRUPTED
        if interrupts.count == 1 and interrupts.first_time():
            screen.note("stopping after a last checkpoint; Ctrl-C again stops at once")
            _stop(cluster)
        elif screen.lost is not None and interrupts.first_time():
            print_error(f"standard output: {screen.lost}: stopping after a last checkpoint")
            _stop(cluster)


def _stop(cluster: "LocalCluster") -> None:
    Thread(target=_ask_to_stop, args=(cluster,), daemon=True).start()


def _ask_to_stop(cluster: "LocalCluster") -> None:
    """Ask for a clean stop. One that cannot be noted is kept, and the supervisor tries again."""
    try:
        cluster.stop()
    except ConfigError:
        return  # the job has ended meanwhile, which is what was asked for
    except StorageError as error:
        print_error(f"the stop is not noted yet: {error}: tried again; Ctrl-C again stops at once")


def _ended(status: JobStatus, interrupts: "Interrupts") -> Exit:
    if status.state is JobState.FAILED and status.failure:
        print_error(status.failure)
    if interrupts.count and status.state is JobState.STOPPED:
        return Exit.INTERRUPTED
    return exit_of_state(status.state)


class Interrupts:
    """Counts SIGINT and SIGTERM instead of raising in the middle of something."""

    def __init__(self) -> None:
        self.count = 0
        self._told = Event()

    def first_time(self) -> bool:
        """Say True once."""
        told = self._told.is_set()
        self._told.set()
        return not told

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Take over both signals; give them back afterwards."""
        before = {s: signal.signal(s, self._arrived) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1


def exit_of_state(state: JobState) -> Exit:
    """Return the code of an ended job."""
    return Exit.FAILED if state is JobState.FAILED else Exit.OK
