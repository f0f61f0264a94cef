"""Examples that are altered to be measured: replicas of each step, a source in memory, sinks that count.

The job function of an example makes the job. Then its steps are changed; its functions stay as they are.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from bench.application_inputs import EXAMPLES
from penstock.base.limits import SOURCE_REST_MAX_S
from penstock.base.values import replace
from penstock.contract.graph import Connector, Sink, Source, Step
from penstock.contract.ids import SplitId
from penstock.graph.arguments import connector_of
from penstock.graph.draft import CONNECTOR
from penstock_spark import equipment

STEP_NS = 10_000_000  # between two readings


def replicas(params: ps.Parameters) -> ps.Job:
    """Build the job of ``example`` with so many ``replicas`` of each step."""
    made = _built(params)
    made.draft.steps[:] = [replace(step, parallelism=params.integer("replicas")) for step in made.draft.steps]
    return made


def gated(params: ps.Parameters) -> ps.Job:
    """Build the job of ``example`` over readings in memory, which begin when the file ``gate`` is there."""
    made = _built(params)
    readings = Readings(params.integer("rows"), Path(params["gate"]))
    made.draft.steps[:] = [_between(step, readings) for step in made.draft.steps]
    made.draft.functions["readings", CONNECTOR] = readings
    return made


def _built(params: ps.Parameters) -> ps.Job:
    sys.path.insert(0, str(EXAMPLES))
    made: ps.Job = import_module(params["example"]).job(params)
    return made


def _between(step: Step, readings: "Readings") -> Step:
    """Return a step that reads ``readings`` if it is the source, and drops rows if it is a sink."""
    if isinstance(step.parameters, Source):
        return replace(step, parameters=replace(step.parameters, connector=connector_of(readings)))
    if isinstance(step.parameters, Sink):
        return replace(step, parameters=replace(step.parameters, connector=Connector("discard")))
    return step


def block() -> pa.RecordBatch:
    """Return readings that may be repeated: at their end all bits are as at the beginning, and no valve is due."""
    table = equipment.rows_of(equipment.EquipmentRequest(1 << 18, 1), 0).select(["ts", *equipment.BITS, "machine"])
    bits = {name: np.asarray(table[name]).astype(np.int8) for name in equipment.BITS}
    changes = {name: np.cumsum(np.diff(each, prepend=each[0]) != 0) for name, each in bits.items()}
    even = np.all([each % 2 == 0 for each in changes.values()], axis=0)
    answered = np.all([changes[sensor] == changes[valve] for sensor, valve in equipment.PAIRS], axis=0)
    end = int(np.flatnonzero(even & answered)[-1]) + 1
    return table.slice(0, end).combine_chunks().to_batches()[0]


def delays_of(rows: pa.RecordBatch) -> int:
    """Return how often a valve changes."""
    valves = (np.asarray(rows[valve]).astype(np.int8) for _, valve in equipment.PAIRS)
    return sum(int(np.count_nonzero(np.diff(bits))) for bits in valves)


class Readings:
    """A source of one machine: a block of readings, again and again, ``rows`` in all."""

    bounded = True

    def __init__(self, rows: int, gate: Path) -> None:
        """Begin when there is a file ``gate``."""
        self.block = block()
        self.schema = self.block.schema
        self.rows = rows
        self.gate = gate

    def splits(self) -> list[ps.SplitState]:
        """List the one split."""
        return [ps.SplitState(SplitId("machine"), str(self.rows), 0)]

    def open(self, state: ps.SplitState) -> "ReadingsReader":
        """Go on at an offset."""
        return ReadingsReader(self.block, self.gate, state)


class ReadingsReader:
    """Reads slices of the block. Its times go on from one repetition to the next."""

    def __init__(self, rows: pa.RecordBatch, gate: Path, state: ps.SplitState) -> None:
        """Go on at the offset of ``state``."""
        self._block, self._gate = rows, gate
        self._split, self._spec, self._offset = state.split, state.spec, state.offset
        self._end = int(state.spec)
        self._is_open = False

    def read(self, max_rows: int) -> ps.Read | None:
        """Return the next rows; None at the end, and as long as the gate is not there."""
        self._is_open = self._is_open or self._gate.exists()
        if not self._is_open or self._offset == self._end:
            return None
        first, size = self._offset, len(self._block)
        turn, place = divmod(first, size)
        rows = self._block.slice(place, min(max_rows, self._end - first))
        self._offset += len(rows)
        columns: list[Any] = rows.columns
        return ps.Read(
            pa.RecordBatch.from_arrays([pc.add(columns[0], turn * size * STEP_NS), *columns[1:]], schema=rows.schema),
            first,
        )

    def wait_s(self) -> float:
        """Return for how long there will be no rows, so that the source may rest."""
        return 0.0 if self._is_open else SOURCE_REST_MAX_S

    def state(self) -> ps.SplitState:
        """Return where the next read begins."""
        return ps.SplitState(self._split, self._spec, self._offset, self._offset == self._end)

    def committed(self, epoch: int, state: ps.SplitState) -> None:
        """Do nothing: readings are made anew."""

    def close(self) -> None:
        """Do nothing."""
