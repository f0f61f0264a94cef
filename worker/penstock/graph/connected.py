"""Two keyed streams that share one state: ``ps.connect(orders, payments).process("paid", left=f, right=g)``."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place, users_frame
from penstock.base.values import replace
from penstock.contract.call_types import TimerHandler
from penstock.contract.graph import LEFT, RIGHT, Connect, Step
from penstock.graph.arguments import CompiledLike, OnErrorLike, UserFunction, call_of
from penstock.graph.builder import Stream
from penstock.graph.draft import label
from penstock.graph.keyed_stream import KeyedStream
from penstock.graph.timer_handlers import check_handlers, timer_role
from penstock.graph.typed_calls import connected_types


@dataclass(frozen=True, slots=True)
class ConnectedStreams:
    """Two keyed streams. Rows of both with equal keys meet in one task."""

    left: KeyedStream
    right: KeyedStream

    def process(
        self,
        name: str,
        /,
        *,
        left: UserFunction,
        right: UserFunction,
        batch_rows: int | None = None,
        on_error: OnErrorLike = "fail",
        compiled: CompiledLike = "auto",
        on_timer: Mapping[str, UserFunction] | None = None,
    ) -> Stream:
        """Call ``left`` for the rows of the first stream, and ``right`` for those of the second. They share the state.

        Both are functions with types, ``f(r: A, s: S, out: ps.Out[B])``, with one ``ps.state`` and one main output.
        Rows of one stream and key come in order. In which order those of two streams come is not fixed. Event time is
        that of the stream that is behind: a timer fires when both have reached it. With ``on_error="dead-letter"`` rows
        for which a function raises go to the outputs ``dead-letter`` and ``dead-letter-right``. Other parameters are
        those of :meth:`KeyedStream.process`. Raises ConfigError.
        """
        place, draft = caller_place(), self.left.job.draft
        about = f"{place}: step {name!r}"
        functions = {LEFT: left, RIGHT: right}
        first, second = (call_of(f, None, batch_rows, None, on_error, compiled=compiled) for f in (left, right))
        handlers = dict(on_timer or {})
        named = tuple(TimerHandler(timer, label(handler)) for timer, handler in handlers.items())
        scope = users_frame().f_locals
        connect, types, both = connected_types(Connect(first, second, named), functions, about, scope)
        check_handlers(both, handlers, about, scope)
        sides = ((LEFT, self.left), (RIGHT, self.right))
        inputs = tuple(replace(i, side=side) for side, stream in sides for i in stream.inputs)
        stream = self.left.job._add(Step(name, connect, inputs, self.left.parallelism), place)
        draft.connect(name, functions, types, both)
        draft.functions |= {(name, timer_role(timer)): handler for timer, handler in handlers.items()}
        return stream


def connect(left: KeyedStream, right: KeyedStream, /) -> ConnectedStreams:
    """Let rows of two keyed streams share one state: ``ps.connect(a.key_by("id"), b.key_by("order"))``.

    The key columns of both have equal types, in their order. Raises ConfigError.
    """
    for stream in (left, right):
        if not isinstance(stream, KeyedStream):
            raise ConfigError(
                f"{caller_place()}: connect: {type(stream).__name__} has no keys: write "
                'ps.connect(a.key_by("id"), b.key_by("order"))'
            )
    if left.job is not right.job:
        raise ConfigError(f"{caller_place()}: connect: the two streams belong to two jobs")
    if len(left.inputs[0].keys) != len(right.inputs[0].keys):
        raise ConfigError(
            f"{caller_place()}: connect: the first stream has the keys {', '.join(left.inputs[0].keys)} and the second "
            f"one {', '.join(right.inputs[0].keys)}: each key column needs its partner"
        )
    return ConnectedStreams(left, right)
