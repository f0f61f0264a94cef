"""A sink for measurements: it drops the rows, and counts and sums them.

It counts rows and adds up every int64 column (modulo 2^64). For running counts of words the sum is
known: n(n+1)/2 for a word that occurs n times. So a lost, repeated or misrouted row shows. With a
folder ``report``, the totals of each epoch are published there exactly once, as JSON. Latency
markers are counted by their age, in buckets of less than one per cent. Rows are also counted by the
tenth of a second in which they came, and ages by the second, so that a pause shows. The clock is the
machine's monotonic clock, which all processes share.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError, StorageError
from penstock.base.os_errors import storage_error
from penstock.base.threads import monotonic
from penstock.connectors.file_sink import visible_name
from penstock.connectors.published import REPORT_OWNER, SUFFIXES
from penstock.contract.codec import parsed
from penstock.contract.columns import HIDDEN_PREFIX
from penstock.contract.ids import Attempt, Epoch, TaskId
from penstock.contract.manifest import SinkHandle
from penstock.model.arrays import fixed

Totals = dict[str, int]
REPORTS = SUFFIXES["discard"]
LATENCY_PREFIX = "latency_us."  # followed by the lower end of the bucket
LATENCY_AT_PREFIX = "latency_at."  # followed by the second, a dot, the lower end of the bucket
ROWS_AT_PREFIX = "rows_at."  # followed by the tick
TICKS_PER_S = 10
_EXACT_BITS = 8  # significant bits of a bucket


@dataclass(frozen=True, slots=True)
class DiscardSpec:
    """The options. ``report`` is a folder. For ``stall_for_s`` seconds the sink once has no room.

    Latency marks of the first ``mark_after_s`` seconds (warming up) are not counted.
    """

    report: str | None = None
    stall_after_s: float = 0.0
    stall_for_s: float = 0.0
    mark_after_s: float = 0.0


def bucket(latency_ns: int) -> int:
    """Return the lower end (us) of the bucket that an age falls into."""
    micros = max(latency_ns, 0) // 1000
    extra = max(micros.bit_length() - _EXACT_BITS, 0)
    return micros >> extra << extra


class DiscardSink:
    """Makes the writers of one sink step."""

    guarantee = "none"

    def __init__(self, step: str, schema: pa.Schema, spec: DiscardSpec = DiscardSpec()) -> None:
        """Count rows and the int64 columns of ``schema``."""
        self._step = step
        self._summed = tuple(f.name for f in schema if f.type == pa.int64() and not f.name.startswith(HIDDEN_PREFIX))
        self._spec = spec
        self._report = Path(spec.report) if spec.report else None
        self.publisher = DiscardPublisher(step, self._report)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Make the report folder.

        Raises ConfigError when this user may not make it, or when it holds reports of another job,
        even if this job is ``fresh``. Raises StorageError when a retry may help.
        """
        if self._report is None:
            return
        try:
            self._report.mkdir(parents=True, exist_ok=True)
            marker = self._report / REPORT_OWNER
            if marker.exists() and marker.read_text() == job_uid:
                return
            if any(self._report.glob(f"*{REPORTS}")):
                raise ConfigError(f"discard sink: {self._report} holds another run's reports")
            marker.write_text(job_uid)
        except OSError as error:
            raise storage_error(f"discard sink: cannot write to {self._report}", error) from error

    def sweep(self, attempt: Attempt) -> None:
        """Nothing is staged."""

    def writer(self, task: TaskId, attempt: Attempt) -> "DiscardWriter":
        """Make the writer of one task."""
        return DiscardWriter(self._step, task, self._summed, self._spec)

    def close(self) -> None:
        """Nothing to release."""


class DiscardWriter:
    """Counts the rows of one task."""

    guarantee = DiscardSink.guarantee

    def __init__(self, step: str, task: TaskId, summed: tuple[str, ...], spec: DiscardSpec = DiscardSpec()) -> None:
        """Add up the columns named in ``summed``."""
        self._spec = spec
        self._first_at: float | None = None
        self._step = step
        self._task = task
        self._summed = summed
        self._cuts = 0
        self._clear()

    def room(self) -> bool:
        """Return True, except during the stall that the options ask for."""
        if not self._spec.stall_for_s or self._first_at is None:
            return True
        return not 0 <= self._age() - self._spec.stall_after_s < self._spec.stall_for_s

    def mark(self, latency_ns: int) -> None:
        """Count the age of a latency marker."""
        if self._age() < self._spec.mark_after_s:
            return
        age = bucket(latency_ns)
        self._add(f"{LATENCY_PREFIX}{age}", 1)
        self._add(f"{LATENCY_AT_PREFIX}{int(monotonic())}.{age}", 1)

    def write(self, batch: pa.RecordBatch) -> None:
        """Count and drop."""
        now = monotonic()
        if self._first_at is None:
            self._first_at = now
        self._totals["rows"] += batch.num_rows
        tick = int(now * TICKS_PER_S)
        self._ticks[tick] = self._ticks.get(tick, 0) + batch.num_rows
        for name in self._summed:
            self._totals[name] += _sum(batch.column(name))

    def _age(self) -> float:
        """Return the seconds since the first rows; 0 before."""
        return 0.0 if self._first_at is None else monotonic() - self._first_at

    def seal(self, epoch: Epoch, name: str) -> "DiscardPending":
        """Cut the totals so far."""
        self._cuts += 1
        for tick, rows in self._ticks.items():
            self._add(f"{ROWS_AT_PREFIX}{tick}", rows)
        data = json.dumps({"cut": self._cuts, "totals": self._totals}, sort_keys=True)
        handle = SinkHandle(self._step, self._task, epoch, data, self._totals["rows"], 0)
        self._clear()
        return DiscardPending(handle)

    def close(self) -> None:
        """Drop the totals."""
        self._clear()

    def _add(self, name: str, count: int) -> None:
        self._totals[name] = self._totals.get(name, 0) + count

    def _clear(self) -> None:
        self._totals: Totals = {"rows": 0, **dict.fromkeys(self._summed, 0)}
        self._ticks: dict[int, int] = {}


class DiscardPending:
    """The totals of one cut. They are in the handle, so nothing can fail."""

    def __init__(self, handle: SinkHandle) -> None:
        """Hold the handle."""
        self._handle = handle

    def finish(self) -> SinkHandle | None:
        """Return the handle; None when there were no rows."""
        return self._handle if self._handle.rows else None


class DiscardPublisher:
    """Writes the totals of committed epochs to the report folder, if there is one."""

    def __init__(self, step: str, report: Path | None) -> None:
        """Publish into ``report``; None publishes nothing."""
        self._step = step
        self._report = report

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Write the totals; writing them again is no error. Raises StorageError."""
        if self._report is None:
            return
        found = parsed(handle.data)
        name = visible_name(self._step, handle, epoch, (found["cut"], 0))
        target = self._report / Path(name).with_suffix(".json")
        temporary = target.with_suffix(".new")
        try:
            temporary.write_text(json.dumps(found["totals"], sort_keys=True))
            temporary.replace(target)  # every worker writes the same content
        except OSError as error:
            raise StorageError(f"discard sink: cannot write {target}: {error}") from error

    def discard(self, handle: SinkHandle) -> None:
        """Nothing is staged."""

    def forget(self, handle: SinkHandle) -> None:
        """Nothing is staged."""


def read_reports(folder: Path) -> Totals:
    """Add up all published totals of a folder."""
    totals: Totals = {}
    for file in sorted(folder.glob("*.json")):
        for name, value in parsed(file.read_text()).items():
            totals[name] = totals.get(name, 0) + int(value)
    return totals


def _sum(column: pa.Array) -> int:
    """Add up an int64 column, modulo 2^64. Without nulls, numpy is ten times cheaper than Arrow."""
    if column.null_count:
        return int(pc.sum(column).as_py() or 0)
    return int(np.add.reduce(fixed(column, np.int64)))  # what .sum() calls, in fewer steps
