"""Reads the generator's words through a user's own source, to measure what users' sources cost.

The built-in generator joins small batches in compiled code (``gather``). No other source can do this.
Here the rows come only by ``read``, so a batch costs as much as for a user's source.
"""

from collections.abc import Mapping
from typing import Any

import penstock as ps
from penstock.connectors.generator import SCHEMA, WordReader, WordSource
from penstock.contract.connectors import WordsSpec
from penstock.contract.graph import Connector


class OwnWords:
    """The splits of the generator, without ``gather``."""

    schema = SCHEMA
    bounded = True

    def __init__(self, spec: WordsSpec) -> None:
        """Give the words of ``spec``."""
        self._words = WordSource(spec)

    def splits(self) -> list[ps.SplitState]:
        """List the splits."""
        return self._words.splits()

    def prepare(self) -> None:
        """Generate the block of words before rows are needed."""
        self._words.prepare()

    def open(self, state: ps.SplitState) -> "OwnReader":
        """Open a split at its offset."""
        return OwnReader(self._words.open(state))


class OwnReader:
    """Reads one split, ``max_rows`` at a time."""

    def __init__(self, words: WordReader) -> None:
        """Read from ``words``."""
        self.read = words.read
        self.state = words.state
        self.committed = words.committed
        self.close = words.close


def job(params: Mapping[str, Any]) -> ps.Job:
    """Build the word count of a scenario."""
    made = ps.Job()
    spec = WordsSpec(
        splits=int(params["splits"]),
        rows=int(params["rows"]),
        payload=int(params["payload"]),
        keys=int(params["keys"]),
        symbols=int(params["symbols"]),
    )
    words = made.source("words", OwnWords(spec), batch_rows=int(params["batch_rows"]))
    counts = words.key_by("word").aggregate("counts", count=ps.count())
    options = {"report": params["report"], "mark_after": float(params["mark_after"])}
    counts.sink("end", Connector("discard", options))
    return made
