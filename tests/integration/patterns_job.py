"""Nested pipelines and farms of nodes; ``test_patterns`` knows the answers.

It is copied beside the job file and imported by the engines, as a user's module is.
"""

from typing import Any, ClassVar

import penstock as ps

COLUMNS = {"entity": "string", "n": "int64"}


class Clean(ps.SeqNode):
    """Drops every third row."""

    columns: ClassVar = COLUMNS

    def consume(self, x: dict[str, Any]) -> None:
        if x["n"] % 3:
            self.send_next(x)


class Twice(ps.SeqNode):
    """Sends every row twice, and numbers the two."""

    columns: ClassVar = {**COLUMNS, "nth": "int64"}

    def on_start(self) -> None:
        self.numbers = (0, 1)

    def consume(self, x: dict[str, Any]) -> None:
        for nth in self.numbers:
            self.send_next({**x, "nth": nth})


class Scale(ps.SeqNode):
    """Multiplies n."""

    columns: ClassVar = Twice.columns

    def __init__(self, name: str, factor: int) -> None:
        self.name = name
        self.factor = factor

    def consume(self, x: dict[str, Any]) -> None:
        self.send_next({**x, "n": self.factor * x["n"]})


def job(parameters: ps.Parameters) -> ps.Job:
    job = ps.Job()
    connector = ps.parquet(parameters["input"], rate=parameters.integer("rate"))
    rows = job.source("rows", connector, columns=COLUMNS, batch_rows=64)
    inner = ps.Pipeline(Scale("by two", 2), ps.Farm(Scale("by three", 3), 2, on="entity"))
    pattern = ps.Pipeline(Clean(), ps.Farm(ps.Pipeline(Twice(), ps.Farm(inner, 3, on="entity")), 4, on="entity"))
    pattern.on(rows).sink("out", ps.parquet(parameters["output"]))
    return job
