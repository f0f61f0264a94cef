"""``ps.run``: a job from its start to its end in the caller's thread."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.units import duration_s
from penstock.cluster.system import SystemClock
from penstock.inprocess.collect import CollectSink, Rows
from penstock.inprocess.list_source import Marker
from penstock.inprocess.prepare import Inputs, JobLike, Prepared, prepare
from penstock.inprocess.tasks import Counts, InProcessTasks


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run. ``result["counts"]`` are the rows of the collecting sink ``counts``.

    ``late``, ``dead_letters`` and ``shed`` count rows by step; ``restarts`` counts the ABORTs on the way.
    ``complete`` is false when the run was ended by ``rows`` or ``timeout``.
    """

    rows: Mapping[str, Rows]
    late: Mapping[str, int]
    dead_letters: Mapping[str, int]
    restarts: int = 0
    complete: bool = True
    shed: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, sink: str) -> Rows:
        """Return the rows of a collecting sink. Raises KeyError naming the nearest one."""
        if sink not in self.rows:
            raise KeyError(f"{unknown('collecting sink', sink, self.rows)} (collect=[...])")
        return self.rows[sink]


def run(
    job: JobLike,
    params: Mapping[str, object] | None = None,
    *,
    inputs: Inputs | None = None,
    collect: Collection[str] | bool = False,
    workers: int = 1,
    rows: int | None = None,
    timeout: str | None = None,
) -> Result:
    """Run a job in this thread until its input has ended; nothing of it stays behind.

    ``job`` is a :class:`penstock.Job` or the function that builds it, which gets ``params``.
    ``inputs`` are lists of rows, read in the place of the sources of these names; ``collect`` names
    the sinks whose rows are in the result instead of where the job writes them (True: all).
    ``workers`` is how many the work is dealt out to; all of them are this thread. The run ends
    early once its sinks have taken ``rows`` rows, or after ``timeout`` (``"30s"``).

    Raises ConfigError when the job cannot run, and what a function of it raises as UserCodeError
    with the record, its place and the cause.
    """
    prepared = prepare(job, params, inputs, collect)
    limits = _Limits(rows, None if timeout is None else _seconds(timeout))
    _check_ends(prepared, limits)
    for source in prepared.lists.values():
        source.begin()
    clock = SystemClock()
    tasks = InProcessTasks(prepared.job, positive(workers), clock, clock.monotonic)
    try:
        tasks.start()
        complete = _drive(tasks, prepared, limits)
    finally:
        tasks.close()
    return result_of(prepared, tasks, complete=complete)


@dataclass(slots=True)
class _Limits:
    """When a run ends before its input does."""

    rows: int | None
    seconds: float | None
    began: float = field(default_factory=SystemClock().monotonic)

    def reached(self, tasks: InProcessTasks) -> bool:
        """Return whether the run has to end."""
        if self.rows is not None and tasks.rows_taken() >= self.rows:
            return True
        return self.seconds is not None and tasks.clock.monotonic() - self.began >= self.seconds


def _drive(tasks: InProcessTasks, prepared: Prepared, limits: _Limits) -> bool:
    """Let the tasks work until the input ends. Return False if a limit was reached first."""
    interval_s = prepared.job.spec.checkpoint.interval_s
    cut_at = tasks.clock.monotonic()
    while not limits.reached(tasks):
        still = not tasks.work()
        if still and tasks.exhausted:
            tasks.finish()
            return True
        stop = stopped_at(prepared) if still else None
        if stop is Marker.ABORT:
            resume(prepared)
            tasks.restart()
        elif stop is Marker.PAUSE or tasks.clock.monotonic() - cut_at >= interval_s:
            tasks.checkpoint()
            cut_at = tasks.clock.monotonic()
            resume(prepared)
        elif still:
            tasks.rest()
    tasks.checkpoint()
    return False


def stopped_at(prepared: Prepared) -> Marker | None:
    """Return the marker at which the lists stand, when nothing is left to read: ABORT before PAUSE."""
    stops = [source.stopped_at() for source in prepared.lists.values()]
    return next((kind for kind in (Marker.ABORT, Marker.PAUSE) if kind in stops), None)


def resume(prepared: Prepared) -> None:
    """Pass the markers at which the lists stand."""
    for source in prepared.lists.values():
        source.resume()


def result_of(prepared: Prepared, tasks: InProcessTasks, *, complete: bool) -> Result:
    """Return the visible rows and the counts of a run until now."""
    counts = tasks.counts()
    return Result(
        {name: rows_of(prepared, name, sink) for name, sink in prepared.sinks.items()},
        dict(_by_step(counts, ("late", "late_after_idle"))),
        dict(_by_step(counts, ("dead_letters",))),
        tasks.restarts,
        complete,
        dict(_by_step(counts, ("shed",))),
    )


def rows_of(prepared: Prepared, name: str, sink: CollectSink) -> Rows:
    """Return the visible rows of a sink, with its columns when there are none."""
    nodes = [node for stage in prepared.job.stages for node in stage.nodes if node.name == name]
    return Rows(sink.batches, nodes[0].input_schema())


def _by_step(counts: Counts, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for step in dict.fromkeys(step for step, name in counts if name in names):
        yield step, sum(counts[step, name] for name in names)


def _check_ends(prepared: Prepared, limits: _Limits) -> None:
    endless = [s.source for s in prepared.job.plan.stages if s.source and not s.bounded]
    if endless and limits.rows is None and limits.seconds is None:
        raise ConfigError(f"source {endless[0]!r} has no end, and neither would the run: give rows= or timeout=")


def _seconds(text: str) -> float:
    try:
        return duration_s(text)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"timeout: {error}") from None


def positive(workers: int) -> int:
    """Return the number of workers. Raises ConfigError when there are none."""
    if workers < 1:
        raise ConfigError(f"workers={workers}: at least one is needed")
    return workers
