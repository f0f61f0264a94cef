"""Threads of which one runs at a time. Each stands at its next request to a server until somebody lets it go on."""

from collections.abc import Callable
from threading import Semaphore, Thread, current_thread
from typing import Any


class Gone(BaseException):
    """Ends a thread whose process has died."""


class Strand(Thread):
    """Work of one process. ``request`` is what it stands at, and ``kind`` names it; None at its end."""

    def __init__(self, process: str, work: Callable[[], Any]) -> None:
        super().__init__(name=process, daemon=True)
        self.request: Callable[[], Any] | None = None
        self.kind = ""
        self.over = self.dead = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._answer: Any = None
        self._refusal: Exception | None = None
        self._mine, self._others = Semaphore(0), Semaphore(0)
        self.start()
        self._others.acquire()

    def run(self) -> None:
        """Do the work."""
        try:
            self.result = self._work()
        except (Exception, Gone) as error:
            self.error = Gone() if self.dead else error  # a client may make another error of it
        self.over = True
        self._others.release()

    def ask(self, kind: str, request: Callable[[], Any]) -> Any:
        """Stand at a request, on this thread. Returns its answer, and raises its refusal."""
        if self.dead:
            raise Gone
        self.kind, self.request = kind, request
        self._others.release()
        self._mine.acquire()
        if self.dead:
            raise Gone
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        return self._answer

    def go_on(self, answer: Any, refusal: Exception | None = None) -> None:
        """Answer the request, on another thread. Returns when the strand stands at the next one, or is over."""
        self.request, self._answer, self._refusal = None, answer, refusal
        self._mine.release()
        self._others.acquire()

    def die(self) -> None:
        """End the thread; nothing that it does from now on reaches a server."""
        self.dead = True
        if not self.over:
            self.go_on(None)


def running() -> Strand:
    """Return the strand of the calling thread."""
    strand = current_thread()
    assert isinstance(strand, Strand), "only strands make requests"
    return strand
