"""The keeper hears of a change at once, and of an engine without changes at every interval."""

import queue

from penstock.contract import control_messages as c
from penstock.contract.ids import Attempt
from penstock.engine.worker import StatusReporter

DEADLINE_S = 60.0
NEVER_S = 3600.0


def status(attempt: int) -> c.EngineStatus:
    return c.EngineStatus(ready=Attempt(attempt))


def test_an_engine_at_rest_is_heard_of_at_every_interval() -> None:
    sent: queue.SimpleQueue[c.EngineStatus] = queue.SimpleQueue()
    reporter = StatusReporter(lambda: status(1), sent.put, interval_s=0.001)
    reporter.start()
    assert [sent.get(timeout=DEADLINE_S) for _ in range(3)] == [status(1)] * 3
    reporter.stop()


def test_a_change_during_a_look_is_looked_at_again() -> None:
    sent: queue.SimpleQueue[c.EngineStatus] = queue.SimpleQueue()
    now = [status(1), status(2)]

    def draw() -> c.EngineStatus:
        found = now.pop(0) if len(now) > 1 else now[0]
        if len(now) == 1 and found != now[0]:
            reporter.changed()  # the status changes while it is drawn
        return found

    reporter = StatusReporter(draw, sent.put, interval_s=NEVER_S)
    reporter.changed()
    reporter.start()
    assert [sent.get(timeout=DEADLINE_S) for _ in range(2)] == [status(1), status(2)]
    reporter.stop()


def test_what_has_not_changed_is_not_sent_for_being_asked() -> None:
    sent: queue.SimpleQueue[c.EngineStatus] = queue.SimpleQueue()
    drawn: queue.SimpleQueue[int] = queue.SimpleQueue()

    def draw() -> c.EngineStatus:
        drawn.put(1)
        return status(1)

    reporter = StatusReporter(draw, sent.put, interval_s=NEVER_S)
    reporter.start()
    for _ in range(3):
        reporter.changed()
        drawn.get(timeout=DEADLINE_S)
    reporter.stop()
    reporter.join(DEADLINE_S)
    assert sent.get() == status(1)
    assert sent.empty()
