"""Words in files that come while a job runs, a job that counts them, and how often each word is there."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORDS, ROWS = 50, 1000  # rows of a file


class Words:
    """Whole files of JSON lines, of ``ROWS`` rows each, with ``WORDS`` words in turn."""

    def __init__(self) -> None:
        self.rows = 0

    def some(self) -> list[str]:
        """Return the words of the next ``ROWS`` rows."""
        first, self.rows = self.rows, self.rows + ROWS
        return [f"word {n % WORDS}" for n in range(first, self.rows)]

    def next(self) -> tuple[str, bytes]:
        """Return the name and the content of the next file."""
        lines = [json.dumps({"word": word}) for word in self.some()]
        return f"{self.rows}.jsonl", ("\n".join(lines) + "\n").encode()

    def counts(self) -> Counter[str]:
        """Return how often each word is there."""
        return Counter(f"word {n % WORDS}" for n in range(self.rows))


def counting(source: Mapping[str, Any], sinks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file of the job ``words``: two workers count words, with frequent checkpoints.

    ``sinks`` are by the name of their step, and get each word with its count so far. Kills do not end the job.
    """
    word = {"name": "word", "type": "string"}
    counts = {"keyBy": ["word"], "aggregate": {"compute": [{"name": "times", "function": "count"}]}}
    steps = [
        {"name": "lines", "source": {**source, "columns": [word]}},
        {"name": "counts", **counts},
        *({"name": step, "inputs": ["counts"], "sink": sink} for step, sink in sinks.items()),
    ]
    return json.dumps(
        {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "StreamJob",
            "metadata": {"name": "words"},
            "spec": {
                "replicas": 2,
                "checkpoint": {"interval": "300ms"},
                "restart": {"attempts": 100},
                "job": {"graph": {"steps": steps}},
            },
        }
    )


class WordFiles(Words):
    """A followed folder of such files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        folder.mkdir()

    def add(self) -> None:
        """Add a file, whole."""
        name, content = self.next()
        draft = self._folder / f"{name}.tmp"
        draft.write_bytes(content)
        draft.rename(self._folder / name)
