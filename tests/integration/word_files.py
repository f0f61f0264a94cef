"""Words in files that come while a job runs, and how often each word is there."""

import json
from collections import Counter
from pathlib import Path

WORDS, ROWS = 50, 1000  # rows of a file


class Words:
    """Whole files of JSON lines, of ``ROWS`` rows each, with ``WORDS`` words in turn."""

    def __init__(self) -> None:
        self.rows = 0

    def next(self) -> tuple[str, bytes]:
        """Return the name and the content of the next file."""
        lines = [json.dumps({"word": f"word {n % WORDS}"}) for n in range(self.rows, self.rows + ROWS)]
        self.rows += ROWS
        return f"{self.rows}.jsonl", ("\n".join(lines) + "\n").encode()

    def counts(self) -> Counter[str]:
        """Return how often each word is there."""
        return Counter(f"word {n % WORDS}" for n in range(self.rows))


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
