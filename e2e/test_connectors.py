"""Kafka -> a count by word -> PostgreSQL and S3, with servers outside the cluster: exact through every loss."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.losses import lose_a_node, nodes_for_workers
from e2e.rig.streamjob import StreamJob
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import CLAIM, Claim, make_shared
from penstock_spark.session import SparkSettings, local_session
from tests.integration.kubernetes.kubectl import Kubectl
from tests.support.kafka import Kafka
from tests.support.postgres import PASSWORD, Postgres
from tests.support.s3 import SECRET, USER
from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PostgresServer
from tools.servers.s3 import S3Server

STEP_TIMEOUT_S = 180.0
PARTITIONS, WORDS, RECORDS = 4, 500, 20_000  # of each writing
SECRETS = "servers"


@dataclass(frozen=True, slots=True)
class Servers:
    """A broker, a database and a store of this machine, which pods reach."""

    kafka: Kafka
    postgres: Postgres
    s3: S3Server
    buckets: Path


@pytest.fixture
def servers(operator: Cluster, tmp_path: Path) -> Iterator[Servers]:
    """Start the three, and stop them by their pids."""
    with ExitStack() as stack:
        broker = KafkaBroker(tmp_path / "kafka", host=operator.host)
        stack.callback(broker.stop)
        broker.start()
        database = PostgresServer(PASSWORD, operator.host)
        stack.callback(database.remove)
        database.start()
        store = S3Server(tmp_path / "s3", USER, SECRET, operator.host)
        stack.callback(store.stop)
        store.start()
        kafka = Kafka(broker)
        kafka.wait_for_coordinator()
        yield Servers(kafka, Postgres(database), store, tmp_path / "s3" / "buckets")


@dataclass(frozen=True, slots=True)
class Counts(StreamJob):
    """The job, and the servers that it is connected to."""

    cluster: Cluster
    servers: Servers
    topic: str
    table: str

    def prepare(self) -> None:
        """Make the claim and the Secret."""
        folder = self.cluster.shared_here / self.kubectl.namespace
        make_shared(folder)
        Claim(self.kubectl, CLAIM, f"{self.cluster.shared_on_nodes}/{folder.name}").make()
        values = (f"password={PASSWORD}", f"user={USER}", f"secret={SECRET}")
        self.kubectl("create", "secret", "generic", SECRETS, *(f"--from-literal={value}" for value in values))

    def manifest(self) -> Any:
        """Give the StreamJob, which names the Secret and opens the ports of the servers."""
        kafka, postgres, s3 = self.servers.kafka.broker, self.servers.postgres.server, self.servers.s3
        columns = [{"name": "word", "type": "string"}]
        source = {"kafka": {"bootstrapServers": kafka.address, "topic": self.topic}, "columns": columns}
        keys = {"accessKey": f"secret:{SECRETS}/user", "secretKey": f"secret:{SECRETS}/secret"}
        lake = {"url": s3.bucket("lake"), "endpoint": s3.endpoint, "region": "us-east-1", **keys}
        password = f"secret:{SECRETS}/password"
        table = {"uri": postgres.uri, "table": self.table, "keyColumns": "word", "password": password}
        steps = [
            {"name": "words", "source": source},
            {"name": "counts", "keyBy": ["word"], "aggregate": {"compute": [{"name": "count", "function": "count"}]}},
            {"name": "table", "inputs": ["counts"], "sink": {"postgres": table}},
            {"name": "lake", "inputs": ["counts"], "sink": {"s3": lake}},
        ]
        egress = [{"cidr": f"{self.cluster.host}/32", "port": port} for port in (kafka.port, postgres.port, s3.port)]
        spec = {
            "image": self.cluster.images.extras,
            "imagePullPolicy": "Never",
            "replicas": 2,
            "placement": {"nodes": nodes_for_workers(self.cluster)},
            "checkpoint": {"interval": "1s", "volume": {"claimName": CLAIM}},
            "security": {"egress": egress},
            "job": {"graph": {"steps": steps}},
        }
        head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "StreamJob", "metadata": {"name": self.name}}
        return {**head, "spec": spec}

    def write(self, first: int) -> Counter[str]:
        """Write records, and return how often each word is in them."""
        words = [f"word {n * n % 7919 % WORDS}" for n in range(first, first + RECORDS)]
        records = [{"value": json.dumps({"word": word}), "partition": n % PARTITIONS} for n, word in enumerate(words)]
        self.servers.kafka.write(self.topic, records)
        return Counter(words)

    def shown(self) -> Counter[str]:
        """Return the counts that the table has."""
        return Counter(dict(self.servers.postgres.run(f"SELECT word, count FROM {self.table}")))

    def until_shown(self, wanted: Counter[str]) -> None:
        """Wait until the table has these counts."""
        wait_for(f"{wanted.total():,} records", lambda: self.shown() == wanted, STEP_TIMEOUT_S, self.say)


@pytest.fixture
def counts(operator: Cluster, kubectl: Kubectl, servers: Servers) -> Counts:
    """Give the job, not applied yet, with a topic and a table."""
    topic = servers.kafka.topic("words", PARTITIONS)
    table = servers.postgres.table("word text PRIMARY KEY, count bigint", "counts")
    job = Counts(kubectl, "counts", operator, servers, topic, table)
    job.prepare()
    return job


@pytest.mark.timeout(1200)
def test_rows_of_kafka_are_once_in_postgres_and_s3_through_a_rescale_a_lost_node_and_restarted_servers(
    counts: Counts, operator: Cluster
) -> None:
    job, servers = counts, counts.servers
    wanted = job.write(0)
    job.kubectl.apply(job.manifest(), manager="kubectl")
    job.until_shown(wanted)
    servers.kafka.broker.kill()
    servers.kafka.broker.start()
    wanted += job.write(RECORDS)
    job.scale(3, STEP_TIMEOUT_S)
    wanted += job.write(2 * RECORDS)
    job.until_shown(wanted)
    servers.postgres.server.kill()
    wanted += job.write(3 * RECORDS)
    servers.postgres.server.start()
    job.scale(2, STEP_TIMEOUT_S)
    job.until_shown(wanted)
    wanted += job.write(4 * RECORDS)
    print(f"node of a worker lost: commits again after {lose_a_node(job, operator, of_leader=False):.1f} s")
    job.until_shown(wanted)
    job.commits(2, STEP_TIMEOUT_S)
    each_once(servers.buckets / "lake", wanted)


def each_once(lake: Path, wanted: Counter[str]) -> None:
    """Let Spark read the files of the bucket: the counts of a word are 1 to n, each once."""
    with local_session("lake", SparkSettings(threads=2)) as spark:
        spark.read.option("recursiveFileLookup", "true").parquet(str(lake)).createOrReplaceTempView("lake")
        found = spark.sql(
            "SELECT word, count(*) AS rows, count(DISTINCT count) AS numbers, max(count) AS last FROM lake"
            " GROUP BY word"
        ).collect()
    assert {(row.word, row.rows, row.numbers, row.last) for row in found} == {(w, n, n, n) for w, n in wanted.items()}
