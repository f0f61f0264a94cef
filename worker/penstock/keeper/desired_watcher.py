"""Feeds what is wanted to the coordinator: at the start, and whenever it changes."""

import threading

from penstock.base.errors import PenstockError
from penstock.keeper.keeper_inbox import ForCoordinator, KeeperInbox
from penstock.keeper.stores import read_desired
from penstock.ports import MetaStore
from penstock.protocol.control_events import DesiredRead


def watch_desired(
    store: MetaStore, name: str, interval_s: float, inbox: KeeperInbox, changed: threading.Event
) -> None:
    """Start a thread that reads the object at an interval and says so when it is another.

    ``changed`` may be set by anybody to have it read now. A store that does not answer is asked
    again: what is wanted has not changed meanwhile.
    """

    def watch() -> None:
        last: DesiredRead | None = None
        while True:
            changed.clear()  # before the read: what changes after it wakes us again
            now: DesiredRead | None
            try:
                now = DesiredRead(read_desired(store, name))
            except PenstockError:
                now = None
            if now is not None and now != last:
                inbox.put(ForCoordinator(now))
                last = now
            changed.wait(interval_s)

    threading.Thread(target=watch, name="desired", daemon=True).start()
