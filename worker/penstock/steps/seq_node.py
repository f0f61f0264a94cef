"""A node of a pattern: an object that takes one row after the other and sends rows on.

::

    __init__ -> on_start -> consume* -> on_stop        in each task, with an instance of its own

A node keeps no state. Rows since the last checkpoint come again after a failure, and a node that
remembered them would give other rows the second time. So attributes cannot be assigned after ``on_start``.
"""

import logging
from collections.abc import Iterable, Mapping
from sys import maxsize
from types import CodeType
from typing import Any, ClassVar

import pyarrow as pa

from penstock.base.errors import ConfigError, UserCodeError, Where
from penstock.base.user_code import named, short_path
from penstock.contract.graph import Call, Per
from penstock.steps.kept_records import kept_record
from penstock.steps.stateless import FlatMapStep

log = logging.getLogger(__name__)


class SeqNode:
    """Takes rows one by one, and sends any number of rows for each. A base class for your own nodes.

    ``columns`` are the columns of the rows that it sends. ``name`` is the name of its step; empty means the name of
    the class. ``on_error`` is ``"fail"`` or ``"dead-letter"``. Every task makes its own instance, with the arguments
    that were given to this one. A node keeps no state between rows: see ``process`` for that.
    """

    name: str = ""
    columns: ClassVar[Mapping[str, object] | Iterable[Any] | None] = None
    on_error: ClassVar[str] = "fail"

    __slots__ = ("__arguments", "__dict__", "__limit", "__sent", "__started")
    __arguments: tuple[tuple[Any, ...], dict[str, Any]]
    __limit: "SendLimit | None"
    __sent: list[dict[str, Any]] | None
    __started: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> "SeqNode":
        """Remember the arguments: every task makes its instance with them."""
        node = super().__new__(cls)
        object.__setattr__(node, "_SeqNode__arguments", (args, kwargs))
        object.__setattr__(node, "_SeqNode__limit", SendLimit() if _sheds(cls) else None)
        object.__setattr__(node, "_SeqNode__sent", None)
        object.__setattr__(node, "_SeqNode__started", False)
        return node

    # --- What a subclass writes ---------------------------------------------------------------

    def on_start(self) -> None:
        """Prepare, for example open a model. Called in each task before its first row, and again after a failure."""

    def consume(self, x: dict[str, Any]) -> None:
        """Take one row, and call :meth:`send_next` for each row that follows from it."""
        raise NotImplementedError

    def on_stop(self) -> None:
        """Release what :meth:`on_start` has opened. No row can be sent here. Not called when the process is killed."""

    # --- What a subclass calls ----------------------------------------------------------------

    def send_next(self, x: dict[str, Any]) -> None:
        """Send a row with the declared columns to the next step. Only :meth:`consume` may call this.

        Raises ConfigError outside of ``consume``.
        """
        if self.__sent is None:
            raise self.__called_outside("send_next")
        self.__sent.append(kept_record(x))

    def send_next_if(self, x: dict[str, Any], queue: int = 1000) -> bool:
        """Send a row if fewer than ``queue`` rows are outstanding, and return whether it was sent. Never waits.

        Outstanding are the rows that this node has sent and that the next task has not taken; where several tasks are
        next, those of the task that has most. A row is not sent either if the node would have to wait. A row that is
        not sent goes to the output ``shed``, and is counted. Raises ConfigError outside of ``consume``, if no method
        of the class has this call, and for a ``queue`` below 1.
        """
        sent, limit = self.__sent, self.__limit
        if sent is None:
            raise self.__called_outside("send_next_if")
        if limit is None:
            raise ConfigError(
                f"{type(self).__name__}: send_next_if was called by a function outside of the class: call it in a "
                "method of the class, so that the step has the output shed"
            )
        if queue < limit.queue_min:
            limit.ask(queue)
        if limit.outstanding + len(sent) < queue:
            sent.append(kept_record(x))
            return True
        limit.shed.append(kept_record(x))
        return False

    def __called_outside(self, method: str) -> ConfigError:
        return ConfigError(
            f"{type(self).__name__}: {method} was called outside of consume: rows that belong to no input row "
            "cannot be repeated after a failure"
        )

    # --- What a step calls --------------------------------------------------------------------

    def __call__(self, x: dict[str, Any]) -> list[dict[str, Any]]:
        """Consume one row, and return the rows that were sent."""
        sent: list[dict[str, Any]] = []
        object.__setattr__(self, "_SeqNode__sent", sent)
        try:
            returned: object = self.consume(x)  # type: ignore[func-returns-value]  # a user's may return something
        finally:
            object.__setattr__(self, "_SeqNode__sent", None)
        if returned is not None:
            kind = type(returned).__name__
            raise TypeError(f"consume returned {kind}; it sends rows with send_next, and returns nothing")
        return sent

    @property
    def sheds(self) -> bool:
        """Return whether a method of the class calls :meth:`send_next_if`."""
        return self.__limit is not None

    def limit_by(self, limit: "SendLimit") -> None:
        """Let :meth:`send_next_if` go by ``limit``."""
        object.__setattr__(self, "_SeqNode__limit", limit)

    def instance(self) -> "SeqNode":
        """Make another node with the arguments of this one."""
        args, kwargs = self.__arguments
        return type(self)(*args, **kwargs)

    def start(self) -> None:
        """Call :meth:`on_start`. From now on no attribute can be assigned. Raises what it raises."""
        self.on_start()
        object.__setattr__(self, "_SeqNode__started", True)

    def __setattr__(self, name: str, value: object) -> None:
        """Assign an attribute. Raises ConfigError after ``on_start``."""
        self.__refuse_after_start(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute. Raises ConfigError after ``on_start``."""
        self.__refuse_after_start(name)
        super().__delattr__(name)

    def __refuse_after_start(self, name: str) -> None:
        if self.__started:
            raise ConfigError(
                f"{type(self).__name__}.{name}: attributes of a node are read-only after on_start, because a node is "
                "in no checkpoint: keep what changes in the state of a process step"
            )


class SendLimit:
    """What ``send_next_if`` goes by: how many rows are outstanding. ``shed`` has the rows that were not sent.

    ``queue_min`` is the least queue that was asked for.
    """

    __slots__ = ("outstanding", "queue_min", "shed")

    def __init__(self) -> None:
        """Begin with nothing outstanding."""
        self.outstanding = 0
        self.queue_min = maxsize
        self.shed: list[dict[str, Any]] = []

    def ask(self, queue: int) -> None:
        """Note a queue that is less than all before it. Raises ConfigError if it is below 1."""
        if queue < 1:
            raise ConfigError(f"send_next_if(..., queue={queue}): a queue of less than one row would refuse every row")
        self.queue_min = queue


def _sheds(kind: type[SeqNode]) -> bool:
    """Return whether code of a class, or of a class between it and SeqNode, calls ``send_next_if``."""
    between = kind.__mro__[: kind.__mro__.index(SeqNode)]
    return any(_names("send_next_if", value) for each in between for value in vars(each).values())


def _names(name: str, value: object) -> bool:
    """Return whether the code of a method, or of a function inside it, uses an attribute ``name``."""
    code = value if isinstance(value, CodeType) else getattr(value, "__code__", None)
    return isinstance(code, CodeType) and (name in code.co_names or any(_names(name, c) for c in code.co_consts))


def check_node(node: SeqNode) -> None:
    """Raise ConfigError, with file and line, for a class that cannot be a node."""
    kind = type(node)
    if kind.consume is SeqNode.consume:
        raise ConfigError(f"{_class_place(kind)}node {kind.__name__} has no method consume(self, x)")
    called = [name for name in ("send_next", "send_next_if") if name in kind.on_stop.__code__.co_names]
    if called:
        raise ConfigError(
            f"{_code_place(kind.on_stop)}{kind.__name__}.on_stop calls {called[0]}: no row can be sent when a task "
            "ends, because its last checkpoint is complete; send it from consume"
        )
    if kind.columns is None:
        place = _code_place(kind.consume)
        raise ConfigError(f"{place}node {kind.__name__} declares no columns: write columns = {{...}} in the class")


def _code_place(method: Any) -> str:
    return f"{short_path(method.__code__.co_filename)}:{method.__code__.co_firstlineno}: "


def _class_place(kind: type[SeqNode]) -> str:
    """Return the place of a method of the class, or nothing: before Python 3.13 a class does not know its line."""
    methods = [value for value in vars(kind).values() if hasattr(value, "__code__")]
    return _code_place(methods[0]) if methods else f"{kind.__module__}: "


class SeqNodeStep(FlatMapStep):
    """Runs a node. It is started before the first row, and stopped with the task."""

    def __init__(self, name: str, call: Call, node: SeqNode, output: pa.Schema) -> None:
        """Run an instance of ``node`` for this task. Its rows have the columns of ``output``."""
        if call.per is not Per.RECORD:
            raise ConfigError(f"step {name!r}: node {type(node).__name__} takes rows one by one: write per: record")
        self._node = node.instance()
        self._started = False
        super().__init__(name, call, self._node, output)

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Start the node if it is the first batch, and let it consume the rows in order.

        Raises UserCodeError for an error of ``on_start``, too.
        """
        if not self._started:
            self._start()
        super().on_batch(batch)

    def _start(self) -> None:
        try:
            self._node.start()
        except Exception as error:
            raise UserCodeError(Where(f"{self.name} (on_start)"), error) from error
        self._started = True

    def stop(self) -> None:
        """Call ``on_stop`` of a node that was started. The task is over, so an error is logged."""
        if not self._started:
            return
        self._started = False
        try:
            self._node.on_stop()
        except Exception as error:
            log.error(
                "event=on_stop_failed step=%s node=%s error=%s", self.name, type(self._node).__name__, named(error)
            )
