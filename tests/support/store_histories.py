"""Clients of a real store that write down each call before it, and each reply behind it.

``python -m tests.support.store_histories DATABASE`` swaps one object of an SQLite file by several
threads until the process is killed, and prints its log. :func:`history` reads the log of any number
of such processes.
"""

import json
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from penstock.ports import MetaStore, SwapConflict, SwapUnknown, Versioned
from penstock.storage.sqlite import Database, SqliteMetaStore
from sim.checks.histories import Outcome, ReadCall, RegisterCall, SwapCall

NAME = "latest"
CLIENTS = 4


@dataclass
class Log:
    """One line for each begin and each end of a call."""

    file: TextIO
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, **line: object) -> None:
        """Write a line with the present time. The clock is that of the machine, for all processes."""
        with self.lock:
            self.file.write(json.dumps({"at": time.monotonic(), **line}) + "\n")
            self.file.flush()


def client(store: MetaStore, log: Log, turns: Iterable[int]) -> None:
    """Read the object and swap it, again and again."""
    me = uuid4().hex
    for turn in turns:
        log.write(call=f"{me}/{turn}/read")
        found = store.get(NAME)
        assert found is not None
        log.write(reply=f"{me}/{turn}/read", version=found.version, label=found.data.decode())
        _swap(store, log, f"{me}/{turn}/swap", found)


def _swap(store: MetaStore, log: Log, call: str, found: Versioned) -> None:
    log.write(call=call, expected=found.version, label=call)
    try:
        done = store.swap(NAME, call.encode(), found.version)
    except SwapConflict:
        log.write(reply=call, outcome="conflict")
    except SwapUnknown:
        log.write(reply=call, outcome="unknown")
    else:
        log.write(reply=call, outcome="done", version=done.version)


def run_clients(stores: list[MetaStore], log: Log, turns: Iterable[int]) -> None:
    """Run one client for each store, each in its thread, until all have had their turns."""
    threads = [threading.Thread(target=client, args=(store, log, turns)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def history(log: str) -> list[RegisterCall]:
    """Return the calls of a log. A line that was cut by a kill is ignored."""
    begun: dict[str, dict[str, Any]] = {}
    calls: list[RegisterCall] = []
    for line in log.splitlines():
        if not line.endswith("}"):
            continue
        entry = json.loads(line)
        if "call" in entry:
            begun[entry["call"]] = entry
        else:
            calls.append(_call(begun.pop(entry["reply"]), entry))
    unanswered = [entry for entry in begun.values() if "expected" in entry]
    return [*calls, *(_call(entry, {"outcome": "unknown"}) for entry in unanswered)]


def _call(begun: dict[str, Any], reply: dict[str, Any]) -> RegisterCall:
    name = begun["call"]
    if "expected" not in begun:
        return ReadCall(name, begun["at"], reply["at"], reply["version"], reply["label"])
    outcome = Outcome(reply["outcome"])
    ended = inf if outcome is Outcome.UNKNOWN else reply["at"]
    return SwapCall(name, begun["at"], ended, begun["expected"], reply.get("version"), name, outcome)


def main() -> None:
    """Swap until this process is killed."""
    store = SqliteMetaStore(Database(Path(sys.argv[1])))
    run_clients([store] * CLIENTS, Log(sys.stdout), range(sys.maxsize))


if __name__ == "__main__":
    main()
