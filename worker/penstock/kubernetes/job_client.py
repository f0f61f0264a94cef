"""The client of a job in a cluster. It reads and writes the job's objects, with the rights of the user.

It has the methods of the client of a job on this machine, but it does not talk to a worker. A StreamJob is
scaled by its scale subresource, a savepoint is an object, and the status of the job is what the operator and
the leader have written.
"""

import threading
import time
from collections.abc import Callable, Iterator

from penstock.base.errors import (
    ConfigError,
    PeerError,
    PenstockError,
    StorageError,
    UnansweredError,
)
from penstock.base.units import span_text
from penstock.base.values import replace
from penstock.contract.codec import decode
from penstock.contract.pod import RECORD, status_name
from penstock.contract.schema import API_VERSION
from penstock.contract.schemes import Choices, SchemeChoice, changed, said
from penstock.contract.status import ENDED, JobState, JobStatus, RequestAnswer
from penstock.contract.streamjob_status import (
    ConditionType,
    StreamJobState,
    StreamJobStatus,
    Truth,
    read_status,
)
from penstock.contract.streamsnapshot import KIND, SnapshotState, SnapshotStatus, read_snapshot_status
from penstock.kubernetes.answers import ApiRefused, ApiUnanswered, Object
from penstock.kubernetes.client import ApiClient

LOOK_FIRST_S = 0.05
LOOK_INTERVAL_S = 0.5
OLD_WORDS_S = 60.0  # a leader says more every few seconds; the clocks of two machines may differ by some
CONFLICTS_MAX = 8
_STATES = {
    StreamJobState.UPGRADING: JobState.RESTARTING,
    StreamJobState.SUSPENDING: JobState.STOPPING,
    StreamJobState.SUSPENDED: JobState.STOPPED,
    StreamJobState.DELETING: JobState.STOPPING,
}
_WITHOUT_WORKERS = frozenset({JobState.STOPPED, JobState.FINISHED})
_MOVING = frozenset({StreamJobState.FAILED, StreamJobState.FINISHED, StreamJobState.DELETING})


class ClusterJobClient:
    """Every method raises UnansweredError when no server answers, StorageError when it refuses."""

    def __init__(self, client: ApiClient, job: str) -> None:
        """Ask about the StreamJob ``job`` of the client's namespace."""
        self._client = client
        self._job = job
        self._folder = f"/apis/{API_VERSION}/namespaces/{client.namespace}"
        self._maps = f"/api/v1/namespaces/{client.namespace}/configmaps"
        self._pause = threading.Event()

    def status(self) -> JobStatus:
        """Return where the job stands. Raises ConfigError when there is no such StreamJob."""
        found = self._read()
        seen = read_status(found.get("status") or {})
        told = self._told()
        state = _STATES.get(seen.state) or _state(seen.state)
        if told is None or told.uid != found["metadata"]["uid"]:
            told = JobStatus(self._job, str(found["metadata"]["uid"]), state, 0)
        wanted = int((found.get("spec") or {}).get("replicas", told.wanted_workers))
        if seen.autoscaling is not None:
            wanted = seen.autoscaling.replicas
        failure = _trouble(seen) or _silence(told, state) or (told.failure if state is not JobState.RUNNING else None)
        workers = () if state in _WITHOUT_WORKERS else told.workers  # the last words of a leader name them
        return replace(told, state=state, wanted_workers=wanted, failure=failure, workers=workers)

    def rescale(self, workers: int) -> RequestAnswer:
        """Change the number of workers. Returns when they run, or when they cannot."""
        path = f"{self._folder}/streamjobs/{self._job}/scale"
        self._do(lambda: self._client.merge(path, {"spec": {"replicas": workers}}))
        pauses = _pauses()
        while (answer := self._rescaled(workers)).ok is None:
            self._pause.wait(next(pauses))
        return answer

    def partition(self, choices: Choices) -> RequestAnswer:
        """Choose other schemes: ``spec.partition``. Returns when they hold, or when they are refused."""
        path = f"{self._folder}/streamjobs/{self._job}"

        def ask() -> Object:
            found = self._client.get(path)
            before = (found.get("spec") or {}).get("partition") or ()
            wanted = changed(tuple(SchemeChoice(each["step"], each["use"]) for each in before), choices)
            spec = {"partition": [{"step": each.step, "use": each.use} for each in wanted]}
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            return self._client.merge(path, {"metadata": version, "spec": spec})

        self._do(lambda: _again(ask))
        pauses = _pauses()
        while (answer := self._partitioned(choices)).ok is None:
            self._pause.wait(next(pauses))
        return answer

    def rebalance(self) -> RequestAnswer:
        """Count ``spec.rebalanceNonce`` up. Returns when key groups have moved, or when nothing would get better."""
        path = f"{self._folder}/streamjobs/{self._job}"

        def ask() -> Object:
            found = self._client.get(path)
            nonce = 1 + int((found.get("spec") or {}).get("rebalanceNonce") or 0)
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            return self._client.merge(path, {"metadata": version, "spec": {"rebalanceNonce": nonce}})

        nonce = self._do(lambda: _again(ask))["spec"]["rebalanceNonce"]
        pauses = _pauses()
        while (answer := self._rebalanced(nonce)).ok is None:
            self._pause.wait(next(pauses))
        return answer

    def savepoint(self, name: str) -> RequestAnswer:
        """Take a savepoint, as the StreamSnapshot ``name``; returns when it is complete or failed.

        One of this job that is under way is awaited. One that has ended is not taken again, and not for a new one.
        """
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {"jobRef": self._job, "type": "Savepoint"},
        }
        folder = f"{self._folder}/streamsnapshots"
        try:
            self._do(lambda: self._client.create(folder, body))
        except _Exists:
            known = self._do(lambda: self._client.get(f"{folder}/{name}"))
            if (known.get("spec") or {}).get("jobRef") != self._job:
                raise ConfigError(f"StreamSnapshot {name!r} is there already, of another job") from None
            ended = _ended_before(name, read_snapshot_status(known.get("status") or {}))
            if ended is not None:
                return ended
        pauses = _pauses()
        while True:
            found = self._do(lambda: self._client.get(f"{folder}/{name}"))
            status = read_snapshot_status(found.get("status") or {})
            if status.state is SnapshotState.COMPLETED:
                return RequestAnswer(name, "savepoint", True, status.path or "")
            if status.state is SnapshotState.FAILED:
                return RequestAnswer(name, "savepoint", False, status.message)
            self._pause.wait(next(pauses))

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _rescaled(self, workers: int) -> RequestAnswer:
        found = self._read()
        wanted = (found.get("spec") or {}).get("replicas")
        if wanted != workers:
            text = f"overtaken by a request for {wanted} workers"
            return RequestAnswer("", "rescale", False, text)
        seen = read_status(found.get("status") or {})
        if seen.observed_generation < int(found["metadata"].get("generation", 0)):
            return RequestAnswer("", "rescale", None, "")
        if seen.state in _MOVING:
            text = _trouble(seen) or f"the job is {seen.state}"
            return RequestAnswer("", "rescale", False, text)
        if seen.desired_replicas is not None and seen.desired_replicas != workers:
            return RequestAnswer("", "rescale", False, _not_wanted(seen, seen.desired_replicas))
        there = seen.assignment is not None and seen.assignment.workers == workers
        if there and seen.state is StreamJobState.RUNNING:
            return RequestAnswer("", "rescale", True, f"runs on {workers} workers")
        if seen.state is StreamJobState.SUSPENDED:
            text = f"suspended; it will resume on {workers} workers"
            return RequestAnswer("", "rescale", True, text)
        return RequestAnswer("", "rescale", None, "")

    def _partitioned(self, choices: Choices) -> RequestAnswer:
        found = self._read()
        asked = [(each["step"], each["use"]) for each in (found.get("spec") or {}).get("partition") or ()]
        if any((choice.step, choice.use) not in asked for choice in choices):
            return RequestAnswer("", "partition", False, "overtaken by another change of spec.partition")
        return _judged(found, "partition", ConditionType.PARTITIONED, f"rows go to {said(choices)}")

    def _rebalanced(self, nonce: int) -> RequestAnswer:
        found = self._read()
        if (found.get("spec") or {}).get("rebalanceNonce") != nonce:
            return RequestAnswer("", "rebalance", False, "overtaken by another change of spec.rebalanceNonce")
        return _judged(found, "rebalance", ConditionType.BALANCED)

    def _read(self) -> Object:
        return self._do(lambda: self._client.get(f"{self._folder}/streamjobs/{self._job}"))

    def _told(self) -> JobStatus | None:
        """Return what the leader said last; None when that is nothing, or of another release."""
        try:
            found = self._client.get(f"{self._maps}/{status_name(self._job)}")
            record = (found.get("data") or {}).get(RECORD)
            return None if not record else decode(JobStatus, str(record).encode())
        except (ApiRefused, ApiUnanswered, PeerError):
            return None  # the StreamJob itself says the rest

    def _do(self, call: Callable[[], Object]) -> Object:
        try:
            return call()
        except ApiRefused as error:
            raise self._words(error) from error
        except ApiUnanswered as error:
            raise UnansweredError(f"the API server does not answer: {error}") from error

    def _words(self, error: ApiRefused) -> PenstockError:
        if error.code == 404:
            where = f"namespace {self._client.namespace!r}"
            return NoSuchJobError(f"no StreamJob {self._job!r} in {where}: {error.message}")
        if error.code == 409 and error.reason == "AlreadyExists":
            return _Exists(error.message)
        if error.code == 422:
            return ConfigError(error.message)
        return StorageError(str(error))


class NoSuchJobError(ConfigError):
    """There is no StreamJob of the name in the namespace."""


class _Exists(StorageError):
    """The object is there already."""


def _again(call: Callable[[], Object]) -> Object:
    """Call once more while others have written between the read and the write, but not for ever."""
    for _ in range(CONFLICTS_MAX):
        try:
            return call()
        except ApiRefused as error:
            if error.code != 409:
                raise
    return call()


def _pauses() -> Iterator[float]:
    """Yield the seconds from one look to the next: small things are done at once."""
    pause_s = LOOK_FIRST_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LOOK_INTERVAL_S)


def _trouble(status: StreamJobStatus) -> str | None:
    """Return what a person has to mend, in the operator's words."""
    for condition in status.conditions:
        stalled = condition.type == ConditionType.STALLED and condition.status == Truth.TRUE
        refused = condition.type == ConditionType.ACCEPTED and condition.status == Truth.FALSE
        if stalled or refused:
            return f"{condition.reason}: {condition.message}"
    if status.state is StreamJobState.FAILED and status.last_failure is not None:
        return status.last_failure.message
    return None


def _ended_before(name: str, status: SnapshotStatus) -> RequestAnswer | None:
    """Return the answer to a request for a StreamSnapshot that has ended before; None for one under way."""
    if status.state not in {SnapshotState.COMPLETED, SnapshotState.FAILED}:
        return None
    when = "" if status.completed is None else f" on {status.completed}"
    what = status.path or status.message
    text = f"StreamSnapshot {name!r} is there already, {status.state}{when}: {what}; give another name for a new one"
    return RequestAnswer(name, "savepoint", False, text)


def _silence(told: JobStatus, state: JobState) -> str | None:
    """Say that the newest words of the leader are old; None while they are not, or no leader is there to say more."""
    silent_s = time.time_ns() / 1e9 - told.time_us / 1e6
    if state in ENDED or not told.time_us or silent_s < OLD_WORDS_S:
        return None
    return (
        f"the leader has told nothing for {span_text(float(int(silent_s)))}: what is shown of workers, rows and"
        " checkpoints is as it was then"
    )


def _not_wanted(status: StreamJobStatus, wanted: int) -> str:
    """Say why the operator, which has seen the request, wants another number of workers."""
    if status.autoscaling is not None:
        return (
            f"spec.autoscaling chooses the number of workers, {wanted} now; spec.replicas is only what it begins with"
        )
    return _trouble(status) or f"the operator wants {wanted} workers"


def _state(text: str) -> JobState:
    """Read the state; one of a newer operator has no word here: something is under way."""
    return JobState(text) if text in set(JobState) else JobState.PENDING


def _judged(found: Object, kind: str, condition: ConditionType, done: str = "") -> RequestAnswer:
    """Return what a condition says of a change of the spec; ``ok`` is None while it says nothing.

    ``done`` is said in place of its message when it is True.
    """
    seen = read_status(found.get("status") or {})
    judged = seen.condition(condition)
    ok, text = None, ""
    if seen.observed_generation < int(found["metadata"].get("generation", 0)):
        pass
    elif seen.state in _MOVING:
        ok, text = False, _trouble(seen) or f"the job is {seen.state}"
    elif seen.state is StreamJobState.SUSPENDED:
        ok, text = True, "suspended; the change comes when it resumes"
    elif judged is not None and judged.status is not Truth.UNKNOWN:
        ok = judged.status is Truth.TRUE
        text = (done if ok else "") or judged.message
    return RequestAnswer("", kind, ok, text)
