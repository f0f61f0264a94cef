"""Words in files that come while a job runs, and how often each word is there."""

import json
from collections import Counter
from pathlib import Path

WORDS, ROWS = 50, 1000  # rows of a file


class WordFiles:
    """A followed folder of JSON lines: whole files of ``ROWS`` rows, of ``WORDS`` words in turn."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rows = 0
        folder.mkdir()

    def add(self) -> None:
        """Add a file, whole."""
        lines = [json.dumps({"word": f"word {n % WORDS}"}) for n in range(self.rows, self.rows + ROWS)]
        self.rows += ROWS
        draft = self._folder / f"{self.rows}.tmp"
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(draft.with_suffix(".jsonl"))

    def counts(self) -> Counter[str]:
        """Return how often each word is there."""
        return Counter(f"word {n % WORDS}" for n in range(self.rows))
