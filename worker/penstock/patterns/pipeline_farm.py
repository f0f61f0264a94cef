"""Pipeline and farm: patterns of steps without state, which nest and are applied to a stream.

    Pipeline(a, b, c)        a -> b -> c: rows stay in their task, and keep their order
    Farm(b, 4, on="entity")  4 tasks run b: rows go to them by key; without ``on`` in turn

A part is a node (:class:`SeqNode`), a function that takes and gives a batch, a pipeline or a farm. All of
them are values: build one once, and apply it to any stream with ``.on(stream)``. The sender routes the
rows of a farm, so there is no task between two farms.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.graph.arguments import ColumnsLike, OnErrorLike, PerLike, tasks_of
from penstock.graph.builder import Stream
from penstock.steps.seq_node import SeqNode, check_node


@dataclass(frozen=True, slots=True)
class _NamedStep:
    """One function or node, with the name and the settings of its step."""

    name: str
    function: Callable[..., Any]
    columns: ColumnsLike = None
    per: PerLike | None = None
    on_error: OnErrorLike = "fail"

    def on(self, stream: Stream) -> Stream:
        """Append the step to a stream and return its output."""
        return stream.flat_map(self.name, self.function, columns=self.columns, per=self.per, on_error=self.on_error)


class Pipeline:
    """A chain of parts. A row passes them in order. Rows stay in their task, except at the entry of a farm."""

    def __init__(self, *parts: "Part") -> None:
        """Put the parts in a row. Raises ConfigError if there is none, or if one is not a part."""
        if not parts:
            raise ConfigError(f"{caller_place()}: a pipeline needs at least one part: ps.Pipeline(Clean())")
        self.parts = tuple(_part(each) for each in parts)

    def on(self, stream: Stream) -> Stream:
        """Append the parts to a stream and return the output of the last one."""
        for part in self.parts:
            stream = part.on(stream)
        return stream


class Farm:
    """A part that several tasks run. Rows go to them by key, or in turn.

    A part behind the farm runs in the tasks of the farm, unless it is a farm itself.
    """

    def __init__(self, part: "Part", workers: int | None = None, *, on: str | Iterable[str] | None = None) -> None:
        """Let ``workers`` tasks run the part. None means one per worker.

        ``on`` names key columns: rows with equal keys go to the same task, and keep their order. Without it, batches
        go to the tasks in turn, and the order per key is lost. Raises ConfigError for a number of workers below 1, and
        for a part that begins with a farm, because the tasks of the outer one would run nothing.
        """
        self.part = _part(part)
        if _begins_with_farm(self.part):
            raise ConfigError(
                f"{caller_place()}: the part of a farm begins with a farm, so the outer tasks would run nothing: "
                "write one farm, or put a node before the inner one"
            )
        self.workers = None if workers is None else tasks_of("farm: workers=", workers)
        self.keys = () if on is None else (on,) if isinstance(on, str) else tuple(on)

    def on(self, stream: Stream) -> Stream:
        """Append the farm to a stream and return the output of all its tasks."""
        partitioned = stream.key_by(*self.keys) if self.keys else stream.round_robin()
        if self.workers is not None:
            partitioned = partitioned.parallel(self.workers)
        return self.part.on(partitioned)


Part = SeqNode | Callable[..., Any] | Pipeline | Farm | _NamedStep
_Pattern = _NamedStep | Pipeline | Farm


def _part(part: object) -> _Pattern:
    """Return a part as a pattern. Raises ConfigError if it is no part."""
    if isinstance(part, Pipeline | Farm | _NamedStep):
        return part
    return _step(None, part)


def _step(name: str | None, function: object) -> _NamedStep:
    """Return a node or a function as a step. Without ``name`` the step has its own name."""
    if isinstance(function, SeqNode):
        check_node(function)
        kind = type(function).__name__
        on_error: Any = function.on_error
        return _NamedStep(name or function.name or kind, function, function.columns, "record", on_error)
    own = name or getattr(function, "__name__", None)
    if isinstance(function, type) or not callable(function) or own is None:
        raise ConfigError(
            f"{caller_place()}: {function!r} is no part of a pattern: it must be an object of a class of yours that "
            "inherits from ps.SeqNode, a function with a name, a pipeline or a farm"
        )
    return _NamedStep(own, function)


def _begins_with_farm(part: _Pattern) -> bool:
    if isinstance(part, Pipeline):
        return _begins_with_farm(part.parts[0])
    return isinstance(part, Farm)


def pipeline(**stages: SeqNode | Callable[..., Any]) -> Pipeline:
    """Build a pipeline of nodes and batch functions with names, in order: ``pipeline(parse=f, clean=Clean())``.

    Raises ConfigError if there is none.
    """
    if not stages:
        raise ConfigError("a pipeline needs at least one stage: pipeline(parse=parse)")
    pattern = Pipeline.__new__(Pipeline)
    pattern.parts = tuple(_step(name, stage) for name, stage in stages.items())
    return pattern


def farm(
    name: str,
    function: Callable[..., Any],
    *,
    workers: int | None = None,
    keys: tuple[str, ...] = (),
    columns: ColumnsLike = None,
    per: PerLike | None = None,
    on_error: OnErrorLike = "fail",
) -> Farm:
    """Build a farm of ``workers`` tasks that run one function. None means one per worker.

    With ``keys``, rows are partitioned by these columns; without, batches go to the tasks in turn.
    """
    return Farm(_NamedStep(name, function, columns, per, on_error), workers, on=keys)
