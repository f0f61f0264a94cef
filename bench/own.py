"""Reads the generator's words through a user's own source, to measure what users' sources cost.

The built-in generator joins small batches in compiled code (``gather``). No other source can do this.
Here the rows come only by ``read``, so a batch costs as much as for a user's source. The source also measures the
garbage collector of its engine.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import penstock as ps
from bench import stages
from bench.garbage import Collections
from penstock.connectors.generator import SCHEMA, WordReader, WordSource
from penstock.contract.connectors import WordsSpec
from penstock.contract.graph import Connector
from penstock.contract.ids import Epoch


class OwnWords:
    """The splits of the generator, without ``gather``."""

    schema = SCHEMA
    bounded = True

    def __init__(self, spec: WordsSpec, report: Path) -> None:
        """Give the words of ``spec``. ``report`` is the folder of the totals."""
        self._words = WordSource(spec)
        self._report = report

    def splits(self) -> list[ps.SplitState]:
        """List the splits."""
        return self._words.splits()

    def prepare(self) -> None:
        """Generate the block of words before rows are needed."""
        self._words.prepare()

    def open(self, state: ps.SplitState) -> "OwnReader":
        """Open a split at its offset."""
        collections = Collections(self._report)
        return OwnReader(self._words.open(state), lambda epoch, state: collections.tell())


class OwnReader:
    """Reads one split, ``max_rows`` at a time."""

    def __init__(self, words: WordReader, committed: Callable[[Epoch, ps.SplitState], None]) -> None:
        """Read from ``words``. ``committed`` is called after each checkpoint."""
        self.read = words.read
        self.state = words.state
        self.committed = committed
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
    source = OwnWords(spec, Path(params["report"]))
    words = made.source("words", source, batch_rows=int(params["batch_rows"]))
    if params["step"] == "record":
        words = words.map("record", stages.record, per="record", columns={"word": "string"})
    counts = words.key_by("word").aggregate("counts", count=ps.count())
    options = {"report": params["report"], "mark_after": float(params["mark_after"])}
    counts.sink("end", Connector("discard", options))
    return made
