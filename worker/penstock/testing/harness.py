"""``penstock.testing.run``: a job under the hands of a test, step by step, in the test's thread."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.contract.chosen_rows import Top, WindowTop
from penstock.contract.event_time import EventTime as EventTimeRule
from penstock.contract.graph import RIGHT, AsOf, Enrich, Join, Lookup, Session, Source, Window
from penstock.graph.compiled import CompiledStep
from penstock.inprocess.collect import Rows, Shown
from penstock.inprocess.list_source import Item, Marker
from penstock.inprocess.prepare import Inputs, JobLike, Prepared, prepare
from penstock.inprocess.run import Result, positive, result_of, resume, rows_of, stopped_at
from penstock.inprocess.shown_rows import shown_rows
from penstock.inprocess.tasks import InProcessTasks, Stored
from penstock.steps.typed.state_contents import state_objects
from penstock.testing.clock import EventTime, EvenWork, StandingClock, event_time_us

State = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A checkpoint of a run and the rows that were visible then; for :meth:`Run.restore`."""

    stored: Stored
    shown: Mapping[str, Shown]


class Run:
    """A job that works when it is told to; made by :func:`run`, and a context manager.

    Rows are visible when a checkpoint is committed, as those of a sink of files are. Time stands
    still: nothing happens because a test is slow.
    """

    def __init__(self, prepared: Prepared, workers: int, snapshot: Snapshot | None = None) -> None:
        """Start the tasks; :func:`run` prepares the job."""
        self.clock = StandingClock()
        self._prepared = prepared
        stored = None if snapshot is None else snapshot.stored
        self._tasks = InProcessTasks(prepared.job, workers, self.clock, EvenWork(), stored)
        for name, shown in ({} if snapshot is None else snapshot.shown).items():
            prepared.sinks[name].show(shown)
        self._finished = False
        try:
            self._tasks.start()
        except BaseException:
            self._tasks.close()
            raise

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run where it stands; nothing of it stays behind."""
        self._tasks.close()

    # --- What happens ---------------------------------------------------------------------------

    def run(self) -> Marker | None:
        """Work until a PAUSE, or until nothing is left to read.

        Returns ``PAUSE`` at one (the next call goes on behind it), ``EOF`` when the input has ended
        and all output is visible, and None when a source without end has no more rows now.
        At an ABORT the job dies and begins again from its newest checkpoint, and the call goes on.
        Raises what a function of the job raises.
        """
        if self._finished:
            return Marker.EOF
        if self._stands() is Marker.PAUSE:
            resume(self._prepared)
        while True:
            self._tasks.settle()
            if self._tasks.exhausted:
                self._tasks.finish()
                self._finished = True
                return Marker.EOF
            stop = self._stands()
            if stop is not Marker.ABORT:
                return stop
            resume(self._prepared)
            self._tasks.restart()

    def _stands(self) -> Marker | None:
        return stopped_at(self._prepared)

    def push(self, source: str, items: Iterable[Item], partition: int = 0) -> None:
        """Add rows to a list source without end and process them, as :meth:`run` does."""
        lists = self._prepared.lists
        if source not in lists:
            raise ConfigError(f"push: {unknown('list source', source, lists)}")
        lists[source].push(items, partition)
        self.run()

    def watermark(self, source: str, time: EventTime) -> None:
        """Let the event time of a list source reach ``time`` without a row, and do what is due then.

        The effect on time is that of a row with ``time`` plus the source's bound for rows out of order. For
        ``time`` see :func:`penstock.testing.clock.event_time_us`: ``"10:05"`` is on the day of the
        latest row or watermark. Event time never falls: an earlier ``time`` changes nothing.
        Raises ConfigError for a source without event time.
        """
        lists = self._prepared.lists
        if source not in lists:
            raise ConfigError(f"watermark: {unknown('list source', source, lists)}")
        rule = self._event_time(source)
        if rule is None:
            raise ConfigError(f"watermark: source {source!r} has no event time: declare it with event_time=")
        reached_us = event_time_us(time, lists[source].latest(rule) or 0)
        lists[source].reach(reached_us + rule.out_of_orderness_us)
        self.run()

    def _event_time(self, source: str) -> EventTimeRule | None:
        parameters = self._nodes(source)[0].parameters
        return parameters.event_time if isinstance(parameters, Source) else None

    def advance(self, duration: str | float) -> None:
        """Let time go on by ``"5m"``, or by seconds: sources that are silent so long are idle."""
        self._tasks.settle()
        self.clock.advance(duration)
        self._tasks.settle()

    def checkpoint(self) -> None:
        """Take a checkpoint: what was read until now is in it, and its output visible."""
        if not self._finished:
            self._tasks.checkpoint()

    def abort(self) -> None:
        """Let the job die now and begin again from its newest checkpoint, as ABORT does."""
        if self._finished:
            raise ConfigError("abort: the job has finished")
        self._tasks.restart()

    def snapshot(self) -> Snapshot:
        """Take a checkpoint and return it."""
        if self._finished:
            raise ConfigError("snapshot: the job has finished")
        stored = self._tasks.checkpoint()
        stored = stored._replace(blobs=stored.blobs.copy())
        return Snapshot(stored, {name: sink.keep() for name, sink in self._prepared.sinks.items()})

    def restore(self, snapshot: Snapshot, *, workers: int = 1) -> "Run":
        """End this run and begin another one from a snapshot, with so many workers."""
        self.close()
        return Run(self._prepared, positive(workers), snapshot)

    # --- What can be seen -----------------------------------------------------------------------

    def rows(self, sink: str) -> Rows:
        """Return the rows of a sink that are visible: those of committed checkpoints."""
        sinks = self._prepared.sinks
        if sink not in sinks:
            raise ConfigError(f"rows: {unknown('collecting sink', sink, sinks)}")
        return rows_of(self._prepared, sink, sinks[sink])

    def state(self, step: str) -> State:
        """Return what a step keeps, by key: of one key column its value, of several a tuple.

        Of a window the key is followed by its start. Values are dicts of the state columns, or of the
        computed ones. Of a function with types they are objects of its ``ps.state``: ``state["A"].total``.
        A step that may keep several rows of a key has lists of them: ``top``, the best row first; a join by an
        interval or by event time, with side and times of each bucket of rows; rows that wait for an answer.
        Raises ConfigError for a step that keeps nothing.
        """
        keys, several = self._keys(step), any(_keeps_several(node.parameters) for node in self._nodes(step))
        state: State = {}
        for batch in self._tasks.state(step):
            names = shown_rows(batch.select(keys)) if keys else [{}] * batch.num_rows
            for key, values in zip(names, self._values(step, batch.drop_columns(keys)), strict=True):
                found = tuple(key.values())
                own = found[0] if len(keys) == 1 else found
                if several:
                    state.setdefault(own, []).append(values)
                else:
                    state[own] = values
        return state

    def _values(self, step: str, batch: pa.RecordBatch) -> list[Any]:
        types = next((node.types for node in self._nodes(step)), None)
        if types is None or types.state is None:
            rows: list[Any] = shown_rows(batch)
            return rows
        return state_objects(types.state, batch)

    def _nodes(self, step: str) -> list[CompiledStep]:
        return [node for stage in self._prepared.job.stages for node in stage.nodes if node.name == step]

    def _keys(self, step: str) -> list[str]:
        keys: list[str] = []
        for node in self._nodes(step):
            keys += node.side(RIGHT).keys if _is_table(node.parameters) else node.keys
            keys += ["window_start"] * _has_windows(node.parameters)
        return keys

    def result(self) -> Result:
        """Return the visible rows and the counts of late rows and dead letters until now."""
        return result_of(self._prepared, self._tasks, complete=self._finished)


def _has_windows(parameters: object) -> bool:
    """Return whether a step keeps windows, so that a key has several."""
    joins = isinstance(parameters, Join) and parameters.within_us is not None
    return joins or isinstance(parameters, Window | Session)


def _is_table(parameters: object) -> bool:
    """Return whether a step keeps the newest row of each key of its right side, in the columns of that side."""
    return isinstance(parameters, Join) and parameters.as_of is AsOf.NOW


def _keeps_several(parameters: object) -> bool:
    """Return whether a step may show several rows of a key that nothing tells apart."""
    if isinstance(parameters, Join):
        return parameters.within_us is None and not _is_table(parameters)
    return isinstance(parameters, Top | WindowTop | Enrich | Lookup)


def run(
    job: JobLike,
    params: Mapping[str, object] | None = None,
    *,
    inputs: Inputs | None = None,
    collect: Collection[str] | bool = True,
    workers: int = 1,
) -> Run:
    """Start a job that works when it is told to: ``with run(job) as t: t.run()``.

    The arguments are those of :func:`penstock.run`, with two differences. All sinks collect their rows
    unless ``collect`` names some. A source that ``inputs`` does not name is a list without end, to which
    :meth:`Run.push` adds rows, if it declares its columns and is no object of Python. To read what the
    job says, name it: ``inputs={"orders": ...}``. Raises ConfigError when the job cannot run.
    """
    prepared = prepare(job, params, inputs, collect, pushed=True)
    for source in prepared.lists.values():
        source.begin()
    return Run(prepared, positive(workers))
