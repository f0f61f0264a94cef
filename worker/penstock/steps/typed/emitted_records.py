"""What a function emits: ``out.emit(record)`` and ``out.to("rare", record)``."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.suggest import unknown
from penstock.contract.graph import MAIN
from penstock.model.arrays import Int32s
from penstock.model.declared.record_types import RecordType
from penstock.steps.typed.record_writer import RecordWriter, Values
from penstock.steps.typed.undo_log import UndoLog

Schemas = Mapping[str, pa.Schema]
EmittedRows = tuple[pa.RecordBatch, Int32s]
"""Rows, and for each of them the number of its record among the accepted ones of the call."""


class OutProxy:
    """The object that functions get. It has the methods ``emit`` and ``to``, and nothing else."""

    __slots__ = ("emit", "to")

    def __init__(self, records: "EmittedRecords") -> None:
        """Emit into ``records``."""
        self.emit = records.emit
        self.to = records.to


class EmittedRecords:
    """The records that a function has emitted to each output. They are taken back with the record that emitted them."""

    def __init__(self, records: Mapping[str, RecordType], schemas: Schemas, log: UndoLog) -> None:
        """Take ``records`` by output, and make rows of ``schemas`` of them."""
        self._writers = {output: RecordWriter(record, schemas[output]) for output, record in records.items()}
        self._rows: dict[str, list[tuple[int, Values]]] = {output: [] for output in records}
        self._log = log
        self._main = self._writers[MAIN]
        self.record = 0  # the number of the record for which the function is called, among the accepted ones
        self.out = OutProxy(self)

    def emit(self, record: Any) -> None:
        """Emit a record to the main output. Raises TypeError or ValueError for one that does not fit."""
        self._log.append(self._rows[MAIN], (self.record, self._main.values(record)))

    def to(self, output: str, record: Any) -> None:
        """Emit a record to a named output. Raises ValueError if the hint of the function does not name it."""
        if output not in self._writers:
            raise ValueError(unknown("output", output, self._writers))
        self._log.append(self._rows[output], (self.record, self._writers[output].values(record)))

    def schema(self, output: str) -> pa.Schema:
        """Return the schema of an output."""
        return self._writers[output].schema

    def take(self) -> dict[str, EmittedRows]:
        """Return the rows of each output, and forget them."""
        taken = {}
        for output, rows in self._rows.items():
            numbers = np.array([record for record, _ in rows], np.int32)
            taken[output] = self._writers[output].batch([values for _, values in rows]), numbers
            self._rows[output] = []
        return taken
