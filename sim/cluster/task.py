"""One task of a simulated engine: the real TaskCore and tiny steps.

The shell takes one input at a time, where the core allows it. It performs the core's actions in
their order, and gives the rows that the steps emit back to the core.
"""

from collections import Counter
from typing import Any

from penstock.contract.control_messages import EpochFailed, TaskAck
from penstock.contract.ids import ChannelId, SplitId
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Partitioning, Routes, routes
from penstock.model.elements import BarrierKind, Data
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskSetup
from sim import interval_steps
from sim import workload as job_steps
from sim.cluster.ports import Shell
from sim.cluster.task_files import SimReader, TaskFiles
from sim.firing_steps import FIRING_STEPS, FiringStep, StateChange
from sim.kernel.kernel import Violation
from sim.workload import SimRecord

FIXED_CHARGE = 512
ROW_CHARGE = 64
FIRED_MAX = 1  # windows that fire in one slice
NO_SPLIT = SplitId("")  # of a record that a window has made
_FIRING = {"window": (job_steps.fires, job_steps.LATENESS_US), "long": (job_steps.long_fires, 0)}


class SimTask(TaskFiles):
    """One task in one attempt."""

    def __init__(self, shell: Shell, setup: TaskSetup, root: RootManifest | None) -> None:
        super().__init__(shell, setup, root)
        self.step = shell.job.stage_step(setup.task.stage)
        self.quiet = False
        self.waited = False
        self.busy_until_us = 0
        self._routes: dict[tuple[object, object], tuple[Routes, ...]] = {}

    # --- Input

    def candidates(self) -> list[ChannelId | SplitId | None]:
        """List the inputs that may be taken now. None: the steps may fire on."""
        if self.shell.exchange.congested(self.id):
            self.waited = True
            return []
        inputs = self.shell.exchange.inputs(self.id)
        found: list[ChannelId | SplitId | None] = [c for c, i in inputs if i.queue and self.core.reads(c)]
        found += [
            s for s, r in self.readers.items() if not r.finished and self.core.reads_split(s) and self._readable(s, r)
        ]
        if self.core.fires:
            found.append(None)
        return found

    def _readable(self, split: SplitId, reader: SimReader) -> bool:
        size = len(self.shell.job.input[split])
        return reader.offset < self.shell.available(split) or reader.offset >= size

    def take(self, origin: ChannelId | SplitId | None) -> None:
        """Take one element of a channel, or one batch of a split. None: fire on."""
        if self.waited:
            self.waited = False
            self.tell(ev.ReadBlocked())
        self.quiet = False
        if origin is None:
            self.tell(ev.FireOn())
            return
        if isinstance(origin, ChannelId):
            self.tell(ev.ElementReceived(origin, self.shell.exchange.take(origin)))
            return
        reader = self.readers[origin]
        rows = self.shell.job.input[origin]
        if reader.offset >= len(rows):
            reader.finished = True
            self.tell(ev.SplitEnded(origin))
            return
        stop = min(reader.offset + self.shell.job.shape.batch, self.shell.available(origin))
        batch = rows[reader.offset : stop]
        reader.offset = stop
        data = _data(batch)
        if data.max_ts is not None:
            reader.max_ts = max(data.max_ts, reader.max_ts or 0)
        self.tell(ev.RowsRead(origin, data))

    def rest(self) -> None:
        """Act when no input may be taken: send waiting watermarks, ask silent splits."""
        for split in list(self.readers):
            if self.core.reads_split(split):
                self.tell(ev.SplitEmpty(split))
        if not self.quiet:
            self.quiet = True
            self.tell(ev.InputIdle())

    # --- Actions

    def do(self, action: ev.Action) -> None:
        """Perform one action of the core."""
        match action:
            case ev.ProcessRows(origin, data):
                self._process(origin, data)
            case ev.Send(channel, element):
                self.shell.exchange.put(channel, element)
            case ev.AdvanceWatermark(time_us):
                self._advance(time_us)
            case ev.RelayBarrier(barrier):
                self.shell.spread(barrier)
            case ev.ReportReady():
                self.marks.ready = True
                self.marks.resumed = self.core.state.assignment.version
            case ev.Prepared(version):
                self.marks.prepared = version
            case ev.Resumed(version):
                self.marks.resumed = version
            case ev.ReportFinished():
                self.marks.finished = True
            case _:
                self._do_epoch(action)

    def _do_epoch(self, action: ev.Action) -> None:
        match action:
            case ev.Ack(term, epoch, manifest):
                self.shell.report(TaskAck(self.shell.attempt, term, epoch, manifest))
            case ev.Failed(term, epoch, reason):
                failed = EpochFailed(self.shell.attempt, term, epoch, self.id, reason)
                self.shell.report(failed)
            case ev.Snapshot(barrier, _, _):
                super().do(action)
                if barrier.kind is BarrierKind.RESCALE:
                    self.tell(ev.Paced(self.shell.exchange.windows(self.id)))
            case ev.ConfirmCommitted(epoch):
                self.state.confirm(epoch)
            case ev.CloseSplits(splits):
                for split in splits:
                    del self.readers[split]
            case ev.DropGroups(share):
                self.state.drop(share)
            case ev.AnnounceVersion(version):
                self.shell.exchange.announce(self.id, version)
            case _:
                super().do(action)

    # --- Steps

    def _process(self, origin: object, data: Data[Any]) -> None:
        shape = self.shell.job.shape
        if self.stage.keyed and (took_us := shape.call_us + data.rows * shape.row_us):
            self.shell.monitor.call(self.id, took_us)
            self.shell.exchange.worked(self.id, data, took_us)
            self.busy_until_us = self.shell.kernel.now_us + took_us
        out: list[SimRecord] = []
        for record in data.payload if isinstance(data.payload, tuple) else ():
            if self.step not in {"read", "long", "tally"}:
                self.shell.meet(record.split, record.offset)
            out += self._run(record)
        pieces = self._pieces(out) if out else ()
        if pieces:
            self.tell(ev.Produced(pieces))

    def _run(self, record: SimRecord) -> list[SimRecord]:
        if (step := FIRING_STEPS.get(self.step)) is not None:
            self._change(step.take(self.state.values, record, self.fired.get(self._group(record.key))))
            return []
        match self.step:
            case "read" | "pass":
                return [record]
            case "deal":
                self._check_dealt(record)
                return [record]
            case "x" | "y":
                return [record._replace(branch=self.step)]
            case "window":
                self._window(record)
            case "interval":
                self._keep(record)
            case "long":
                self._long(record)
            case "count":
                self._apply(*job_steps.count_row(self.state.values, record))
            case "join":
                self._apply(*job_steps.join_row(self.state.values, record))
            case "half" | "all":
                if self.step == "all" or job_steps.counts_half(record):
                    self._apply(*job_steps.pair_row(self.state.values, record, self.step))
        return []

    def _check_dealt(self, record: SimRecord) -> None:
        """Check that the record came by the scheme of this task's version: then a key has one receiver at a time."""
        table = self.core.state.assignment
        tasks, scheme = table.stages[self.stage.index].tasks, table.scheme_of(self.stage.name)
        owner = tasks[job_steps.dealt_to(scheme, record.key, len(tasks))]
        if owner != self.id:
            raise Violation("P", f"key {record.key} came to {self.id}; by {scheme!r} {owner} has it")

    def _apply(self, key: tuple[int, ...], value: tuple[int, ...], rows: list[job_steps.Row]) -> None:
        self.state.put(key, value)
        for sink, row in rows:
            self.sinks[sink].rows.append(row)

    def _window(self, record: SimRecord) -> None:
        end = job_steps.window_end(record.ts)
        if job_steps.is_late(record) or job_steps.fires(end, self.fired.get(self._group(record.key))):
            self.sinks["late"].rows.append((record.key, record.split, record.offset))
            return
        key = (record.key, end)
        self.state.put(key, (self.state.values.get(key, (0,))[0] + 1,))

    def _keep(self, record: SimRecord) -> None:
        if interval_steps.is_late(record) or interval_steps.passed(record.ts, self.watermark):
            self.sinks["late"].rows.append((record.key, record.split, record.offset))
        else:
            self.state.put(interval_steps.entry(record), (0, 0))

    def _advance(self, time_us: int) -> None:
        """Fire one slice, and say how far the step has come."""
        fires, lateness = _FIRING.get(self.step, (None, 0))
        self.watermark = reached = time_us
        if self.step == "interval":
            self._join(time_us)
        elif (step := FIRING_STEPS.get(self.step)) is not None:
            reached = self._fire_slice(step, time_us)
        if fires is not None:
            self._told(range(self.plan.max_key_groups), time_us)
            due = sorted((k for k in self.state.values if fires(k[1], time_us)), key=lambda k: (k[1], k))
            self._fire(due[:FIRED_MAX])
            if due[FIRED_MAX:]:
                self.shell.kernel.happened("windows left for the next slice")
                reached = due[FIRED_MAX][1] + lateness - 1
        self.tell(ev.Fired(reached))

    def _fire(self, windows: list[tuple[int, ...]]) -> None:
        out: list[SimRecord] = []
        for key in windows:
            (count,) = self.state.values[key]
            if "out" in self.sinks:
                self.sinks["out"].rows.append((*key[:2], count))
            else:
                out.append(SimRecord(key[0], NO_SPLIT, count, job_steps.fires_at(key[1]) - 1, 0))
            self.state.delete(key)
        if out and (pieces := self._pieces(out)):
            self.tell(ev.Produced(pieces))

    def _fire_slice(self, step: FiringStep, time_us: int) -> int:
        """Fire one slice. Return the time up to which all has fired."""
        self._told(range(self.plan.max_key_groups), time_us)
        for due in step.due(self.state.values, time_us)[:FIRED_MAX]:
            self._change(step.fire(self.state.values, due))
        left = step.due(self.state.values, time_us)
        if not left:
            return time_us
        self.shell.kernel.happened("firings left for the next slice")
        return left[0][0] - 1

    def _change(self, change: StateChange) -> None:
        for key, value in change.put.items():
            self.state.put(key, value)
        for key in change.gone:
            self.state.delete(key)
        for sink, row in change.rows:
            self.sinks[sink].rows.append(row)
        if change.sent and (pieces := self._pieces(list(change.sent))):
            self.tell(ev.Produced(pieces))

    def _long(self, record: SimRecord) -> None:
        """Add the count of a window to a long window. A row behind its time shows that somebody said too much."""
        end = job_steps.long_end(record.ts)
        if job_steps.long_fires(end, self.fired.get(self._group(record.key))):
            self.sinks["out"].rows.append(("late", record.key, record.ts, record.offset))
            return
        key = (record.key, end, job_steps.LONG)
        self.state.put(key, (self.state.values.get(key, (0,))[0] + record.offset,))

    def _group(self, key: int) -> int:
        return job_steps.group_of(key, self.plan.max_key_groups)

    def _join(self, time_us: int) -> None:
        changed, leaving, rows = interval_steps.advanced(self.state.values, time_us)
        for key, value in changed.items():
            self.state.put(key, value)
        for key in leaving:
            self.state.delete(key)
        for sink, row in rows:
            self.sinks[sink].rows.append(row)

    def _pieces(self, records: list[SimRecord]) -> tuple[ev.RoutedRows, ...]:
        pieces: list[ev.RoutedRows] = []
        for table in self._tables():
            match table.edge.partitioning:
                case Partitioning.KEY | Partitioning.CUSTOM:
                    pieces += self._by_record(table, records)
                case _:
                    pieces += [
                        ev.RoutedRows(old, new, _data(tuple(records)))
                        for old, new in zip(table.old, table.new, strict=True)
                    ]
        return tuple(pieces)

    def _by_record(self, table: Routes, records: list[SimRecord]) -> list[ev.RoutedRows]:
        parts: dict[tuple[ChannelId | None, ChannelId | None], list[SimRecord]] = {}
        for record in records:
            if table.edge.partitioning is Partitioning.KEY:
                before = after = self._group(record.key)
                self.sent.setdefault(self.plan.stages[table.edge.receiver].name, Counter())[before] += 1
            else:
                old, new = table.schemes
                before = job_steps.dealt_to(old, record.key, len(table.old))
                after = job_steps.dealt_to(new, record.key, len(table.new))
            parts.setdefault((table.old[before], table.new[after]), []).append(record)
        return [ev.RoutedRows(old, new, _data(tuple(rows))) for (old, new), rows in parts.items()]

    def _tables(self) -> tuple[Routes, ...]:
        old, new = self.core.state.routing
        known = (old.version, None if new is None else new.version)
        if known not in self._routes:
            edges = self.plan.outputs_of(self.id.stage)
            self._routes = {known: tuple(routes(self.plan, e, self.id, old, new) for e in edges)}
        return self._routes[known]


def _data(records: tuple[SimRecord, ...]) -> Data[Any]:
    times = [r.ts for r in records]
    charge = FIXED_CHARGE + ROW_CHARGE * len(records)
    return Data(records, len(records), charge, min(times, default=None), max(times, default=None))
