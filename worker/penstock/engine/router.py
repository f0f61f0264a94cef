"""Routes the rows of a batch to the channels of an edge: hash, look up, split.

A table of the plan (:class:`Routes`) gives, for each key group or receiver number, the
receiver now and the receiver after a rescale. Distinct pairs of the two are numbered once per table,
and a batch is split by that number."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.contract.ids import ChannelId
from penstock.contract.plan import Partitioning, Routes
from penstock.engine.group_load import GroupLoad
from penstock.model.arrays import Int32s
from penstock.model.elements import Data
from penstock.protocol.task.task_messages import RoutedRows
from penstock.steps.base import split_hidden
from penstock.steps.user_calls import record_text
from penstock.transport.batches import check, measure, measure_fresh

Pair = tuple[ChannelId | None, ChannelId | None]
Custom = Callable[[pa.RecordBatch, int], "np.ndarray[Any, Any]"]
NO_PARTITIONERS: Mapping[str, Custom] = MappingProxyType({})


class EdgeRouter:
    """Splits the batches of one edge.

    ``keys`` are its key columns. ``custom`` has its partitioners by the names of the schemes. ``load`` counts the rows
    of each key group.
    """

    def __init__(
        self,
        routes: Routes,
        keys: Sequence[str],
        custom: Mapping[str, Custom] = NO_PARTITIONERS,
        load: GroupLoad | None = None,
    ) -> None:
        """Give each distinct pair of receivers a number. Find the partition functions before and after a rescale."""
        self._routes = routes
        self._keys = keys
        self._custom = tuple(custom[scheme] for scheme in routes.schemes) if custom else ()
        self._sent = 0
        pairs = list(zip(routes.old, routes.new, strict=True)) if self._paired else []
        self._pairs: list[Pair] = list(dict.fromkeys(pairs))
        numbers = {pair: i for i, pair in enumerate(self._pairs)}
        self._table = np.array([numbers[p] for p in pairs], dtype=np.int32)
        self._load = load or GroupLoad("", len(pairs))
        self._places: list[int] | None = None
        self._kernels = _kernels()
        self._route = self._choose()

    def pieces(self, batch: pa.RecordBatch) -> list[RoutedRows]:
        """Split a batch by receiver; the rows of one receiver keep their order.

        Raises RowNotSentError for a value that is invalid for its type.
        """
        check(batch)
        return self._route(batch)

    @property
    def _paired(self) -> bool:
        return self._routes.edge.partitioning is not Partitioning.CUSTOM

    def _choose(self) -> Callable[[pa.RecordBatch], list[RoutedRows]]:
        match self._routes.edge.partitioning:
            case Partitioning.KEY:
                return self._one if len(self._pairs) == 1 else self._by_key
            case Partitioning.BROADCAST:
                return self._broadcast
            case Partitioning.CUSTOM:
                return self._by_function
            case _:
                return self._round_robin

    def _one(self, batch: pa.RecordBatch) -> list[RoutedRows]:
        old, new = self._pairs[0]
        return [RoutedRows(old, new, _data(batch))]

    def _by_key(self, batch: pa.RecordBatch) -> list[RoutedRows]:
        if self._places is None:
            self._places = [batch.schema.get_field_index(name) for name in self._keys]
        keys = [batch.column(place) for place in self._places]
        return self._split(batch, self._kernels.destinations(keys, self._table, self._load.rows), self._pairs)

    def _broadcast(self, batch: pa.RecordBatch) -> list[RoutedRows]:
        data = _data(batch)
        return [RoutedRows(old, new, data) for old, new in self._pairs]

    def _round_robin(self, batch: pa.RecordBatch) -> list[RoutedRows]:
        """Send whole batches round-robin, if possible to receivers that stay: those rows are not held."""
        stay = [p for p in self._pairs if p[0] == p[1]] or self._pairs
        self._sent += 1
        old, new = stay[self._sent % len(stay)]
        return [RoutedRows(old, new, _data(batch))]

    def _by_function(self, batch: pa.RecordBatch) -> list[RoutedRows]:
        (one, other), old, new = self._custom, self._routes.old, self._routes.new
        before = one(batch, len(old))
        after = before if one is other and len(old) == len(new) else other(batch, len(new))
        pairs: list[Pair] = [(o, n) for o in old for n in new]
        return self._split(batch, before * np.int32(len(new)) + after, pairs)

    def _split(self, batch: pa.RecordBatch, numbers: "np.ndarray[Any, Any]", pairs: list[Pair]) -> list[RoutedRows]:
        parts = self._kernels.split_by(batch, numbers, len(pairs))
        if len(parts) == 1:  # the batch itself, perhaps a slice of another
            return [RoutedRows(*pairs[parts[0][0]], _data(parts[0][1]))]
        return [RoutedRows(*pairs[number], Data(rows, rows.num_rows, measure_fresh(rows))) for number, rows in parts]


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The compiled part of routing, imported when the first router is made."""

    destinations: Callable[[Sequence[pa.Array], Any, Any], Any]
    split_by: Callable[[pa.RecordBatch, Any, int], list[tuple[int, pa.RecordBatch]]]


def _kernels() -> _Kernels:
    from penstock.model.keys import destinations  # noqa: PLC0415 - loads numba
    from penstock.model.split import split_by  # noqa: PLC0415

    return _Kernels(destinations, split_by)


def _data(batch: pa.RecordBatch) -> Data[pa.RecordBatch]:
    return Data(batch, batch.num_rows, measure(batch))


class Partitioner:
    """Gives the receiver of each row. ``step`` is the one that the rows go to, ``scheme`` the name of the function."""

    def __init__(self, step: str, function: Callable[..., Any], scheme: str = "") -> None:
        """Ask ``function(batch, tasks)``."""
        self._step = step
        self._function = function
        self._name = f"scheme {scheme!r}" if scheme else "a partitioner"

    def __call__(self, batch: pa.RecordBatch, tasks: int) -> Int32s:
        """Return one place in 0 .. tasks - 1 for each row. Raises UserCodeError."""
        rows, _ = split_hidden(batch)
        try:
            answer = np.asarray(self._function(rows, tasks))
        except BaseException as error:  # a user's: it is passed on with its place
            raise UserCodeError(Where(self._step), error) from error
        if answer.shape != (batch.num_rows,) or answer.dtype.kind not in "iu":
            problem = f"{self._name} gives {batch.num_rows} whole numbers, not {_spelled(answer)}"
            raise UserCodeError(Where(self._step), TypeError(problem))
        wrong = np.flatnonzero((answer < 0) | (answer >= tasks))
        if len(wrong):
            row = int(wrong[0])
            problem = f"{self._name} gives places in 0..{tasks - 1}, not {answer[row]}"
            raise UserCodeError(Where(self._step, record=record_text(rows.slice(row))), ValueError(problem))
        return answer.astype(np.int32)


def _spelled(answer: "np.ndarray[Any, Any]") -> str:
    return f"{answer.dtype} of shape {answer.shape}"
