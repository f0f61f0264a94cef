"""Tells the supervisor which lives are up here, and notices when there is no supervisor."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.limits import ANNOUNCE_INTERVAL_S, SUPERVISOR_TIMEOUT_S
from penstock.cluster.rpc import ANNOUNCE, Client, Handler, Method, Unreachable
from penstock.contract.status import WorkerReport
from penstock.keeper.keeper_messages import KeeperInbox, Leave

FINAL_REPORT_TIMEOUT_S = 0.5


class SupervisorReporter:
    """One thread that announces at an interval, and at once after :meth:`wake`."""

    def __init__(self, client: Client, inbox: KeeperInbox, report: Callable[[], WorkerReport]) -> None:
        """Prepare to announce what ``report`` gives; it is called on the announcer's thread."""
        self._client = client
        self._inbox = inbox
        self._report = report
        self._wanted = threading.Event()

    @property
    def handlers(self) -> Mapping[Method[Any, Any], Handler]:
        """Serve nothing: the supervisor has a server of its own."""
        return {}

    def start(self) -> None:
        """Begin; once."""
        threading.Thread(target=self._run, name="announcer", daemon=True).start()

    def final_report(self) -> None:
        """Announce once more, now: the process is about to end. The supervisor may be gone."""
        with suppress(Unreachable, PenstockError):
            self._client.call(ANNOUNCE, self._report(), FINAL_REPORT_TIMEOUT_S)

    def wake(self) -> None:
        """Announce as soon as possible."""
        self._wanted.set()

    def _run(self) -> None:
        heard = time.monotonic()
        while True:
            self._wanted.wait(ANNOUNCE_INTERVAL_S)
            self._wanted.clear()
            try:
                self._client.call(ANNOUNCE, self._report())
                heard = time.monotonic()
            except Unreachable as error:
                if time.monotonic() - heard > SUPERVISOR_TIMEOUT_S:
                    # Without the metadata store nothing can be committed by anybody.
                    self._inbox.put(Leave(f"the supervisor is gone: {error}"))
                    return
            except PenstockError as error:
                self._inbox.put(Leave(f"the supervisor does not know this worker: {error}"))
                return
