"""How busy a job is, of the counters that its workers tell."""

from penstock.base.limits import LOAD_WINDOW_S, LOAD_WINDOWS_KEPT
from penstock.base.values import replace
from penstock.contract.ids import Attempt, Incarnation, JobUid, Ordinal, SwapId, Term, Version
from penstock.contract.latest import Latest
from penstock.contract.status import EngineProgress, StepStatus, WorkerReport
from penstock.keeper.status_publisher import LoadMeter

LATEST = Latest(
    JobUid("uid"),
    SwapId("s"),
    term=Term(1),
    attempt=Attempt(1),
    version=Version(1),
    settled=Version(1),
    workers=2,
)
Spent = tuple[float, float, float]  # busy, blocked, idle


def report(ordinal: int, *steps: tuple[str, Spent], attempt: int = 1) -> WorkerReport:
    told = tuple(
        StepStatus(name, 1, busy_s=busy, blocked_s=blocked, idle_s=idle) for name, (busy, blocked, idle) in steps
    )
    progress = EngineProgress(Attempt(attempt), told)
    return WorkerReport(Ordinal(ordinal), "k", 1, Incarnation("e"), 7, "", progress=progress)


def both(*shares: float, age: float, busy_before: float = 0.0) -> dict[Ordinal, WorkerReport]:
    """Two workers of one step whose tasks are ``age`` old and worked a share of that."""
    return {Ordinal(n): report(n, ("a", (busy_before + s * age, 0.0, age * (1 - s)))) for n, s in enumerate(shares)}


def test_a_share_is_that_of_all_tasks_of_the_busiest_step() -> None:
    meter = LoadMeter()
    first = {Ordinal(n): report(n, ("a", (1, 0, 0)), ("b", (0, 0, 1))) for n in (0, 1)}
    assert meter.look(LATEST, first) is None
    w = LOAD_WINDOW_S
    later = {
        Ordinal(0): report(0, ("a", (1 + w, 0, 0)), ("b", (0, 0, 1 + w))),
        Ordinal(1): report(1, ("a", (1, w, 0)), ("b", (0.25 * w, 0, 1 + 0.75 * w))),
    }
    load = meter.look(LATEST, later)
    assert load is not None
    assert (load.busy, load.step) == ((0.5,), "a"), "blocked is not busy"
    assert load.blocked == (0.5,), "of the step that waited most"


def test_a_window_is_as_long_as_the_tasks_have_lived_in_it() -> None:
    meter = LoadMeter()
    meter.look(LATEST, both(0.5, 0.5, age=0.0))
    assert meter.look(LATEST, both(0.5, 0.5, age=LOAD_WINDOW_S - 1)) is None
    assert meter.look(LATEST, both(0.5, 0.5, age=LOAD_WINDOW_S)) is not None
    load = meter.look(LATEST, both(0.5, 0.5, age=LOAD_WINDOW_S + 1))
    assert load is not None
    assert load.busy == (0.5,), "the next one has only begun"


def test_no_window_ends_without_a_word_of_every_worker() -> None:
    meter = LoadMeter()
    meter.look(LATEST, both(1.0, 0.0, age=0.0))
    one = {Ordinal(0): both(1.0, 0.0, age=60.0)[Ordinal(0)]}
    assert meter.look(LATEST, one) is None
    behind = {**both(1.0, 0.0, age=60.0), Ordinal(1): report(1, ("a", (9, 0, 0)), attempt=0)}
    assert meter.look(LATEST, behind) is None
    dead = both(1.0, 0.0, age=60.0)
    dead[Ordinal(1)] = replace(dead[Ordinal(1)], engine_pid=None)
    assert meter.look(LATEST, dead) is None
    load = meter.look(LATEST, both(1.0, 0.0, age=60.0))
    assert load is not None
    assert load.busy == (0.5,)


def test_a_worker_that_has_left_counts_no_more() -> None:
    meter, smaller = LoadMeter(), replace(LATEST, workers=1)
    meter.look(smaller, both(1.0, 0.0, age=0.0))
    load = meter.look(smaller, both(1.0, 0.0, age=60.0))
    assert load is not None
    assert load.busy == (1.0,)


def test_another_attempt_or_version_begins_anew_once_it_is_settled() -> None:
    meter = LoadMeter()
    meter.look(LATEST, both(0.5, 0.5, age=0.0))
    assert meter.look(LATEST, both(0.5, 0.5, age=60.0)) is not None
    moved = replace(LATEST, version=Version(2))
    assert meter.look(moved, both(0.5, 0.5, age=120.0)) is None
    settled = replace(moved, settled=Version(2))
    assert meter.look(settled, both(0.5, 0.5, age=180.0)) is None, "here the first window begins"
    assert meter.look(settled, both(0.5, 0.5, age=240.0)) is not None
    again = {o: replace(r) for o, r in both(0.5, 0.5, age=300.0).items()}
    assert meter.look(replace(settled, attempt=Attempt(2)), again) is None


def test_counters_that_went_back_or_are_of_other_tasks_are_compared_with_nothing() -> None:
    meter = LoadMeter()
    meter.look(LATEST, both(0.5, 0.5, age=100.0))
    assert meter.look(LATEST, both(0.5, 0.5, age=10.0)) is None
    other = {Ordinal(n): report(n, ("b", (60.0, 0, 0))) for n in (0, 1)}
    assert meter.look(LATEST, other) is None


def test_what_is_kept_is_bounded() -> None:
    meter = LoadMeter()
    for turn in range(LOAD_WINDOWS_KEPT + 10):
        meter.look(LATEST, both(0.25, 0.25, age=LOAD_WINDOW_S * turn))
    assert meter.busy == (0.25,) * LOAD_WINDOWS_KEPT
    assert meter.blocked == (0.0,) * LOAD_WINDOWS_KEPT


def test_a_job_that_has_ended_is_not_measured() -> None:
    meter = LoadMeter()
    meter.look(LATEST, both(1.0, 1.0, age=0.0))
    assert meter.look(replace(LATEST, finished=True), both(0.0, 0.0, age=60.0)) is None
