"""The twins of threads, locks, queues and pools keep the contracts of the originals, under any seed."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base import threads as originals
from sim.kernel.kernel import Violation
from sim.real_engine import thread_twins
from sim.real_engine.thread_scheduler import BusyLoop, ThreadScheduler

SECOND = 1_000_000
LONG_S = 20.0  # nobody waits so long unless the test fails
SHORT_S = 0.01


class Place:
    """Where a test body runs: on threads of the system, or under the scheduler with a seed."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.trace: list[str] = []
        self.clock = SimpleNamespace(now_us=0)
        names = vars(originals) if seed is None else thread_twins.TWINS
        self.threads: Any = SimpleNamespace(**{name: names[name] for name in originals.__all__})

    def run(self, body: Callable[[], None]) -> ThreadScheduler | None:
        if self.seed is None:
            body()
            return None
        scheduler = ThreadScheduler(self.clock, Random(self.seed), self.trace.append)
        thread_twins.begin(scheduler, self.clock, Random(self.seed), lambda status: None)
        thread = scheduler.spawn(body, "body", "p")
        scheduler.drive(self.clock.now_us + 100 * SECOND)
        if scheduler.failed is not None:
            raise scheduler.failed[1]
        assert thread.done
        assert scheduler.unwind() == 0
        return scheduler


@pytest.fixture(params=[None, 0, 1, 2, 3, 4, 5, 6, 7], ids=lambda seed: "real" if seed is None else f"seed-{seed}")
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


def started(t: Any, *targets: Callable[[], object]) -> list[Any]:
    made = [t.Thread(target=target, daemon=True) for target in targets]
    for thread in made:
        thread.start()
    return made


def joined(t: Any, *targets: Callable[[], object]) -> None:
    for thread in started(t, *targets):
        thread.join(LONG_S)
        assert not thread.is_alive()


def test_there_is_a_twin_of_each_name() -> None:
    assert sorted(thread_twins.TWINS) == sorted(originals.__all__)


def test_a_lock_lets_one_thread_in(place: Place) -> None:
    t = place.threads

    def body() -> None:
        lock, inside, seen = t.Lock(), [0], []

        def enter() -> None:
            for _ in range(20):
                with lock:
                    inside[0] += 1
                    t.sleep(0)
                    seen.append(inside[0])
                    inside[0] -= 1

        joined(t, enter, enter, enter)
        assert seen == [1] * 60

    place.run(body)


def test_a_lock_may_be_released_by_another_thread(place: Place) -> None:
    t = place.threads

    def body() -> None:
        lock = t.Lock()
        assert lock.acquire()
        assert not lock.acquire(blocking=False)
        assert not lock.acquire(timeout=SHORT_S)
        assert lock.locked()
        started(t, lock.release)
        assert lock.acquire(timeout=LONG_S)
        lock.release()
        assert not lock.locked()
        with pytest.raises(RuntimeError):
            lock.release()

    place.run(body)


def test_a_condition_wakes_those_that_wait(place: Place) -> None:
    t = place.threads

    def body() -> None:
        changed, number, seen = t.Condition(), [0], []

        def follow() -> None:
            with changed:
                for wanted in range(1, 6):
                    assert changed.wait_for(lambda wanted=wanted: number[0] >= wanted, LONG_S)
                    seen.append(wanted)

        def lead() -> None:
            for _ in range(5):
                with changed:
                    number[0] += 1
                    changed.notify_all()
                t.sleep(0)

        joined(t, follow, follow, lead)
        assert sorted(seen) == sorted([1, 2, 3, 4, 5] * 2)

    place.run(body)


def test_a_condition_needs_its_lock_and_keeps_its_time(place: Place) -> None:
    t = place.threads

    def body() -> None:
        changed = t.Condition()
        with pytest.raises(RuntimeError):
            changed.notify()
        with pytest.raises(RuntimeError):
            changed.wait(SHORT_S)
        with changed:
            assert not changed.wait(SHORT_S)
            assert not changed.wait_for(lambda: False, SHORT_S)
            assert changed.wait_for(lambda: "yes", SHORT_S) == "yes"

    place.run(body)


def test_an_event_wakes_all(place: Place) -> None:
    t = place.threads

    def body() -> None:
        go, seen = t.Event(), []
        assert not go.wait(SHORT_S)

        def follow() -> None:
            assert go.wait(LONG_S)
            seen.append(go.is_set())

        joined(t, follow, follow, go.set)
        assert seen == [True, True]
        go.clear()
        assert not go.is_set()
        assert not go.wait(0)

    place.run(body)


def test_a_queue_keeps_order_and_loses_nothing(place: Place) -> None:
    t = place.threads

    def body() -> None:
        items: Any = t.SimpleQueue[int]()
        with pytest.raises(t.Empty):
            items.get(timeout=SHORT_S)
        with pytest.raises(t.Empty):
            items.get_nowait()
        taken: list[list[int]] = [[], []]

        def take(into: list[int]) -> None:
            while (item := items.get(timeout=LONG_S)) >= 0:
                into.append(item)

        def give() -> None:
            for number in range(40):
                items.put(number)
            items.put(-1)
            items.put(-1)

        joined(t, lambda: take(taken[0]), lambda: take(taken[1]), give)
        assert sorted(taken[0] + taken[1]) == list(range(40))
        assert all(part == sorted(part) for part in taken)
        assert items.empty()
        assert items.qsize() == 0

    place.run(body)


def test_threads_and_timers(place: Place) -> None:
    t = place.threads

    def body() -> None:
        rang, late, seen = t.Event(), t.Event(), []
        timer, never = t.Timer(SHORT_S, rang.set), t.Timer(LONG_S, late.set)
        for each in (timer, never):
            each.daemon = True
            each.start()
        assert rang.wait(LONG_S)
        never.cancel()
        never.join(LONG_S)
        assert not late.is_set()

        class Named(t.Thread):  # type: ignore[misc, name-defined]
            def run(self) -> None:
                seen.append(self.name)

        thread = Named(name="mine", daemon=True)
        assert not thread.is_alive()
        assert thread.ident is None
        thread.start()
        thread.join(LONG_S)
        assert seen == ["mine"]
        with pytest.raises(RuntimeError):
            thread.start()

    place.run(body)


def test_a_join_keeps_its_time(place: Place) -> None:
    t = place.threads

    def body() -> None:
        end = t.Event()
        (thread,) = started(t, lambda: end.wait(LONG_S))
        thread.join(SHORT_S)
        assert thread.is_alive()
        end.set()
        thread.join(LONG_S)
        assert not thread.is_alive()

    place.run(body)


def test_a_pool_gives_results_and_errors(place: Place) -> None:
    t = place.threads

    def body() -> None:
        pool = t.ThreadPoolExecutor(2, thread_name_prefix="p")
        called: list[int] = []

        def fail() -> None:
            raise ValueError("no")

        found = [pool.submit(pow, number, 2) for number in range(8)]
        failed = pool.submit(fail)
        found[0].add_done_callback(lambda future: called.append(future.result()))
        assert [future.result(LONG_S) for future in found] == [n * n for n in range(8)]
        with pytest.raises(ValueError, match="no"):
            failed.result(LONG_S)
        assert isinstance(failed.exception(LONG_S), ValueError)
        pool.shutdown()
        with t.ThreadPoolExecutor(2) as other:
            assert list(other.map(pow, (2, 3, 4), (3, 2, 1))) == [8, 9, 4]
        assert called == [0]
        assert all(future.done() for future in found)
        with pytest.raises(RuntimeError):
            pool.submit(pow, 1, 1)

    place.run(body)


def test_work_that_waits_can_be_cancelled(place: Place) -> None:
    t = place.threads

    def body() -> None:
        pool, go = t.ThreadPoolExecutor(1), t.Event()
        begun = t.Event()

        def hold() -> bool:
            begun.set()
            return bool(go.wait(LONG_S))

        running = pool.submit(hold)
        assert begun.wait(LONG_S)
        waiting = pool.submit(pow, 1, 1)
        assert not running.cancel()
        assert waiting.cancel()
        assert waiting.cancelled()
        more = pool.submit(pow, 1, 1)
        go.set()
        assert running.result(LONG_S)
        pool.shutdown(cancel_futures=True)
        assert more.done()
        last: Any = t.Future()
        last.set_result(3)
        assert last.result(0) == 3

    place.run(body)


def test_clocks_and_names(place: Place) -> None:
    t = place.threads

    def body() -> None:
        before, before_ns, worked, counter = t.monotonic(), t.monotonic_ns(), t.thread_time(), t.perf_counter()
        t.sleep(SHORT_S)
        assert t.monotonic() >= before + SHORT_S * 0.9
        assert t.monotonic_ns() >= before_ns + SHORT_S * 0.9e9
        assert t.perf_counter() > counter
        assert t.thread_time() >= worked
        assert t.uuid4() != t.uuid4()
        assert t.uuid4().version == 4

    place.run(body)


# --- The scheduler alone


def race(place: Place) -> list[int]:
    t, order = place.threads, list[int]()

    def body() -> None:
        lock = t.Lock()

        def work(number: int) -> None:
            for _ in range(10):
                with lock:
                    order.append(number)

        joined(t, lambda: work(0), lambda: work(1), lambda: work(2))

    place.run(body)
    return order


def test_the_seed_alone_decides_the_order() -> None:
    first, again = Place(3), Place(3)
    assert race(first) == race(again)
    assert first.trace == again.trace
    assert len({tuple(race(Place(seed))) for seed in range(10)}) > 5


def test_sleep_costs_no_time() -> None:
    place = Place(0)
    place.run(lambda: place.threads.sleep(90))
    assert place.clock.now_us >= 90 * SECOND


def test_a_killed_thread_runs_no_finally() -> None:
    place, done = Place(1), list[str]()
    t = place.threads
    scheduler = ThreadScheduler(place.clock, Random(1), place.trace.append)
    thread_twins.begin(scheduler, place.clock, Random(1), lambda status: None)

    def work() -> None:
        try:
            t.sleep(5)
            done.append("slept")
        finally:
            if not scheduler.unwinding:
                done.append("finally")

    scheduler.spawn(work, "work", "p")
    scheduler.spawn(work, "work", "q")
    scheduler.drive(2 * SECOND)
    scheduler.kill("p")
    scheduler.drive(10 * SECOND)
    assert done == ["slept", "finally"]
    assert scheduler.unwind() == 0


def test_a_stopped_process_goes_on_later() -> None:
    place, at = Place(2), list[int]()
    t = place.threads
    scheduler = ThreadScheduler(place.clock, Random(2), place.trace.append)
    thread_twins.begin(scheduler, place.clock, Random(2), lambda status: None)

    def work() -> None:
        t.sleep(1)
        at.append(place.clock.now_us)

    scheduler.spawn(work, "work", "p")
    scheduler.spawn(work, "work", "q")
    scheduler.stop("p")
    scheduler.drive(5 * SECOND)
    assert [t // SECOND for t in at] == [1]
    scheduler.resume("p")
    scheduler.drive(9 * SECOND)
    assert [t // SECOND for t in at] == [1, 6]


def test_a_deadlock_lets_time_pass_and_is_unwound() -> None:
    place = Place(0)
    t = place.threads
    scheduler = ThreadScheduler(place.clock, Random(0), place.trace.append)
    thread_twins.begin(scheduler, place.clock, Random(0), lambda status: None)
    lock = t.Lock()

    def twice() -> None:
        lock.acquire()
        lock.acquire()

    thread = scheduler.spawn(twice, "twice", "p")
    scheduler.drive(SECOND)
    assert place.clock.now_us == SECOND
    assert not thread.done
    assert scheduler.unwind() == 0


def test_a_thread_that_waits_for_no_time_again_and_again_ends_the_run() -> None:
    place = Place(0)
    t = place.threads
    scheduler = ThreadScheduler(place.clock, Random(0), place.trace.append)
    thread_twins.begin(scheduler, place.clock, Random(0), lambda status: None)
    lock = t.Lock()

    def spin() -> None:
        lock.acquire()
        while True:
            lock.acquire(timeout=1e-6)

    scheduler.spawn(spin, "spin", "p")
    scheduler.drive(SECOND)
    assert scheduler.failed is not None
    assert isinstance(scheduler.failed[1], BusyLoop)
    assert place.clock.now_us < SECOND
    assert scheduler.unwind() == 0


def test_a_violation_ends_the_run_though_the_thread_goes_on_after_errors(place: Place) -> None:
    def publish() -> None:
        with suppress(Exception):
            raise Violation("E", "published twice")

    with pytest.raises(Violation, match="E: published twice"):
        place.run(publish)


def test_when_no_thread_can_run_the_rule_is_checked_before_time_passes() -> None:
    place, at = Place(0), list[int]()
    t = place.threads
    scheduler = ThreadScheduler(place.clock, Random(0), place.trace.append)
    thread_twins.begin(scheduler, place.clock, Random(0), lambda status: None)
    scheduler.at_rest = lambda: at.append(place.clock.now_us)
    scheduler.spawn(lambda: t.sleep(1), "sleeper", "p")
    scheduler.drive(3 * SECOND)
    assert [us // SECOND for us in at] == [0, 1]
    assert scheduler.unwind() == 0


def test_a_thread_that_swallows_the_end_of_a_run_for_ever_is_counted() -> None:
    clock = SimpleNamespace(now_us=0)
    scheduler = ThreadScheduler(clock, Random(0), lambda _: None)

    def go_on() -> None:
        while True:
            with suppress(BaseException):
                scheduler.block()

    scheduler.spawn(go_on, "stubborn", "p")
    scheduler.spawn(scheduler.block, "ends", "p")
    scheduler.drive(SECOND)
    assert scheduler.unwind() == 1
