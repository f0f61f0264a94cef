"""The two objects of a job as the supervisor sees them: it reads one and writes the other.

``-latest`` is the workers' truth; the supervisor creates the first one and never changes it.
``-desired`` says what is wanted; only the supervisor writes it.
"""

import re
import threading
from collections.abc import Callable

from penstock.base.errors import ConfigError, StorageError
from penstock.base.limits import ANSWERS_KEPT_MAX, LAST_CHECKPOINT_WAIT_S
from penstock.base.values import replace
from penstock.cluster.system import RandomIds
from penstock.contract.codec import ABSENT
from penstock.contract.ids import JobUid, SwapId
from penstock.contract.latest import (
    Desired,
    Latest,
    Request,
    Restore,
    decode_desired,
    decode_latest,
    encode_desired,
    encode_latest,
    is_done,
)
from penstock.contract.pod import desired_name, latest_name
from penstock.contract.schemes import Choices, SchemeChoice, changed, given, read_choice, said
from penstock.contract.status import RequestAnswer
from penstock.contract.worker_rules import is_over
from penstock.ports import MetaStore, SwapUnknown

# These begin the ids of requests that are no ``Request``.
RESCALE, PARTITION, REBALANCE = "rescale-", "partition-", "rebalance-"
# A name becomes a folder, so nothing in it may lead elsewhere.
SAVEPOINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
REQUEST_KINDS = ("checkpoint", "savepoint", "stop")


class JobObjects:
    """Used by any thread; every change of ``-desired`` is one read and one swap under a lock."""

    def __init__(self, store: MetaStore, job: str, uid: JobUid) -> None:
        """Serve the objects of ``job`` in ``store``."""
        self._store = store
        self._desired = desired_name(job)
        self._latest = latest_name(job)
        self._uid = uid
        self._lock = threading.Lock()
        self._answered: dict[str, RequestAnswer] = {}
        self._refused: dict[SchemeChoice, str] = {}  # why, of those that were asked for
        self._asked: set[str] = set()
        self._stops: dict[Request, str] = {}  # those that wait for a checkpoint, by its id
        self._last_checkpoints: dict[str, str] = {}  # their ids, by those of the stops
        self._waits_since: float | None = None
        self._heard = threading.Condition()
        self._last: tuple[Latest, Desired] | None = None

    def begin(self, workers: int, restore: Restore | None, partition: Choices = ()) -> None:
        """Begin a run: a new ``run`` id, no requests; the first one makes ``-latest`` too.

        Raises StateError when a newer version has written it; nothing is written then.
        """
        found = self._store.get(self._latest)
        if found is not None:
            decode_latest(found.data)
        else:
            first = Latest(self._uid, SwapId(RandomIds().fresh()))
            self._store.create(self._latest, encode_latest(first))
        restored = self.latest().restored
        if restore is not None and restored is not None and is_done(restore, restored):
            restore = replace(restore, nonce=restored)  # or what was done in its place
        run = RandomIds().fresh()
        with self._lock:
            self._write(lambda _: Desired(workers, restore=restore, run=run, partition=partition or ABSENT))

    def close(self) -> None:
        """Remember both objects as they are: the store is about to be closed."""
        with self._lock:
            self._last = self.latest(), self.desired()

    def latest(self) -> Latest:
        """Read the truth as it is now."""
        if self._last is not None:
            return self._last[0]
        found = self._store.get(self._latest)
        assert found is not None, "made by begin()"
        return decode_latest(found.data)

    def desired(self) -> Desired:
        """Read what is wanted now."""
        if self._last is not None:
            return self._last[1]
        found = self._store.get(self._desired)
        assert found is not None, "made by begin()"
        return decode_desired(found.data)

    def rescale(self, workers: int) -> RequestAnswer:
        """Want another number of workers; the answer comes by :meth:`answer`."""
        with self._lock:
            self._write(lambda desired: replace(desired, workers=workers))
        return self._rescale_answer(f"{RESCALE}{workers}")

    def partition(self, choices: Choices) -> RequestAnswer:
        """Want other schemes of some steps; the answer comes by :meth:`answer`."""
        with self._lock:
            for choice in choices:
                self._refused.pop(choice, None)
            self._write(lambda desired: replace(desired, partition=changed(given(desired.partition), choices)))
        return self._partition_answer(PARTITION + ",".join(map(str, choices)))

    def rebalance(self) -> RequestAnswer:
        """Want key groups dealt out by load, once; the answer comes by :meth:`answer`."""
        with self._lock:
            known = (self.desired().rebalance, ABSENT if (done := self.latest().balance) is ABSENT else done.nonce)
            nonce = 1 + max((each for each in known if each is not ABSENT), default=0)
            self._write(lambda desired: replace(desired, rebalance=nonce))
        return self._rebalance_answer(f"{REBALANCE}{nonce}")

    def ask(self, kind: str, argument: str | None) -> RequestAnswer:
        """Add a request; the answer comes by :meth:`answer`.

        A stop without a savepoint asks for a checkpoint first, and follows when that was answered;
        soon in any case, because a job may be stopped that can take none.
        """
        if kind not in REQUEST_KINDS:
            raise ConfigError(f"request {kind!r}: one of {', '.join(REQUEST_KINDS)}")
        if argument is not None and not SAVEPOINT_NAME.fullmatch(argument):
            raise ConfigError(
                f"savepoint {argument!r}: a name is letters, digits, '.', '_' and '-', "
                "begins with a letter or digit, and has at most 63 characters"
            )
        request = Request(RandomIds().fresh(), kind, argument)
        first = request
        with self._lock:
            if kind == "stop" and argument is None and not is_over(self.latest(), self.desired()):
                first = Request(RandomIds().fresh(), "checkpoint")
                self._stops[request] = self._last_checkpoints[request.id] = first.id
            self._add(first)
        return RequestAnswer(request.id, kind, None, "")

    def _add(self, request: Request) -> None:
        self._write(lambda desired: replace(desired, requests=(*desired.requests, request)))

    def answer(self, request_id: str) -> RequestAnswer:
        """Say what became of a request; ``ok`` is None while it is under way."""
        answer = self._answer(request_id)
        if answer.ok is not None:
            with self._heard:
                self._asked.discard(request_id)
                self._heard.notify_all()
        return answer

    def expect_reader(self, request_id: str) -> None:
        """Note that another process waits for this answer."""
        with self._heard:
            self._asked.add(request_id)

    def wait_for_readers(self, timeout_s: float) -> None:
        """Wait until the answers that others wait for were read, but not for long."""
        with self._heard:
            self._heard.wait_for(lambda: not self._asked, timeout_s)

    def _answer(self, request_id: str) -> RequestAnswer:
        if request_id.startswith(RESCALE):
            return self._rescale_answer(request_id)
        if request_id.startswith(REBALANCE):
            return self._rebalance_answer(request_id)
        self.collect()
        if request_id.startswith(PARTITION):
            return self._partition_answer(request_id)
        with self._lock:
            if request_id in self._answered:
                return self._answered[request_id]
            waiting = tuple(self._stops)
        for request in (*self.desired().requests, *waiting):
            if request.id == request_id:
                return RequestAnswer(request_id, request.kind, None, "")
        raise ConfigError(f"no request {request_id!r} is known in this run")

    def _rescale_answer(self, request_id: str) -> RequestAnswer:
        workers = int(request_id.removeprefix(RESCALE))
        latest, desired = self.latest(), self.desired()
        kind = "rescale"
        if is_over(latest, desired):
            return RequestAnswer(request_id, kind, False, "the job has ended")
        if desired.workers != workers:
            text = f"overtaken by a request for {desired.workers} workers"
            return RequestAnswer(request_id, kind, False, text)
        if latest.workers == workers and latest.settled == latest.version:
            return RequestAnswer(request_id, kind, True, f"runs on {_workers(workers)}")
        return RequestAnswer(request_id, kind, None, latest.rescale or "")

    def _partition_answer(self, request_id: str) -> RequestAnswer:
        choices = tuple(map(read_choice, request_id.removeprefix(PARTITION).split(",")))
        latest, desired = self.latest(), self.desired()

        def answered(ok: bool | None, text: str) -> RequestAnswer:
            return RequestAnswer(request_id, "partition", ok, text)

        if is_over(latest, desired):
            return answered(False, "the job has ended")
        refused = [self._refused[choice] for choice in choices if choice in self._refused]
        if refused:
            return answered(False, "\n".join(refused))
        wanted = given(desired.partition)
        if any(choice not in wanted for choice in choices):
            return answered(False, f"overtaken by a request for {said(wanted)}")
        if set(choices) <= set(given(latest.schemes)) and latest.settled == latest.version:
            return answered(True, f"rows go to {said(choices)}")
        return answered(None, latest.rescale or "")

    def _rebalance_answer(self, request_id: str) -> RequestAnswer:
        nonce = int(request_id.removeprefix(REBALANCE))
        latest, desired, kind = self.latest(), self.desired(), "rebalance"
        done = latest.balance
        if done is not ABSENT and done.nonce == nonce and (not done.moved or latest.settled == latest.version):
            return RequestAnswer(request_id, kind, True, str(done))
        if is_over(latest, desired):
            return RequestAnswer(request_id, kind, False, "the job has ended")
        if desired.rebalance != nonce:
            return RequestAnswer(request_id, kind, False, "overtaken by another request to balance")
        return RequestAnswer(request_id, kind, None, latest.rescale or "")

    def answers(self) -> tuple[RequestAnswer, ...]:
        """List what was answered lately and what is under way."""
        with self._lock:
            done = tuple(self._answered.values())
        waiting = tuple(RequestAnswer(r.id, r.kind, None, "") for r in self.desired().requests)
        return done + waiting

    def collect(self) -> None:
        """Take answered requests and refused schemes away from ``-desired``, and remember their answers."""
        if self._last is not None:
            return
        latest = self.latest()
        self._collect_refused(latest)
        answers = {answer.request: answer for answer in latest.answers}
        if not answers:
            return
        with self._lock:
            desired = self.desired()
            done = [request for request in desired.requests if request.id in answers]
            if not done:
                return
            for request in done:
                answer = answers[request.id]
                text = answer.text + self._without_checkpoint(request.id)
                self._answered[request.id] = RequestAnswer(request.id, request.kind, answer.ok, text)
            while len(self._answered) > ANSWERS_KEPT_MAX:
                del self._answered[next(iter(self._answered))]
            left = tuple(request for request in desired.requests if request.id not in answers)
            self._write(lambda now: replace(now, requests=left))

    def _without_checkpoint(self, request_id: str) -> str:
        """Say that a stop had to do without its last checkpoint; nothing of other requests."""
        last = self._last_checkpoints.pop(request_id, None)
        met = None if last is None else self._answered.get(last)
        if last is None or (met is not None and met.ok):
            return ""
        why = f"no checkpoint was committed within {LAST_CHECKPOINT_WAIT_S:g} s"
        if met is not None:
            why = f"its last checkpoint was not committed ({met.text})"
        return f"; {why}: what was read after that epoch is rolled back, and the next run reads it again"

    def _collect_refused(self, latest: Latest) -> None:
        """Want what holds again where the leader has refused a scheme."""
        if latest.refused is ABSENT:
            return
        with self._lock:
            wanted = given(self.desired().partition)
            refused = {SchemeChoice(each.step, each.use): each.text for each in latest.refused}
            if not any(choice in refused for choice in wanted):
                return
            self._refused |= {choice: refused[choice] for choice in wanted if choice in refused}
            left = tuple(choice for choice in wanted if choice not in refused)
            named = {choice.step for choice in left}
            held = tuple(choice for choice in given(latest.schemes) if choice.step not in named)
            self._write(lambda now: replace(now, partition=(*left, *held)))

    def stop_when_due(self, now: float) -> None:
        """Ask for the stops whose checkpoint was answered, or has taken too long."""
        with self._lock:
            if not self._stops or self._last is not None:
                return
            self._waits_since = now if self._waits_since is None else self._waits_since
            late = now - self._waits_since >= LAST_CHECKPOINT_WAIT_S
            for stop in [s for s, first in self._stops.items() if late or first in self._answered]:
                self._add(stop)
                del self._stops[stop]  # only now: a swap that failed is tried again

    def _write(self, change: Callable[[Desired], Desired]) -> None:
        """Write what is wanted. Raises StorageError when it is not known to be written."""
        if self._last is not None:
            raise ConfigError("the job has ended")
        try:
            self._swap(change)
        except SwapUnknown as error:
            raise StorageError(str(error)) from error

    def _swap(self, change: Callable[[Desired], Desired]) -> None:
        found = self._store.get(self._desired)
        if found is None:
            self._store.create(self._desired, encode_desired(change(Desired(0))))
        else:
            data = encode_desired(change(decode_desired(found.data)))
            self._store.swap(self._desired, data, found.version)


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"
