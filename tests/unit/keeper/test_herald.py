from dataclasses import replace

from penstock.contract.codec import decode
from penstock.contract.ids import Epoch, Incarnation, JobUid, Ordinal, SwapId, Term
from penstock.contract.latest import Desired, Latest
from penstock.contract.progress import WorkerReport
from penstock.contract.status import JobStatus
from penstock.keeper.herald import Audience, StatusBoard
from penstock.testing.fakes import FakeMetaStore

LEADS = (Latest(JobUid("uid"), SwapId("s"), Term(2), workers=2), Desired(2))


def report(ordinal: int, pod: str, life: str = "e") -> WorkerReport:
    return WorkerReport(Ordinal(ordinal), "k", 1, Incarnation(life), 7, "10.0.0.1:7077", pod=pod)


def summary(audience: Audience, now: float) -> JobStatus:
    return audience.summary("words", LEADS, "/c", (now, int(now * 1e6)))


def test_the_summary_says_who_is_silent_and_for_how_long_it_listened() -> None:
    audience = Audience(2, since=100.0)
    audience.hear(report(0, "pod-a"), 109.0)
    audience.hear(report(1, "pod-b"), 102.0)
    status = summary(audience, 110.0)
    assert [(w.pod, w.silent_s, w.incarnation) for w in status.workers] == [
        ("pod-a", 1.0, "e"),
        ("pod-b", 8.0, "e"),
    ]
    assert (status.term, status.listening_s) == (2, 10.0)


def test_a_worker_that_has_gone_for_good_leaves_the_summary() -> None:
    audience = Audience(2, since=0.0)
    audience.hear(report(0, "pod-a"), 1.0)
    assert summary(audience, 302.0).workers == ()


class CountingStore(FakeMetaStore):
    writes = 0

    def swap(self, name: str, data: bytes, version: str):  # type: ignore[no-untyped-def]
        self.writes += 1
        return super().swap(name, data, version)


def test_counters_are_written_now_and_then_and_news_at_once() -> None:
    store = CountingStore()
    store.create("words-status", b"{}")
    board, audience = StatusBoard(store, "words-status"), Audience(2, since=0.0)
    audience.hear(report(0, "pod-a"), 1.0)
    board.show(summary(audience, 1.0), 1.0)
    board.show(summary(audience, 2.0), 2.0)
    assert store.writes == 1, "only clocks went on"
    audience.hear(report(0, "pod-a", "another life"), 3.0)
    board.show(summary(audience, 3.0), 3.0)
    assert store.writes == 2
    board.show(summary(audience, 9.0), 9.0)
    assert store.writes == 3
    found = store.get("words-status")
    assert found is not None
    assert decode(JobStatus, found.data).workers[0].incarnation == "another life"


def test_a_silence_that_matters_is_news() -> None:
    store = CountingStore()
    store.create("words-status", b"{}")
    board, audience = StatusBoard(store, "words-status"), Audience(2, since=0.0)
    audience.hear(report(0, "pod-a"), 1.0)
    board.show(summary(audience, 4.0), 4.0)
    board.show(summary(audience, 6.5), 6.5)
    assert store.writes == 2


def test_another_leaders_words_are_written_over_at_the_next_try() -> None:
    store = CountingStore()
    first = store.create("words-status", b"{}")
    board, audience = StatusBoard(store, "words-status"), Audience(2, since=0.0)
    board.show(summary(audience, 1.0), 1.0)
    known = store.get("words-status")
    assert known is not None
    assert known != first
    store.swap("words-status", b"{}", known.version)
    audience.hear(report(0, "pod-a"), 2.0)
    board.show(summary(audience, 2.0), 2.0)
    board.show(replace(summary(audience, 3.0), attempt=Epoch(9)), 3.0)
    found = store.get("words-status")
    assert found is not None
    assert decode(JobStatus, found.data).attempt == 9


def test_an_object_that_is_not_there_is_the_operators_to_make() -> None:
    store = CountingStore()
    StatusBoard(store, "words-status").show(summary(Audience(2, since=0.0), 1.0), 1.0)
    assert store.get("words-status") is None
