"""One place where a task's thread sleeps, and everything that concerns it wakes it."""

from threading import Lock


class Wakeup:
    """A flag that one thread waits for and clears; setting it twice is setting it once.

    Cheaper than ``threading.Event`` on the hot path: one lock, no condition.
    """

    __slots__ = ("_unset",)

    def __init__(self) -> None:
        self._unset = Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or let its next wait return at once. Never blocks."""
        if self._unset.locked():
            try:
                self._unset.release()
            except RuntimeError:  # another thread set it between the two lines
                return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until set, clear the flag and return True; False when the time is over."""
        return self._unset.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
