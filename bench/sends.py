"""A node that sends words to a slow farm: it waits (``send_next``), or sheds what finds a queue (``send_next_if``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import penstock as ps
from bench.stages import row_100us
from penstock.connectors.discard_sink import read_reports
from penstock.contract.graph import Connector

QUEUE = 1000
SHED = "shed"  # the folder of the totals of rows that were shed, within that of the others


class Waits(ps.SeqNode):
    """Waits for the farm."""

    columns: ClassVar = {"word": "string"}

    def consume(self, x: dict[str, Any]) -> None:
        """Send the word."""
        self.send_next(x)


class Sheds(ps.SeqNode):
    """Never waits."""

    columns: ClassVar = {"word": "string"}

    def consume(self, x: dict[str, Any]) -> None:
        """Send the word if fewer than ``QUEUE`` are outstanding."""
        self.send_next_if(x, queue=QUEUE)


NODES: dict[str, type[ps.SeqNode]] = {"send_next": Waits, "send_next_if": Sheds}


def job(params: Mapping[str, Any]) -> ps.Job:
    """Build the job of a scenario: words, a node, two tasks that take 100 us for each word, a sink."""
    made = ps.Job()
    words = {name: int(params[name]) for name in ("rows", "rate", "splits", "payload", "keys", "symbols")}
    connector = Connector("generator", dict(words))
    source = made.source("words", connector, batch_rows=int(params["batch_rows"]), parallelism=1)
    sent = ps.pipeline(node=NODES[params["step"]]()).on(source)
    end = {"report": params["report"], "mark_after": float(params["mark_after"])}
    sent.key_by("word").parallel(2).map("counts", row_100us).sink("end", Connector("discard", end))
    if params["step"] == "send_next_if":
        sent.output("shed").sink("shed", Connector("discard", {"report": str(Path(params["report"]) / SHED)}))
    return made


def shed_rows(report: Path) -> int:
    """Return how many rows were shed, of all epochs that are published."""
    return read_reports(report / SHED).get("rows", 0)
