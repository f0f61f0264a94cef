"""TLS, SASL/SCRAM and access rules against a real broker: what the pages say is enough, and each lack is named."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.base.errors import StorageError
from penstock.connectors.kafka.direct_sink import DirectKafkaSink
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.contract.columns import Column
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.kafka_options import KafkaInput, KafkaOutput
from tests.support.broker_identity import write_identity
from tests.support.kafka import WITHIN_S, Kafka
from tools.servers.fetched import ServerMissing
from tools.servers.kafka import KafkaBroker, Secured, new_name

ROWS = pa.record_batch({"word": ["a", "b", "a"]})
TASK = TaskId(StageIndex(1), Ordinal(0), 0)
PASSWORD = "the-password-of-writer"


@dataclass(frozen=True)
class Site:
    """A secured broker, and what its clients need."""

    broker: KafkaBroker
    authority: Path
    kafka: Kafka

    def client_file(self, folder: Path, **changed: str | None) -> str:
        """Write the settings of the user ``writer``, some of them changed (``_`` for dots) or left out."""
        settings: dict[str, str | None] = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "writer",
            "sasl.password": PASSWORD,
        }
        settings |= {name.replace("_", "."): value for name, value in changed.items()}
        file = folder / new_name("client")
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value is not None))
        return str(file)

    def allow(self, kind: ResourceType, name: str, *operations: str) -> None:
        """Let ``writer`` do something with a topic of this name, or with what begins with it."""
        exact = kind is ResourceType.TOPIC
        pattern = ResourcePatternType.LITERAL if exact else ResourcePatternType.PREFIXED
        for operation in operations:
            given = (AclOperation[operation], AclPermissionType.ALLOW)
            rule = AclBinding(kind, name, pattern, "User:writer", "*", *given)
            self.kafka.admin.create_acls([rule])[rule].result(WITHIN_S)

    def forbid_everything(self) -> None:
        """Take all rights from ``writer``."""
        nothing: Any = None  # it stands for any name, which the types of the client do not know
        given = (ResourcePatternType.ANY, nothing, nothing, AclOperation.ANY, AclPermissionType.ANY)
        wanted = AclBindingFilter(ResourceType.ANY, nothing, *given)
        self.kafka.admin.delete_acls([wanted])[wanted].result(WITHIN_S)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secured")
    identity, authority = write_identity(folder)
    try:
        broker = KafkaBroker(folder / "kafka", secured=Secured(identity, "admin", "admin-secret"))
        broker.start()
    except ServerMissing as error:
        pytest.skip(str(error))
    try:
        admin = {"sasl.username": "admin", "sasl.password": "admin-secret", "sasl.mechanism": "SCRAM-SHA-512"}
        kafka = Kafka(broker, {**admin, "security.protocol": "SASL_SSL", "ssl.ca.location": str(authority)})
        kafka.wait_for_coordinator()
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion("writer", scram, PASSWORD.encode())
        kafka.admin.alter_user_scram_credentials([made])["writer"].result(WITHIN_S)
        yield Site(broker, authority, kafka)
    finally:
        broker.stop()


@pytest.fixture
def site(secured: Site) -> Site:
    secured.forbid_everything()
    return secured


def written(site: Site, topic: str, folder: Path, prefix: str) -> None:
    """Write three rows exactly once."""
    options = KafkaOutput(
        site.broker.address, topic, transactional_id_prefix=prefix, client_file=site.client_file(folder)
    )
    sink = KafkaSink("out", options, ROWS.schema, folder / "staged")
    with closing(sink):
        sink.claim("job", fresh=True)
        writer = sink.writer(TASK, Attempt(1))
        writer.write(ROWS)
        handle = writer.seal(Epoch(1), new_name("cut")).finish()
        assert handle is not None
        sink.publisher.publish(handle, Epoch(1))


def read(site: Site, topic: str, file: str) -> list[dict[str, object]]:
    """Read what is in a topic."""
    options = KafkaInput(site.broker.address, topic, until="latest", client_file=file)
    source = KafkaSource(options, (Column("word", "string"),))
    rows: list[dict[str, object]] = []
    for state in source.splits():
        with closing(source.open(state)) as reader:
            while not reader.state().finished:
                got = reader.read(100)
                rows += got.batch.to_pylist() if got is not None else []
    return rows


def test_the_rights_of_the_page_are_enough_and_each_that_is_missing_is_named(site: Site, tmp_path: Path) -> None:
    topic, prefix = site.kafka.topic("secured"), new_name("p")
    topics, groups, ids = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    steps = [
        ("may not use the topic: grant READ and DESCRIBE", topics, topic, ("DESCRIBE", "DESCRIBE_CONFIGS")),
        ("may not write transactions: grant WRITE and DESCRIBE", ids, prefix, ("WRITE", "DESCRIBE")),
        ("may not use the group: grant READ on it", groups, prefix, ("READ",)),
        ("may not use the topic: grant .* WRITE, DESCRIBE and READ", topics, topic, ("WRITE", "READ")),
    ]
    for said, kind, name, operations in steps:
        with pytest.raises(StorageError, match=said):
            written(site, topic, tmp_path, prefix)
        site.allow(kind, name, *operations)
    written(site, topic, tmp_path, prefix)
    assert [json.loads(record.value or b"") for record in site.kafka.read(topic)] == ROWS.to_pylist()
    with pytest.raises(StorageError, match="may not use the group: grant READ on it"):
        read(site, topic, site.client_file(tmp_path))
    site.allow(groups, "penstock-", "READ")
    assert read(site, topic, site.client_file(tmp_path)) == ROWS.to_pylist()


REFUSED: tuple[tuple[dict[str, str | None], str], ...] = (
    ({"sasl_password": "wrong-one"}, "the brokers refuse the user or the password: check sasl.* in clientFile"),
    ({"sasl_username": "nobody"}, "the brokers refuse the user or the password: check sasl.* in clientFile"),
    ({"sasl_mechanism": "PLAIN"}, "the brokers refuse the user or the password: check sasl.* in clientFile"),
    ({"ssl_ca_location": None}, "TLS fails: check ssl.* in clientFile"),
    ({"security_protocol": "SASL_PLAINTEXT"}, "no broker answers: "),
)


def error_of(use: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as raised:
        use()
    return str(raised.value)


def test_what_a_broker_refuses_is_said_and_not_only_that_it_does_not_answer(site: Site, tmp_path: Path) -> None:
    """All of them at once, because each client tries for ten seconds."""
    told = []
    with ThreadPoolExecutor(2 * len(REFUSED)) as pool:
        for changed, said in REFUSED:
            file = site.client_file(tmp_path, **changed)
            direct = DirectKafkaSink("out", KafkaOutput(site.broker.address, "any", client_file=file), ROWS.schema)
            told.append((said, pool.submit(error_of, partial(direct.claim, "job", fresh=True))))
            told.append((said, pool.submit(error_of, partial(read, site, "any", file))))
    for said, error in told:
        assert said in error.result()
        assert "wrong-one" not in error.result()
    assert "security.protocol in clientFile" in told[-1][1].result()
