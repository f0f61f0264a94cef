"""A watch that its server ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from penstock.kubernetes.watch import ObjectWatch

SOON_S = 0.2


class Ending:
    """A client whose server says how the object is, and ends the watch at once."""

    namespace = "here"

    @contextmanager
    def lines(self, *_: object, **__: str) -> Iterator[Iterator[str]]:
        yield iter(['{"type": "ADDED"}'])


def test_a_server_that_ends_each_watch_at_once_is_not_asked_again_and_again() -> None:
    told = threading.Semaphore(0)
    watch = ObjectWatch(cast(Any, Ending()), "configmaps", "words-desired")
    watch.start(told.release)
    assert told.acquire(timeout=30)
    assert not told.acquire(timeout=SOON_S)
    watch.stop()
