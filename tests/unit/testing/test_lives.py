"""A life of the sink kit is a copy of the process that runs the kit, and leaves alone what that process has."""

import gc
import os
from pathlib import Path

from penstock.testing.connectors.lives import SURVIVED, Ledger, fork, wait


class Client:
    """A client that is garbage as soon as nobody else knows it, and notes in which process it is closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._itself = self

    def __del__(self) -> None:
        (self._folder / f"closed-in-{os.getpid()}").touch()


def test_a_life_closes_no_client_of_the_process_that_it_is_a_copy_of(tmp_path: Path) -> None:
    gc.disable()
    try:
        Client(tmp_path)
        pid = fork(lambda: _collect(tmp_path), Ledger(tmp_path / "ledger"))
        status = wait(pid)
    finally:
        gc.enable()
    gc.collect()

    assert os.waitstatus_to_exitcode(status) == SURVIVED
    assert (tmp_path / f"closed-in-{os.getpid()}").exists()
    assert not (tmp_path / f"closed-in-{pid}").exists()


def _collect(folder: Path) -> None:
    own = Client(folder / "ledger")
    del own
    gc.collect()
    assert (folder / "ledger" / f"closed-in-{os.getpid()}").exists(), "what a life made itself is collected"
