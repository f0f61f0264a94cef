from types import SimpleNamespace
from typing import Any, cast

from penstock.base.limits import LOAD_HEARD_S, LOAD_WINDOW_S
from penstock.base.values import replace
from penstock.contract.codec import decode
from penstock.contract.ids import Attempt, Epoch, Incarnation, JobUid, Ordinal, SwapId, Term
from penstock.contract.latest import Desired, Latest
from penstock.contract.status import EngineProgress, JobStatus, Load, SinkStatus, SplitStatus, StepStatus, WorkerReport
from penstock.keeper.status_publisher import StatusBoard, StatusPublisher, WorkerStatuses
from tests.support.fakes import FakeMetaStore

LEADS = (Latest(JobUid("uid"), SwapId("s"), Term(2), workers=2), Desired(2))


def report(ordinal: int, pod: str, life: str = "e") -> WorkerReport:
    return WorkerReport(Ordinal(ordinal), "k", 1, Incarnation(life), 7, "10.0.0.1:7077", pod=pod)


def summary(audience: WorkerStatuses, now: float) -> JobStatus:
    return audience.summary("words", LEADS, "/c", (now, int(now * 1e6)))


def test_the_summary_says_who_is_silent_and_for_how_long_it_listened() -> None:
    audience = WorkerStatuses(2, since=100.0)
    audience.hear(report(0, "pod-a"), 109.0)
    audience.hear(report(1, "pod-b"), 102.0)
    status = summary(audience, 110.0)
    assert [(w.pod, w.silent_s, w.incarnation) for w in status.workers] == [
        ("pod-a", 1.0, "e"),
        ("pod-b", 8.0, "e"),
    ]
    assert (status.term, status.listening_s) == (2, 10.0)


def test_a_worker_that_has_gone_for_good_leaves_the_summary() -> None:
    audience = WorkerStatuses(2, since=0.0)
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
    board, audience = StatusBoard(store, "words-status"), WorkerStatuses(2, since=0.0)
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


def test_the_age_of_a_commit_what_is_left_to_read_and_how_long_a_sink_is_full_are_no_news() -> None:
    store = CountingStore()
    store.create("words-status", b"{}")
    board, first = StatusBoard(store, "words-status"), summary(WorkerStatuses(2, since=0.0), 1.0)
    full = SinkStatus("out", "exactly-once", full_s=1.0)
    board.show(replace(first, uncommitted_s=1.0, splits=(SplitStatus("lines", "0", 5),), sinks=(full,)), 1.0)
    full = replace(full, full_s=2.0)
    board.show(replace(first, uncommitted_s=2.0, splits=(SplitStatus("lines", "0", 7),), sinks=(full,)), 2.0)
    assert store.writes == 1
    board.show(replace(first, sinks=(replace(full, full_s=None, guarantee="none"),)), 3.0)
    assert store.writes == 2


def busy(age: float) -> WorkerReport:
    steps = (StepStatus("counts", 1, busy_s=age),)
    return replace(report(0, "pod-a"), progress=EngineProgress(Attempt(1), steps))


def test_how_busy_the_workers_are_is_told_and_is_no_news_by_itself() -> None:
    store = CountingStore()
    store.create("words-status", b"{}")
    board, audience = StatusBoard(store, "words-status"), WorkerStatuses(2, since=0.0)
    latest = Latest(JobUid("uid"), SwapId("s"), Term(2), attempt=Attempt(1), workers=1)
    for now in (1.0, LOAD_WINDOW_S, LOAD_WINDOW_S + 1.0):
        audience.hear(busy(now), now)
        status = audience.summary("words", (latest, Desired(1)), "/c", (now, int(now * 1e6)))
        board.show(status, now)
    assert status.load == Load(LOAD_WINDOW_S, (1.0,), (0.0,), "counts")
    assert store.writes == 2, "the first word, and the one that was due"
    audience.hear(report(0, "pod-a"), now)
    silent = now + LOAD_HEARD_S
    audience.hear(busy(2 * LOAD_WINDOW_S), silent - 60.0)
    later = audience.summary("words", (latest, Desired(1)), "/c", (silent, 0))
    assert later.load == status.load, "an old word ends no window"


def test_a_silence_that_matters_is_news() -> None:
    store = CountingStore()
    store.create("words-status", b"{}")
    board, audience = StatusBoard(store, "words-status"), WorkerStatuses(2, since=0.0)
    audience.hear(report(0, "pod-a"), 1.0)
    board.show(summary(audience, 4.0), 4.0)
    board.show(summary(audience, 6.5), 6.5)
    assert store.writes == 2


def test_another_leaders_words_are_written_over_at_the_next_try() -> None:
    store = CountingStore()
    first = store.create("words-status", b"{}")
    board, audience = StatusBoard(store, "words-status"), WorkerStatuses(2, since=0.0)
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
    StatusBoard(store, "words-status").show(summary(WorkerStatuses(2, since=0.0), 1.0), 1.0)
    assert store.get("words-status") is None


def test_a_new_term_begins_without_the_reports_of_the_one_before() -> None:
    shown: list[JobStatus] = []
    board = cast(Any, SimpleNamespace(show=lambda status, _: shown.append(status)))
    publisher = StatusPublisher(cast(Any, None), cast(Any, None), board, "words", "/c")
    publisher._show(LEADS)
    publisher._hear(report(0, "pod-0"))
    publisher._show(LEADS)
    assert publisher._statuses.heard
    publisher._show((replace(LEADS[0], term=Term(3)), LEADS[1]))
    assert not publisher._statuses.heard
