"""Output to a Kafka topic, exactly once: staged before the commit, and written with a marker after it.

    write  ──encoded──> part ──> <job's storage>/staged/<step>/...   (fsynced files of records)
    commit ──> publish: fence, read the marker, records and marker in one transaction (marked_topic.py)

An open transaction would not survive: its broker aborts it after some minutes, and committed output would be
lost. Here nothing waits in Kafka: what is not written yet is in files of the job, for as long as it takes.

Each sink task has one transactional id, stable over attempts: the job's UID, the step, worker and slot. The
marker counts staged files over all handles of a task. So all of them are published by one call, in order.

A handle says which epoch the marker had reached when it was prepared (``known``). So a marker that was lost
later is noticed, and output is neither repeated nor left out in silence.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.base.errors import PeerError, StateError, StorageError
from penstock.base.threads import Lock
from penstock.base.values import replace
from penstock.connectors.kafka.client import client_settings, library
from penstock.connectors.kafka.encoding import RecordEncoder, record_form, staged_records
from penstock.connectors.kafka.marked_topic import Block, MarkedTopic
from penstock.connectors.kafka.topics import RECORD_BYTES_MAX, record_bytes_max, topic_id
from penstock.connectors.parquet_folder import hash_file, parse_cut
from penstock.connectors.parquet_sink import FileSink, ParquetPending, ParquetPublisher, ParquetSinkWriter
from penstock.contract.codec import parsed
from penstock.contract.ids import Attempt, Epoch, TaskId
from penstock.contract.kafka_options import KafkaOutput
from penstock.contract.manifest import SinkHandle
from penstock.file_system import OS_FILES
from penstock.ports import FileSystem
from penstock.protocol.marked import DROP, Wanted

DIGEST_CHARS = 32


class KafkaSink:
    """The sink step of one engine, for one topic."""

    guarantee = "exactly-once"

    def __init__(
        self, step: str, options: KafkaOutput, schema: pa.Schema, folder: Path, files: FileSystem = OS_FILES
    ) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`.

        Raises ConfigError when a column does not fit, or the client is missing.
        """
        library()
        self._step = step
        self._encoder = RecordEncoder(options, schema)
        self._staging = FileSink(f"records.{step}", str(folder), record_form(), files)
        self._topics = _Topics(step, options)
        self.publisher = KafkaPublisher(self._staging, self._topics, folder, files)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Look at the topic, and take the folder of staged files. Idempotent. Blocking.

        Raises StateError when there is no such topic, StorageError when a retry may help.
        """
        self._topics.claim(job_uid)
        self._staging.claim(job_uid, fresh)
        self.publisher.claimed(job_uid)

    def sweep(self, attempt: Attempt) -> None:
        """Remove what older attempts have staged."""
        self._staging.sweep(attempt)

    def writer(self, task: TaskId, attempt: Attempt) -> "KafkaWriter":
        """Make the writer of one task for one attempt."""
        return KafkaWriter(self._step, self._staging.writer(task, attempt), self._encoder, self._topics, task)

    def close(self) -> None:
        """End the thread that stages, and the clients; idempotent."""
        self._staging.close()
        self._topics.close()


class _Topics:
    """The topic as each task of the sink writes it: one transactional id for each."""

    def __init__(self, step: str, options: KafkaOutput) -> None:
        self.options = options
        self._step = step.replace("/", "_")
        self._job_uid = ""
        self._marked: dict[TaskId, MarkedTopic] = {}
        self._lock = Lock()
        self.bytes_max = RECORD_BYTES_MAX

    def claim(self, job_uid: str) -> None:
        self._job_uid = job_uid
        settings = self._settings()
        topic_id(settings, self.options.topic)
        self.bytes_max = record_bytes_max(settings, self.options.topic)

    def of(self, task: TaskId) -> MarkedTopic:
        """Return the topic as ``task`` writes it."""
        with self._lock:
            if task not in self._marked:
                name = f"{self.options.transactional_id_prefix}{self._job_uid}/{self._step}/{task.worker}.{task.slot}"
                settings = {**self._settings(), "message.max.bytes": self.bytes_max}
                self._marked[task] = MarkedTopic(settings, self.options.topic, name, self.options.partitioner)
            return self._marked[task]

    def close(self) -> None:
        with self._lock:
            for marked in self._marked.values():
                marked.close()
            self._marked.clear()

    def _settings(self) -> dict[str, Any]:
        return client_settings(self.options.bootstrap_servers, self.options.client_file)


class KafkaWriter:
    """Output of one task: it encodes rows, and stages records in files."""

    guarantee = KafkaSink.guarantee

    def __init__(
        self, step: str, staging: ParquetSinkWriter, encoder: RecordEncoder, topics: _Topics, task: TaskId
    ) -> None:
        self._step = step
        self._staging = staging
        self._encoder = encoder
        self._topics = topics
        self._task = task

    def room(self) -> bool:
        """Return whether the records in memory are below their bound."""
        return self._staging.room()

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode rows. Raises ConfigError when a record is larger than the topic takes: nothing is committed then."""
        if batch.num_rows:
            self._staging.write(self._encoder.records(batch, self._topics.bytes_max))

    def seal(self, epoch: Epoch, name: str) -> "KafkaPending":
        """Cut: all rows so far belong to ``epoch``."""
        return KafkaPending(self._step, self._staging.seal(epoch, name), self._topics.of(self._task))

    def close(self) -> None:
        """Drop rows and files that are in no cut."""
        self._staging.close()


class KafkaPending:
    """The records of one cut."""

    def __init__(self, step: str, staging: ParquetPending, marked: MarkedTopic) -> None:
        self._step = step
        self._staging = staging
        self._marked = marked

    def finish(self) -> SinkHandle | None:
        """Note which epoch the marker has reached, and stage the records. Raises StorageError, and keeps the rows."""
        if self._staging.empty:
            return self._staging.finish()
        try:
            known = self._marked.known()
        except BaseException:
            self._staging.give_back()
            raise
        staged = self._staging.finish()
        assert staged is not None, "there are rows"
        data = json.dumps({"cut": staged.data, "known": known}, sort_keys=True, separators=(",", ":"))
        return replace(staged, sink=self._step, data=data)


class KafkaPublisher:
    """Publishes the output of one task and epoch at once, on any worker, any number of times."""

    def __init__(self, staging: FileSink, topics: _Topics, folder: Path, files: FileSystem) -> None:
        self._staged: ParquetPublisher = staging.publisher
        self._staging = staging
        self._topics = topics
        self._folder = folder
        self._files = files

    def claimed(self, job_uid: str) -> None:
        """Note whose staged files these are."""
        self._staged_in = self._folder / "_staging" / job_uid

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Publish the only handle of a task. See :meth:`publish_all`."""
        self.publish_all((handle,), epoch)

    def publish_all(self, handles: Sequence[SinkHandle], epoch: Epoch) -> None:
        """Write the records of all handles of one task, each once. Blocking.

        Raises StateError when it is not known what is visible, or a staged file is gone. Raises StorageError when a
        retry may help.
        """
        contents = [_contents(handle) for handle in handles]
        parts = [part for cut, _ in contents for part in parse_cut(cut, self._staged_in).parts]
        digest = hashlib.sha256("\n".join(cut for cut, _ in contents).encode()).hexdigest()[:DIGEST_CHARS]
        known = Epoch(max(known for _, known in contents))
        wanted = Wanted(epoch, digest, len(parts), known)

        def blocks() -> Iterator[Block]:
            for part in parts:
                yield self._records(part.path, part.sha256)

        self._topics.of(handles[0].task).publish(wanted, blocks())

    def discard(self, handle: SinkHandle) -> None:
        """Remove the staged files of output that will never be committed."""
        self._staged.discard(_staged(handle))

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staged files of published output."""
        self._staged.forget(_staged(handle))

    def _records(self, path: Path, sha256: str) -> Block:
        try:
            if hash_file(self._files, path) != sha256:
                raise StateError(f"kafka sink: staged file {path} is not the one committed: restore it, or {DROP}")
            yield from staged_records(path)
        except FileNotFoundError as error:
            raise StateError(f"kafka sink: staged file {path} is gone: restore it, or {DROP}") from error
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"kafka sink: staged file {path}: {error}") from error


def _contents(handle: SinkHandle) -> tuple[str, int]:
    """Return the text of the staged files, and the epoch that the marker had reached. Raises StateError."""
    try:
        plain = parsed(handle.data)
        return str(plain["cut"]), int(plain["known"])
    except (PeerError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"a checkpoint holds a damaged handle of a Kafka sink: {error}") from error


def _staged(handle: SinkHandle) -> SinkHandle:
    return replace(handle, data=_contents(handle)[0])
