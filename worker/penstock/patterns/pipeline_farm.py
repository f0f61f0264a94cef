"""Pipeline and farm: two patterns of steps without state, applied to a stream.

    pipeline(a, b, c)        a -> b -> c, chained: rows stay in their task, their order is kept
    farm(work, workers=4)    4 tasks run one function: rows go to them in turn, or by key

Both are values: build one once, and apply it to any stream with ``.on(stream)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from penstock.base.errors import ConfigError
from penstock.graph.builder import ColumnsLike, OnErrorLike, PerLike, Stream

Deal = Literal["round-robin", "key", "broadcast"]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A chain of named functions. Rows stay in their task from the first to the last."""

    stages: tuple[tuple[str, Callable[..., Any]], ...]
    per: PerLike = "batch"

    def on(self, stream: Stream) -> Stream:
        """Append the stages to a stream and return the output of the last one."""
        for name, function in self.stages:
            stream = stream.flat_map(name, function, per=self.per)
        return stream


@dataclass(frozen=True, slots=True)
class Farm:
    """One function that several tasks run. ``deal`` says how rows are partitioned among them.

    ``round-robin`` gives all tasks as many batches, but does not keep the order per key. ``key``
    keeps this order.
    """

    name: str
    function: Callable[..., Any]
    workers: int | None = None
    deal: Deal = "round-robin"
    keys: tuple[str, ...] = ()
    columns: ColumnsLike = None
    per: PerLike = "batch"
    on_error: OnErrorLike = "fail"

    def on(self, stream: Stream) -> Stream:
        """Append the farm to a stream and return the output of all its tasks."""
        partitioned = self._partitioned(stream)
        if self.workers is not None:
            partitioned = partitioned.parallel(self.workers)
        return partitioned.flat_map(
            self.name, self.function, columns=self.columns, per=self.per, on_error=self.on_error
        )

    def _partitioned(self, stream: Stream) -> Stream:
        match self.deal:
            case "key":
                return stream.key_by(*self.keys)
            case "broadcast":
                return stream.broadcast()
            case _:
                return stream.round_robin()


def pipeline(**stages: Callable[..., Any]) -> Pipeline:
    """Build a pipeline of named batch functions, in order: ``pipeline(parse=f, clean=g)``.

    Raises ConfigError if there is none.
    """
    if not stages:
        raise ConfigError("a pipeline needs at least one stage: pipeline(parse=parse)")
    return Pipeline(tuple(stages.items()))


def farm(
    name: str,
    function: Callable[..., Any],
    *,
    workers: int | None = None,
    keys: tuple[str, ...] = (),
    columns: ColumnsLike = None,
    per: PerLike = "batch",
    on_error: OnErrorLike = "fail",
) -> Farm:
    """Build a farm of ``workers`` tasks. None means one per worker.

    With ``keys``, rows are partitioned by these columns; without, batches go to the tasks in turn.
    """
    deal: Deal = "key" if keys else "round-robin"
    return Farm(name, function, workers, deal, keys, columns, per, on_error)
