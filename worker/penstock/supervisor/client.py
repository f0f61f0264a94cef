"""Asks the supervisor of a running job, from another process: what the CLI's commands do."""

import threading
from pathlib import Path

from penstock.base.errors import ConfigError, PeerError, StateError, UnansweredError
from penstock.cluster.rpc import (
    ANSWER,
    ASK,
    END,
    PARTITION,
    REBALANCE,
    RESCALE,
    STATUS,
    AnswerOf,
    Ask,
    Client,
    End,
    Method,
    Nothing,
    Partition,
    Reply,
    Request,
    Rescale,
    Unreachable,
)
from penstock.contract.latest import decode_latest
from penstock.contract.pod import latest_name
from penstock.contract.schemes import Choices
from penstock.contract.status import JobStatus, RequestAnswer
from penstock.storage.sqlite import peek
from penstock.supervisor.folders import JobFolder, find_endpoint
from penstock.supervisor.wording import as_options

ANSWER_INTERVAL_S = 0.05
SILENT_CALLS_MAX = 3


def connect(directory: Path, job: str) -> "JobClient":
    """Find the running job in ``directory``. Raises ConfigError when there is none.

    If the job has failed, the error says why. Raises ConfigError, too, when another user may have put
    something into the job's folder: nothing in it is read then.
    """
    try:
        endpoint = find_endpoint(directory, job)
    except ConfigError as error:
        why = last_failure(directory, job)
        if why is None:
            raise
        raise ConfigError(f"{error}: it has failed\n{why}") from error
    return JobClient(job, Client(endpoint.address, endpoint.token))


def last_failure(directory: Path, job: str) -> str | None:
    """Return why a job that does not run has failed, with options as remedies; None when it has not, or is not known.

    Raises ConfigError when another user may have put something into the job's folder.
    """
    database = JobFolder.find(directory, job).database
    try:
        kept = peek(database, latest_name(job))
        why = None if kept is None else decode_latest(kept).failure
    except (StateError, PeerError):  # the next run says so
        return None
    return None if why is None else as_options(why)


class JobClient:
    """Every method raises UnansweredError when the supervisor does not answer.

    It raises StorageError when the supervisor answers that it could not do what was asked, and PeerError
    when another server does: the port of a supervisor that has ended may be given to anybody.
    """

    def __init__(self, job: str, client: Client) -> None:
        """Ask through ``client``, which is closed by :meth:`close`."""
        self._job = job
        self._client = client

    def status(self) -> JobStatus:
        """Return where the job stands."""
        return self._call(STATUS, Nothing())

    def rescale(self, workers: int) -> RequestAnswer:
        """Change the number of workers. Returns when the change is committed and settled, or was given up."""
        return self._wait_for(self._call(RESCALE, Rescale(workers)))

    def partition(self, choices: Choices) -> RequestAnswer:
        """Choose other schemes. Returns when they hold and all is settled, or when they are refused."""
        return self._wait_for(self._call(PARTITION, Partition(choices)))

    def rebalance(self) -> RequestAnswer:
        """Deal key groups out by load. Returns when that is settled, or when nothing would get better."""
        return self._wait_for(self._call(REBALANCE, Nothing()))

    def request(self, kind: str, argument: str | None = None) -> RequestAnswer:
        """Ask for a ``checkpoint``, ``savepoint`` or ``stop``; returns when it is answered."""
        return self._wait_for(self._call(ASK, Ask(kind, argument)))

    def savepoint(self, name: str) -> RequestAnswer:
        """Take a savepoint, which is kept until the user deletes it."""
        return self.request("savepoint", name)

    def stop(self, savepoint: str | None = None) -> RequestAnswer:
        """Stop after a last checkpoint, kept as ``savepoint`` when that names one."""
        return self.request("stop", savepoint)

    def kill(self) -> None:
        """End all processes of the job at once, without a checkpoint."""
        self._call(END, End())

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _wait_for(self, answer: RequestAnswer) -> RequestAnswer:
        pause = threading.Event()
        silent = 0
        while answer.ok is None:
            pause.wait(ANSWER_INTERVAL_S)
            try:
                answer = self._call(ANSWER, AnswerOf(answer.id))
            except UnansweredError:  # on a busy machine one call may come too late: ask again
                silent += 1
                if silent == SILENT_CALLS_MAX:
                    raise
            else:
                silent = 0
        return answer

    def _call(self, method: Method[Request, Reply], request: Request) -> Reply:
        try:
            return self._client.call(method, request)
        except Unreachable as error:
            raise UnansweredError(f"job {self._job!r} does not answer: {error}") from error
