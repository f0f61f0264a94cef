"""The queries of one task: each on a connection of its own, made again until it has an answer.

    query ──StorageError──> wait, longer each time ──> connect ──> query
      └── answer: the connection rests for the next query

A server that is away is no failure: rows wait in the state of the step, which then takes no more, and the status says
since when and why. What the table is not, like a column of another type, ends the attempt when the step opens. Later
it is waited for, too: a table may be dropped and made again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from penstock.base.errors import ConfigError, StorageError, is_storage_away
from penstock.base.limits import LOOKUP_SILENT_S, LOOKUP_WAIT_S_MAX
from penstock.base.threads import ThreadPoolExecutor, monotonic
from penstock.ports import Found, Lookup, LookupConnection

log = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_WAIT_S = 0.1


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """The rows that a query has found, and when it was made (``monotonic``)."""

    found: Found
    asked_s: float


@dataclass(frozen=True, slots=True)
class TableWait:
    """Since when (``monotonic``) a step waits for its table, and why."""

    since_s: float
    because: str


class TableCalls:
    """Makes queries. All methods but :meth:`ask` and :meth:`open` may be called from any thread."""

    def __init__(
        self,
        step: str,
        table: Lookup,
        schemas: tuple[pa.Schema, pa.Schema],
        *,
        capacity: int,
        tries_max: int | None,
    ) -> None:
        """Ask ``table`` for columns ``schemas[1]`` by keys ``schemas[0]``, up to ``capacity`` times at once.

        A query is made up to ``tries_max`` times; None: until it has an answer.
        """
        self.waits: TableWait | None = None
        self._step, self._table, self._schemas, self._tries_max = step, table, schemas, tries_max
        self._threads = ThreadPoolExecutor(capacity, thread_name_prefix=f"lookup-{step}")
        self._resting: deque[LookupConnection] = deque()
        self._opened = self._closed = False

    async def open(self) -> None:
        """Connect, and so look whether the table is as declared. Raises ConfigError when it is not."""
        await self._until_done(self._connect)
        self._opened = True

    async def ask(self, keys: pa.RecordBatch) -> TableAnswer:
        """Return the rows with these keys. Waits while the server is away. Raises what ends an attempt."""
        return await self._until_done(partial(self._find, keys))

    async def _until_done(self, work: Callable[[], T]) -> T:
        """Do blocking work again until it succeeds, or raises what trying again does not mend."""
        tries, wait_s = 0, FIRST_WAIT_S
        while True:
            try:
                result = await self._in_thread(work)
            except Exception as error:
                tries += 1
                if not self._mends(error) or tries == self._tries_max:
                    raise
                self._hold_up(str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LOOKUP_WAIT_S_MAX)
            else:
                self._release()
                return result

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking work in another thread. While it takes long, the status says so."""
        running = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(self._threads, work))
        try:
            done, _ = await asyncio.wait({running}, timeout=LOOKUP_SILENT_S)
            if not done:
                self._hold_up(f"no answer for {LOOKUP_SILENT_S:g} s: look what the server does")
            return await running
        except asyncio.CancelledError:  # not when the loop has ended with its process, and takes nothing more
            running.cancel()
            raise

    def _mends(self, error: Exception) -> bool:
        return is_storage_away(error) or (self._opened and isinstance(error, ConfigError))

    # --- In the threads of queries ------------------------------------------------------------

    def _connect(self) -> None:
        self._rest(self._table.connect(*self._schemas))

    def _find(self, keys: pa.RecordBatch) -> TableAnswer:
        """Ask on a connection that rests, or on a new one."""
        while (connection := self._take()) is not None:
            try:
                return self._found(connection, keys)
            except StorageError as error:
                log.info("event=lookup_connection_lost step=%s reason=%s", self._step, error)
        return self._found(self._table.connect(*self._schemas), keys)

    def _found(self, connection: LookupConnection, keys: pa.RecordBatch) -> TableAnswer:
        asked_s = monotonic()
        try:
            found = connection.find(keys)
        except BaseException:
            connection.close()
            raise
        self._rest(connection)
        return TableAnswer(found, asked_s)

    def _rest(self, connection: LookupConnection) -> None:
        self._resting.append(connection)
        if self._closed:
            self._end_resting()

    def _take(self) -> LookupConnection | None:
        try:
            return self._resting.pop()
        except IndexError:  # another thread has taken the last one
            return None

    def _end_resting(self) -> None:
        while (connection := self._take()) is not None:
            connection.close()

    def close(self) -> None:
        """End the connections that rest now; those under way end with their query."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._end_resting()

    # --- What the status says -----------------------------------------------------------------

    def _hold_up(self, because: str) -> None:
        if self.waits is None:
            log.warning("event=lookup_waits step=%s reason=%s", self._step, because)
        self.waits = TableWait(monotonic() if self.waits is None else self.waits.since_s, because)

    def _release(self) -> None:
        if self.waits is not None:
            log.warning("event=lookup_answered step=%s after_s=%.1f", self._step, monotonic() - self.waits.since_s)
            self.waits = None
