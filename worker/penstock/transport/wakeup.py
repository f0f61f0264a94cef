"""Where a task's thread sleeps: input, credit and orders all wake it through one flag."""

from penstock.base.threads import Lock


class Wakeup:
    """A flag that one thread waits for and clears. Setting it twice is the same as once.

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
        """Block until set, clear the flag and return True; return False after the timeout."""
        return self._unset.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
