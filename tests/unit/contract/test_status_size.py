"""A status that would be too large for its object is told in part, and says which part is missing."""

from penstock.base.limits import STATUS_BYTES_MAX, STEPS_MAX, WORKERS_MAX
from penstock.base.values import replace
from penstock.contract.codec import decode, encode
from penstock.contract.status import (
    InputSeen,
    JobState,
    JobStatus,
    SinkStatus,
    SplitStatus,
    StepStatus,
    UnlistedSource,
    WorkerStatus,
    left_out_text,
)
from penstock.contract.status_size import fitting_bytes

LONG = "e" * 2_000
WORKERS = tuple(
    WorkerStatus(
        ordinal,
        "starting",
        12345,
        12346,
        restarts=12,
        metrics="http://[fd00:1234:5678::1234]:8080/metrics",
        pod="01234567-0123-0123-0123-0123456789ab",
        incarnation="0123456789abcdef0123456789abcdef",
        silent_s=123.4,
    )
    for ordinal in range(WORKERS_MAX)
)
SMALL = JobStatus("words", "uid", JobState.RUNNING, 1, workers=WORKERS, splits=(SplitStatus("lines", "0", 5),))


def large() -> JobStatus:
    """Make the status of the largest job, with everything wrong about all of it."""
    steps = [f"step-{number}-{'n' * 50}" for number in range(STEPS_MAX)]
    names = tuple("f" * 255 for _ in range(5))
    return replace(
        SMALL,
        steps=tuple(StepStatus(s, WORKERS_MAX, 10**15, 10**15, waits_s=9.5, because=LONG) for s in steps),
        sinks=tuple(SinkStatus(s, "at-least-once", LONG, 10**15, LONG) for s in steps),
        unlisted=tuple(UnlistedSource(s, LONG, 10**15) for s in steps),
        inputs=tuple(InputSeen("/" + "p" * 4_000, 9, 9, names, 9, names, s) for s in steps),
        failure="f" * 4_000,
    )


def test_a_status_that_fits_is_told_whole() -> None:
    assert fitting_bytes(SMALL) == encode(SMALL)
    assert not left_out_text(SMALL)


def test_the_largest_status_fits_and_keeps_what_decides() -> None:
    status = large()
    data = fitting_bytes(status)
    assert len(data) <= STATUS_BYTES_MAX < len(encode(status))
    told = decode(JobStatus, data)
    assert [(w.pod, w.incarnation, w.silent_s) for w in told.workers] == [
        (w.pod, w.incarnation, w.silent_s) for w in WORKERS
    ]
    assert told.failure == status.failure
    assert [s.name for s in told.sinks] == [s.name for s in status.sinks]


def test_what_is_left_out_is_named_and_no_more_than_has_to_be() -> None:
    status = replace(large(), inputs=(), unlisted=(), sinks=())
    status = replace(status, steps=tuple(replace(s, because=LONG * 2) for s in status.steps))
    told = decode(JobStatus, fitting_bytes(status))
    assert left_out_text(told) == (
        "not told, because the status would be too large: the splits with most left to read, the names of input files,"
        " reasons beyond 200 characters"
    )
    assert len(told.steps) == STEPS_MAX
    assert told.workers == WORKERS
