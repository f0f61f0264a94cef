"""Pipeline and farm: two shapes of steps without state, applied to a stream.

    pipeline(a, b, c)        a -> b -> c, chained: rows stay in their task, order is kept
    farm(work, workers=4)    rows dealt to 4 tasks of one worker function: round-robin, or by key

Both are values: built once, used on any stream with ``.on(stream)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from penstock.base.errors import ConfigError
from penstock.graph.builder import ColumnsLike, OnErrorLike, PerLike, Stream

Deal = Literal["round-robin", "key", "broadcast"]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages in a row, each a name and a batch function; nothing is dealt out between them."""

    stages: tuple[tuple[str, Callable[..., Any]], ...]
    per: PerLike = "batch"

    def on(self, stream: Stream) -> Stream:
        """Append the stages to a stream and return what comes out of the last."""
        for name, function in self.stages:
            stream = stream.flat_map(name, function, per=self.per)
        return stream


@dataclass(frozen=True, slots=True)
class Farm:
    """One function on several tasks; ``deal`` says how rows find a task.

    Round-robin balances and does not keep the order per key; ``key`` keeps it.
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
        """Append the farm to a stream and return what comes out of all its tasks."""
        dealt = self._dealt(stream)
        if self.workers is not None:
            dealt = dealt.parallel(self.workers)
        return dealt.flat_map(
            self.name, self.function, columns=self.columns, per=self.per, on_error=self.on_error
        )

    def _dealt(self, stream: Stream) -> Stream:
        match self.deal:
            case "key":
                return stream.key_by(*self.keys)
            case "broadcast":
                return stream.broadcast()
            case _:
                return stream.round_robin()


def pipeline(**stages: Callable[..., Any]) -> Pipeline:
    """Build a pipeline of named batch functions, in order: ``pipeline(parse=f, clean=g)``."""
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
    """Build a farm of ``workers`` tasks (None: one per worker); ``keys`` deal rows by key."""
    deal: Deal = "key" if keys else "round-robin"
    return Farm(name, function, workers, deal, keys, columns, per, on_error)
