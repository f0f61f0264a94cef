"""Output to a Kafka topic, exactly once: staged before the commit, and written with a marker after it.

An open transaction would not survive: its broker aborts it after some minutes, and committed output would be
lost. So nothing waits in Kafka (``staged_sink.py``).

Each sink task has one transactional id, stable over attempts: the job's UID, the step, worker and slot.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.connectors.kafka.client import client_settings, library
from penstock.connectors.kafka.encoding import RECORDS, RecordEncoder
from penstock.connectors.kafka.marked_topic import MarkedTopic
from penstock.connectors.kafka.topics import TopicRules, record_rules, topic_id
from penstock.connectors.staged_sink import StagedSink, arrow_form
from penstock.contract.ids import TaskId
from penstock.contract.kafka_options import KafkaOutput
from penstock.file_system import OS_FILES
from penstock.ports import FileSystem


class KafkaSink(StagedSink):
    """The sink step of one engine, for one topic."""

    def __init__(
        self, step: str, options: KafkaOutput, schema: pa.Schema, folder: Path, files: FileSystem = OS_FILES
    ) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`.

        Raises ConfigError when a column does not fit, or the client is missing.
        """
        library()
        super().__init__(step, _Topic(step, options, schema), folder, files)


class _Topic:
    """The topic, which every task of the sink writes by an id of its own."""

    name = "kafka sink"
    form = arrow_form(RECORDS)
    whole = False

    def __init__(self, step: str, options: KafkaOutput, schema: pa.Schema) -> None:
        self._step = step.replace("/", "_")
        self._options = options
        self._encoder = RecordEncoder(options, schema)
        self._rules = TopicRules()

    def claim(self) -> None:
        """Look at the topic and the registry. Raises ConfigError, StorageError when a retry may help."""
        settings = self._settings()
        topic_id(settings, self._options.topic)
        self._rules = record_rules(settings, self._options.topic)
        self._encoder.claim(self._rules)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return key and value of each row. Raises ConfigError for a record that the topic does not take."""
        return self._encoder.records(batch)

    def output(self, job_uid: str, task: TaskId) -> MarkedTopic:
        """Return the topic as ``task`` writes it."""
        name = f"{self._options.transactional_id_prefix}{job_uid}/{self._step}/{task.worker}.{task.slot}"
        return MarkedTopic(self._producing, self._options.topic, name, self._options.partitioner)

    def _producing(self) -> dict[str, Any]:
        return {**self._settings(), "message.max.bytes": self._rules.client_bytes_max}

    def _settings(self) -> dict[str, Any]:
        return client_settings(self._options.bootstrap_servers, self._options.client_file)
