"""A keeper that cannot read what is wanted says so once, and goes on as it was told before."""

import io

from penstock.contract.latest import DESIRED_FORMAT, Desired, encode_desired
from penstock.keeper.keeper import DesiredWatcher
from penstock.keeper.keeper_messages import ForCoordinator, KeeperInbox
from penstock.metrics.logs import Log
from penstock.protocol.keeper_core_messages import DesiredRead
from tests.support.fakes import FakeMetaStore

NAME = "wc-desired"
NEWER = encode_desired(Desired(5, format=DESIRED_FORMAT + 1))


class Watched:
    """A watcher of an object in memory, and what it says."""

    def __init__(self) -> None:
        self.store = FakeMetaStore()
        self.inbox = KeeperInbox()
        self.lines = io.StringIO()
        self.watcher = DesiredWatcher(self.store, NAME, self.inbox, Log("keeper", {}, self.lines))

    def write(self, data: bytes) -> None:
        found = self.store.get(NAME)
        if found is None:
            self.store.create(NAME, data)
        else:
            self.store.swap(NAME, data, found.version)

    def look(self) -> list[object]:
        """Read once; return what the coordinator is told."""
        self.watcher.look()
        told: list[object] = []
        while (item := self.inbox.take(0.0)) is not None:
            assert isinstance(item, ForCoordinator)
            told.append(item.event)
        return told

    def said(self) -> list[str]:
        return self.lines.getvalue().splitlines()


def test_a_newer_format_is_said_once_and_what_was_read_before_stands() -> None:
    watched = Watched()
    watched.write(encode_desired(Desired(2)))
    assert watched.look() == [DesiredRead(Desired(2))]
    watched.write(NEWER)
    assert [watched.look(), watched.look()] == [[], []]
    (line,) = watched.said()
    assert "what is wanted cannot be read" in line
    assert f"-desired has the format {DESIRED_FORMAT + 1}, of a newer version" in line
    assert f"format {DESIRED_FORMAT + 1}" in watched.watcher.unread
    watched.write(encode_desired(Desired(3)))
    assert watched.look() == [DesiredRead(Desired(3))]
    assert watched.watcher.unread == ""
    assert "can be read again" in watched.said()[-1]


def test_what_is_no_record_is_said_too() -> None:
    watched = Watched()
    watched.write(b"{")
    assert watched.look() == []
    assert watched.watcher.unread
    assert len(watched.said()) == 1


def test_an_object_that_is_not_there_yet_is_nothing_to_say() -> None:
    watched = Watched()
    assert watched.look() == [DesiredRead(None)]
    assert watched.said() == []
