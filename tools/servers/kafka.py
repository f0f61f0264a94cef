"""A broker of Apache Kafka (KRaft, one node) on free ports of the loopback interface.

``format`` makes its folder, ``start`` its process. A broker that was killed is started again with the same
folder and ports: it takes about 16 s until its old registration has expired.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tools.servers.fetched import ServerMissing
from tools.servers.java_server import LOOPBACK, JavaServer, free_port

VERSION = "4.4.0"
CLUSTER = "cGVuc3RvY2stdGVzdHMtMQ"
LOGS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=CLIENT://{host}:{port},BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://{host}:{port},BROKER://127.0.0.1:{broker}
listener.security.protocol.map=CLIENT:{protocol},BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={folder}/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
log.cleaner.backoff.ms=200
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=0
{more}
"""
# Clients show a password over TLS, and may do what a rule says. The broker talks to itself without a name.
SECURED = """\
ssl.keystore.type=PEM
ssl.keystore.location={identity}
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
"""


@dataclass(frozen=True, slots=True)
class Secured:
    """TLS, SASL/SCRAM and access rules: the broker's key and certificate, and a user who may do everything.

    ``identity`` is a PEM file with the private key (PKCS 8) and the certificate behind it.
    """

    identity: Path
    admin: str
    password: str


class KafkaBroker(JavaServer):
    """One broker with its folder. Its ports stay the same when it is started again."""

    def __init__(self, folder: Path, more: str = "", secured: Secured | None = None, host: str = LOOPBACK) -> None:
        """Prepare the folder, without a process. ``more`` is added to the broker's properties.

        Clients find it at ``host``, an address of this machine.

        Raises ServerMissing when there is no broker for this machine.
        """
        super().__init__("kafka", VERSION, folder, host)
        self._secured = secured
        self._more = more
        self._configure()

    def _configure(self) -> None:
        self.port, more, users = free_port(self.host), self._more, list[str]()
        if self._secured is not None:
            more += "\n" + SECURED.format(identity=self._secured.identity, admin=self._secured.admin)
            user = f"[name={self._secured.admin},password={self._secured.password}]"
            users = ["--add-scram", f"SCRAM-SHA-512={user}"]
        text = PROPERTIES.format(
            host=self.host,
            port=self.port,
            broker=free_port(),
            controller=free_port(),
            folder=self._folder,
            protocol="PLAINTEXT" if self._secured is None else "SASL_SSL",
            more=more,
        )
        self._settings.write_text(text)
        command = self._command(LOGS, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings))
        done = subprocess.run([*command, "--ignore-formatted", *users], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerMissing(f"kafka: the folder cannot be formatted: {(done.stdout + done.stderr)[-2000:]}")

    @property
    def address(self) -> str:
        """Return what clients call ``bootstrap.servers``."""
        return f"{self.host}:{self.port}"

    def _words(self) -> list[str]:
        return [LOGS, "kafka.Kafka", str(self._settings)]


def new_name(prefix: str) -> str:
    """Return a name that no other test uses, for a topic or a transactional id."""
    return f"{prefix}-{uuid4().hex[:10]}"
