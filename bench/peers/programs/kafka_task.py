"""What a program between two topics gets, and how it runs as several processes. Standard library only."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KafkaTask:
    """The topics, and the number of this process. The engine may write into ``folder``."""

    folder: Path
    servers: str
    source: str
    target: str
    checkpoint_s: float
    process: int


def run(program: Callable[[KafkaTask], None], processes: int) -> None:
    """Run a program as so many processes, in the folder that is the first argument. Never returns while all run."""
    folder = Path(sys.argv[1])
    plain = json.loads((folder / "task.json").read_text())
    process = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    command = [sys.executable, *sys.orig_argv[1:]]
    more = [] if process else [subprocess.Popen([*command, str(n)]) for n in range(1, processes)]
    program(
        KafkaTask(
            folder, plain["servers"], plain["source"], plain["target"], float(plain["checkpoint_s"]), process=process
        )
    )
    for each in more:
        each.wait()
