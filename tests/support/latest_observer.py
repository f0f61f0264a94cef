"""Reads ``-latest`` of a local job again and again while the job runs, and keeps every value."""

import threading
from pathlib import Path

from penstock.base.errors import StateError
from penstock.contract.latest import Latest, decode_latest
from penstock.storage.sqlite import peek

LOOK_S = 0.01


class LatestObserver:
    """Keeps the values of one object in the order in which they were seen."""

    def __init__(self, database: Path, name: str) -> None:
        """Begin to look."""
        self.seen: list[Latest] = []
        self._database, self._name = database, name
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="latest-observer", daemon=True)
        self._thread.start()

    def end(self) -> list[Latest]:
        """Stop looking, and return all values."""
        self._over.set()
        self._thread.join()
        return self.seen

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                data = peek(self._database, self._name)
            except StateError:  # the file is being created
                continue
            latest = None if data is None else decode_latest(data)
            if latest is not None and (not self.seen or latest.swap_id != self.seen[-1].swap_id):
                self.seen.append(latest)
