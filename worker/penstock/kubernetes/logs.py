"""What the containers of a job's pods have said: read by the API server from their nodes."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.errors import ConfigError, StorageError
from penstock.contract.pod import ENGINE_CONTAINER, KEEPER_CONTAINER, LABEL_JOB, workers_name
from penstock.kubernetes.answers import ApiRefused, ApiUnanswered
from penstock.kubernetes.client import ApiClient

LINES_WAITING_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Stream:
    """One container's log."""

    pod: str
    container: str


def streams_of(client: ApiClient, job: str, worker: int | None) -> list[Stream]:
    """List the logs of a job, by worker. Raises ConfigError when there is no such pod."""
    path = f"/api/v1/namespaces/{client.namespace}/pods"
    try:
        found = client.get(path, labelSelector=f"{LABEL_JOB}={job}")
    except (ApiRefused, ApiUnanswered) as error:
        raise StorageError(f"pods of job {job!r}: {error}") from error
    names = _workers(job, [str(item["metadata"]["name"]) for item in found.get("items") or []])
    if worker is not None:
        names = [name for name in names if name == f"{workers_name(job)}-{worker}"]
    if not names:
        whose = f"job {job!r}" if worker is None else f"worker {worker} of job {job!r}"
        raise ConfigError(f"no pod of {whose} in namespace {client.namespace!r}")
    return [Stream(name, c) for name in names for c in (KEEPER_CONTAINER, ENGINE_CONTAINER)]


def _workers(job: str, names: list[str]) -> list[str]:
    """Return the pods of workers by ordinal. Pods of the job that remove files or send rows have other containers."""
    parts = [(name.rpartition("-"), name) for name in names]
    found = [(int(end), name) for (head, _, end), name in parts if head == workers_name(job) and end.isdecimal()]
    return [name for _, name in sorted(found)]


def read_logs(client: ApiClient, streams: list[Stream], tail: int, *, follow: bool) -> Iterator[tuple[Stream, str]]:
    """Yield lines with where they come from; one log after the other, or as they come.

    A container that has not started has no lines yet. A stream that breaks while it is followed
    ends; the others go on.
    """
    if not follow:
        for stream in streams:
            for line in _lines(client, stream, tail, follow=False):
                yield stream, line
        return
    lines: queue.Queue[tuple[Stream, str | None]] = queue.Queue(LINES_WAITING_MAX)

    def listen(stream: Stream) -> None:
        for line in _lines(client, stream, tail, follow=True):
            lines.put((stream, line))
        lines.put((stream, None))

    for stream in streams:
        threading.Thread(target=listen, args=(stream,), daemon=True).start()
    left = len(streams)
    while left:
        stream, text = lines.get()
        if text is None:
            left -= 1
        else:
            yield stream, text


def _lines(client: ApiClient, stream: Stream, tail: int, *, follow: bool) -> Iterator[str]:
    path = f"/api/v1/namespaces/{client.namespace}/pods/{stream.pod}/log"
    query = {"container": stream.container, "tailLines": str(tail)}
    if follow:
        query["follow"] = "true"
    try:
        with client.lines(path, None, **query) as lines:
            yield from lines
    except (ApiRefused, ApiUnanswered) as error:
        yield f"(no log: {error})"
