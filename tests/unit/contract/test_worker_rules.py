from penstock.base.values import replace
from penstock.contract.ids import Incarnation, JobUid, Ordinal, SwapId, Term
from penstock.contract.latest import Latest, Lost
from penstock.contract.status import JobState, JobStatus, WorkerStatus
from penstock.contract.worker_rules import PodSeen, to_replace

LOST = Latest(JobUid("job"), SwapId("s"), Term(3), lost=(Lost(Ordinal(1), Incarnation("e1"), "pod-b"),))
PODS = [PodSeen("words-worker-0", "pod-a"), PodSeen("words-worker-1", "pod-b")]
WORKERS = (WorkerStatus(0, "up", pod="pod-a", incarnation="e0"),)
STATUS = JobStatus("words", "job", JobState.RESTARTING, 0, term=3, workers=WORKERS, listening_s=60.0)


def speaking(incarnation: str, silent_s: float) -> JobStatus:
    spoken = WorkerStatus(1, "up", pod="pod-b", incarnation=incarnation, silent_s=silent_s)
    return replace(STATUS, workers=(*WORKERS, spoken))


def test_the_silent_pod_of_a_lost_life_goes() -> None:
    assert to_replace(LOST, STATUS, PODS) == [PODS[1]]
    assert to_replace(LOST, speaking("e1", silent_s=9.0), PODS) == [PODS[1]]


def test_its_successor_of_the_same_name_stays() -> None:
    assert to_replace(LOST, STATUS, [PODS[0], PodSeen("words-worker-1", "pod-c")]) == []


def test_a_pod_that_has_announced_a_newer_life_stays() -> None:
    assert to_replace(LOST, speaking("e2", silent_s=9.0), PODS) == []


def test_a_keeper_that_speaks_restarts_its_engine_itself() -> None:
    assert to_replace(LOST, speaking("e1", silent_s=0.3), PODS) == []


def test_nothing_is_known_before_the_leader_has_listened() -> None:
    assert to_replace(LOST, replace(STATUS, listening_s=1.0), PODS) == []
    assert to_replace(LOST, None, PODS) == []


def test_what_an_earlier_leader_heard_does_not_count() -> None:
    assert to_replace(LOST, replace(STATUS, term=2), PODS) == []


def test_a_life_whose_pod_is_not_known_costs_nobody_a_pod() -> None:
    nowhere = replace(LOST, lost=(Lost(Ordinal(1), Incarnation("e1")),))
    assert to_replace(nowhere, STATUS, [*PODS, PodSeen("words-worker-2", "")]) == []
