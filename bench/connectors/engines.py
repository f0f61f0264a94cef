"""Other engines between two topics: ``bench/peers/kafka/*.toml`` says how each is set up, and why.

The program of an engine gets a folder with ``task.json``, and one in Java its values as arguments. It reads its topic
from the beginning and runs until it is ended. So every engine is in the midst of its work while it is measured.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench import peer
from bench.peer import Peer

FOLDER = peer.FOLDER / "kafka"
STOP_MAX_S = 20.0


@contextmanager
def running(engine: Peer, folder: Path, task: Mapping[str, Any]) -> Iterator["subprocess.Popen[str]"]:
    """Run an engine over a task until the end of the ``with``: broker, topics, parallelism, seconds of a checkpoint."""
    (folder / "task.json").write_text(json.dumps(task))
    given = [str(folder), *(str(value) for value in task.values() if engine.java)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            peer.program(engine, given),
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, **engine.environment, "PYTHONPATH": str(peer.ROOT)},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
