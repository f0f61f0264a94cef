"""The probes name what is stuck. Our own writes reveal a watch that has gone silent."""

import math

from penstock_operator.api import kinds
from penstock_operator.api.plain import Object
from penstock_operator.app.health import (
    ASKED_S,
    HEAD_S,
    OLDEST_S,
    SILENT_S,
    TAKEN_S,
    Ages,
    Role,
    problem_of,
    role_of,
)
from penstock_operator.cluster.store import JobKey, Store


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lease(version: int, uid: str = "u", name: str = "wc-leader") -> Object:
    return {
        "apiVersion": kinds.LEASE.api_version,
        "kind": "Lease",
        "metadata": {
            "namespace": "n",
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {"penstock.dev/job": "wc"},
        },
    }


def test_each_age_beyond_its_limit_is_a_problem() -> None:
    assert problem_of(Ages(OLDEST_S, HEAD_S, TAKEN_S, SILENT_S)) == ""
    assert "not reconciled" in problem_of(Ages(oldest=OLDEST_S + 1))
    assert "head of the queue" in problem_of(Ages(head=HEAD_S + 1))
    assert "has not ended" in problem_of(Ages(taken=TAKEN_S + 1))
    assert "our own write" in problem_of(Ages(silent=SILENT_S + 1))


def test_a_watch_owes_every_write_until_it_shows_it() -> None:
    clock = Clock()
    store = Store(clock)
    store.put(lease(3))
    store.keep(lease(3))  # nothing was written
    assert store.silent_s() == 0
    store.keep(lease(5))
    clock.now += 60
    store.put(lease(4))
    assert store.silent_s() == 60
    store.put(lease(5))
    assert store.silent_s() == 0


def test_what_is_deleted_is_owed_no_more() -> None:
    clock = Clock()
    store = Store(clock)
    store.keep(lease(5))
    clock.now += 60
    store.remove(lease(6))
    assert store.silent_s() == 0


def test_a_list_finds_what_no_watch_has_told() -> None:
    store = Store(Clock())
    gone, stays, changed = lease(3, "a", "a"), lease(4, "b", "b"), lease(5, "c", "c")
    newer = lease(12, "d", "d")
    for each in (gone, stays, changed, newer):
        store.put(each)
    listed = [stays, lease(8, "c", "c"), lease(9, "e", "e")]
    assert store.compare(kinds.LEASE, "", listed, 10) == {JobKey("n", "wc")}
    assert sorted(name for _, name in store.objects(JobKey("n", "wc"))) == ["b", "c", "d", "e"]
    assert store.compare(kinds.LEASE, "", listed, 10) == set()
    assert store.compare(kinds.LEASE, "other", [], 99) == set()


def test_a_standby_is_not_ready_for_what_a_leader_does() -> None:
    never = math.inf
    assert role_of(False, False, never) is Role.STARTING
    assert role_of(False, False, 1.0) is Role.STANDBY
    assert role_of(False, False, ASKED_S + 1) is Role.STARTING
    assert role_of(True, False, 1.0) is Role.STARTING  # its watches do not run yet
    assert role_of(True, True, 1.0) is Role.LEADING
    assert role_of(True, True, never) is Role.LEADING  # without leader election the Lease is never read
