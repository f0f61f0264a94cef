"""Queries of one task: on which connection they are made, how often, and what the status says meanwhile."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, ConnectorError, StateError, StorageError
from penstock.base.limits import LOOKUP_SILENT_S, LOOKUP_WAIT_S_MAX
from penstock.steps.lookup.table_calls import TableCalls, TableWait
from tests.support.asking_tasks import SkippingLoop
from tests.support.lookup_tasks import ADDED, Shop, ShopConnection

KEYS = pa.schema({"sku": pa.string(), "town": pa.string()})
ASKED = pa.RecordBatch.from_pylist([{"sku": "a", "town": "here"}], KEYS)
AWAY = StorageError("no connection to shop")


class WatchedShop(Shop):
    """Notes when it was tried to connect, and what was said before."""

    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__("a")
        self._loop = loop
        self.tried_at: list[float] = []
        self.told: list[TableWait | None] = []
        self.calls: TableCalls

    def connect(self, keys: pa.Schema, columns: pa.Schema) -> ShopConnection:
        self.tried_at.append(self._loop.time())
        self.told.append(self.calls.waits)
        return super().connect(keys, columns)


@pytest.fixture
def loop() -> Iterator[SkippingLoop]:
    made = SkippingLoop()
    yield made
    made.close()


def calls_of(shop: WatchedShop, *, capacity: int = 2, tries_max: int | None = None) -> TableCalls:
    shop.calls = TableCalls("prices", shop, (KEYS, ADDED), capacity=capacity, tries_max=tries_max)
    return shop.calls


def test_a_connection_that_rests_makes_the_next_query(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    loop.run_until_complete(calls.open())
    for _ in range(3):
        assert loop.run_until_complete(calls.ask(ASKED)).found.keys == [0]
    assert shop.connected == 1, "the connection by which the table was looked at"
    calls.close()
    assert not shop.open


def test_connections_that_a_server_has_ended_are_closed_and_a_new_one_asks_at_once(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    for _ in range(2):
        loop.run_until_complete(calls.open())
    assert len(shop.open) == 2
    shop.errors.extend([AWAY, AWAY])
    loop.run_until_complete(calls.ask(ASKED))
    assert (shop.connected, len(shop.open)) == (3, 1)
    assert (shop.told[-1], loop.time()) == (None, 0.0), "nobody has waited"
    calls.close()


def test_a_query_is_made_again_after_longer_waits_and_says_since_when_and_why(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    shop.refusals.extend([*[AWAY] * 7, StorageError("the system is starting up"), StorageError("still")])
    loop.run_until_complete(calls.open())
    waits = [after - before for before, after in zip(shop.tried_at, shop.tried_at[1:], strict=False)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])
    assert LOOKUP_WAIT_S_MAX == 5.0
    assert [None if told is None else told.because for told in shop.told] == [
        *[None, *[str(AWAY)] * 7, "the system is starting up", "still"]
    ]
    assert len({told.since_s for told in shop.told if told is not None}) == 1, "since the first error"
    assert calls.waits is None
    calls.close()


def test_in_one_process_a_query_is_made_a_few_times(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop, tries_max=3)
    shop.refusals.extend([AWAY] * 3)
    with pytest.raises(StorageError, match="no connection to shop"):
        loop.run_until_complete(calls.open())
    assert len(shop.tried_at) == 3
    calls.close()


def test_what_the_table_is_not_ends_a_start_and_is_waited_for_later(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    shop.refusals.append(ConfigError("there is no table"))
    with pytest.raises(ConfigError, match="there is no table"):
        loop.run_until_complete(calls.open())
    loop.run_until_complete(calls.open())
    shop.errors.append(AWAY)
    shop.refusals.append(ConfigError("there is no table"))
    assert loop.run_until_complete(calls.ask(ASKED)).found.keys == [0]
    assert [told.because for told in shop.told if told is not None] == ["there is no table"]
    calls.close()


def test_code_of_a_user_that_raises_is_given_one_new_connection(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    loop.run_until_complete(calls.open())
    shop.errors.append(ConnectorError("find(): its own error of a lost connection"))
    assert loop.run_until_complete(calls.ask(ASKED)).found.keys == [0]
    shop.errors.extend([ConnectorError("find(): KeyError: 3")] * 2)
    with pytest.raises(ConnectorError, match="KeyError: 3"):
        loop.run_until_complete(calls.ask(ASKED))
    assert (shop.connected, shop.open, loop.time()) == (3, set(), 0.0)
    calls.close()


@pytest.mark.parametrize("error", [StateError("a value"), KeyError("bug")])
def test_other_errors_are_raised_at_once_and_their_connection_ends(loop: SkippingLoop, error: Exception) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    loop.run_until_complete(calls.open())
    shop.errors.append(error)
    with pytest.raises(type(error)):
        loop.run_until_complete(calls.ask(ASKED))
    assert (len(shop.tried_at), shop.open) == (1, set())
    calls.close()


def test_a_server_that_does_not_answer_is_told_and_waited_for(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    loop.work_s = LOOKUP_SILENT_S + 1
    loop.run_until_complete(calls.open())
    (told,) = shop.told
    assert told is not None
    assert told.because == "no answer for 10 s: look what the server does"
    assert calls.waits is None
    calls.close()


def test_an_answer_has_the_time_of_its_query_and_not_of_the_first_try(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    shop.errors.extend([AWAY])
    early = loop.run_until_complete(calls.ask(ASKED))
    late = loop.run_until_complete(calls.ask(ASKED))
    assert early.asked_s < late.asked_s
    calls.close()


def test_a_connection_whose_query_ends_behind_the_step_is_closed(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    loop.run_until_complete(calls.open())
    loop.work_s = 1.0
    asking = loop.create_task(calls.ask(ASKED))
    loop.run_until_complete(asyncio.sleep(0.5))  # of the loop's own time
    calls.close()
    loop.run_until_complete(asking)
    assert shop.connected == 2
    assert not shop.open


def test_a_query_whose_loop_has_ended_is_dropped_without_a_word(loop: SkippingLoop) -> None:
    shop = WatchedShop(loop)
    calls = calls_of(shop)
    loop.work_s = 1.0
    asking = loop.create_task(calls.ask(ASKED))
    loop.run_until_complete(asyncio.sleep(0.5))  # of the loop's own time
    loop.close()
    asking.get_coro().close()
    assert not asking.done()
    calls.close()
