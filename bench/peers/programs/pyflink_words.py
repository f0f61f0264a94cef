"""PyFlink DataStream: lines of a file, ``key_by`` and a process function with ``ValueState``."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyflink.common import Configuration, Types, WatermarkStrategy  # type: ignore[import-not-found]
from pyflink.datastream import (  # type: ignore[import-not-found]
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.file_system import (  # type: ignore[import-not-found]
    FileSource,
    StreamFormat,
)
from pyflink.datastream.state import ValueStateDescriptor  # type: ignore[import-not-found]

from bench.peers.programs.task import Progress, Task, merged, read_task

STATE_CACHE = "20000"  # states kept in Python; with the default of 1,000 nearly every word needs a request to the JVM
# At the end of a bundle each changed state is written back by one request. Here only checkpoints end one.
BUNDLE_ROWS = "1000000"
BUNDLE_MS = "3600000"


class Count(KeyedProcessFunction):  # type: ignore[misc]
    """Returns each word with its running count. Writes its progress to a file when it is closed."""

    def __init__(self, notes: str) -> None:
        """The file with the progress will be in the folder ``notes``."""
        self._notes = notes

    def open(self, context: Any) -> None:
        """Get the state."""
        self._state = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._progress, self._counts = Progress(), dict[str, int]()
        self._name = uuid4().hex

    def process_element(self, word: str, context: Any) -> Iterator[tuple[str, int]]:
        """Count one word."""
        count = (self._state.value() or 0) + 1
        self._state.update(count)
        self._counts[word] = count
        self._progress.add(1)
        yield word, count

    def close(self) -> None:
        """Write the file."""
        note = {"marks": self._progress.ended(), "counts": self._counts}
        (Path(self._notes) / f"{self._name}.json").write_text(json.dumps(note))


def main() -> None:
    """Run to the end of the files."""
    task = read_task()
    notes = task.folder / "notes"
    notes.mkdir()
    env = StreamExecutionEnvironment.get_execution_environment(settings(task))
    env.set_parallelism(task.splits)
    env.enable_checkpointing(round(1000 * task.checkpoint_s))
    lines = StreamFormat.text_line_format()
    source = FileSource.for_record_stream_format(lines, str(task.folder / "lines")).build()
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    words.key_by(lambda word: word, Types.STRING()).process(Count(str(notes)), kind).filter(lambda _: False).print()
    env.execute("words")
    answer(task, notes)


def settings(task: Task) -> Any:
    """Return the settings: local checkpoints, and the Python of this environment."""
    made = Configuration()
    made.set_string("execution.checkpointing.dir", (task.folder / "checkpoints").as_uri())
    made.set_string("python.executable", sys.executable)
    made.set_string("python.client.executable", sys.executable)
    made.set_string("python.state.cache-size", STATE_CACHE)
    made.set_string("python.fn-execution.bundle.size", BUNDLE_ROWS)
    made.set_string("python.fn-execution.bundle.time", BUNDLE_MS)
    made.set_string("rest.bind-address", "127.0.0.1")
    made.set_string("rest.bind-port", "0")
    return made


def answer(task: Task, notes: Path) -> None:
    """Combine the files of all processes."""
    found = [json.loads(file.read_text()) for file in notes.glob("*.json")]
    counts: dict[str, int] = {}
    for note in found:
        for word, count in note["counts"].items():
            counts[word] = max(count, counts.get(word, 0))
    marks = merged([[(at, rows) for at, rows in note["marks"]] for note in found])
    task.answer(counts, marks, emitted=sum(counts.values()))


if __name__ == "__main__":
    main()
