"""The disturbances of a running job, step by step, and how long the job needs to recover from each."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.contract.status import JobStatus, WorkerStatus
from penstock_spark.demo.job import DemoError, RunningJob, is_well, kill_worker

RECOVERY_TIMEOUT_S = 120.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance, and the seconds until the job had recovered. ``detail`` is the job's own answer."""

    name: str
    seconds: float
    detail: str = ""


def disturb(job: RunningJob, say: Say) -> list[Disturbance]:
    """Kill a worker, kill the leader, rescale 2 -> 3 -> 2; let a few epochs pass before each.

    Raises DemoError when the job ends too early or is not well in time.
    """
    job.until("the first output", lambda s: s.published_through >= 1, RECOVERY_TIMEOUT_S)
    say("first output is visible")
    job.epochs(2)
    events = [_kill(job, say, leader=False)]
    job.epochs(2)
    events.append(_kill(job, say, leader=True))
    job.epochs(2)
    for workers in (3, 2):
        events.append(_rescale(job, say, workers))
        job.epochs(2)
    return events


def _kill(job: RunningJob, say: Say, *, leader: bool) -> Disturbance:
    before = job.until("a leader and all workers", _complete, RECOVERY_TIMEOUT_S)
    victim = _find(before, leader=leader)
    role = "the leader" if leader else "a worker"
    say(f"SIGKILL to {role}: worker {victim.ordinal}, keeper {victim.keeper_pid} and its engine")
    begun = time.monotonic()
    kill_worker(victim)
    after = job.until(
        f"recovery from the death of {role}",
        lambda s: s.attempt > before.attempt and is_well(s),
        RECOVERY_TIMEOUT_S,
    )
    seconds = time.monotonic() - begun
    say(f"running again after {seconds:.1f} s (attempt {after.attempt}, term {after.term})")
    return Disturbance(f"recovery after the death of {role}", seconds)


def _complete(status: JobStatus) -> bool:
    known = all(w.keeper_pid and w.engine_pid for w in status.workers)
    return is_well(status) and known and any(w.leader for w in status.workers)


def _find(status: JobStatus, *, leader: bool) -> WorkerStatus:
    found = [w for w in status.workers if w.leader == leader]
    if not found:
        raise DemoError(f"no worker to kill among {status.workers}")
    return found[0]


def _rescale(job: RunningJob, say: Say, workers: int) -> Disturbance:
    before = len(job.workers())
    say(f"penstock rescale {before} -> {workers} workers")
    begun = time.monotonic()
    answer = job.rescale(workers)
    seconds = time.monotonic() - begun
    job.until(f"{workers} workers", lambda s: is_well(s) and len(s.workers) == workers, RECOVERY_TIMEOUT_S)
    say(f"rescaled in {seconds:.1f} s: {answer}")
    return Disturbance(f"rescale {before} -> {workers}, request to settled", seconds, answer)
