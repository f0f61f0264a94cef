"""A broker of Apache Kafka (KRaft, one node) on free ports of the loopback interface.

``format`` makes its folder, ``start`` its process. A broker that was killed is started again with the same
folder and ports: it takes about 16 s until its old registration has expired.
"""

import re
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tools.servers.fetched import ServerMissing, fetched, needed

VERSION = "4.4.0"
JAVA_MIN = 17
JAVA_REMEDY = f"install Java {JAVA_MIN} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
START_MAX_S = 120.0
STOP_MAX_S = 30.0
STARTS_MAX = 3  # a free port may be taken by somebody else before the broker has it
CLUSTER = "cGVuc3RvY2stdGVzdHMtMQ"
MEMORY = ("-Xmx320m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=CLIENT://127.0.0.1:{port},BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port},BROKER://127.0.0.1:{broker}
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


def java() -> str:
    """Return the command of a Java that runs a broker. Raises ServerMissing."""
    command = needed("java", JAVA_REMEDY)
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < JAVA_MIN:
        raise ServerMissing(f"{command} is no Java {JAVA_MIN}: {JAVA_REMEDY}")
    return command


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Secured:
    """TLS, SASL/SCRAM and access rules: the broker's key and certificate, and a user who may do everything.

    ``identity`` is a PEM file with the private key (PKCS 8) and the certificate behind it.
    """

    identity: Path
    admin: str
    password: str


class KafkaBroker:
    """One broker with its folder. Its ports stay the same when it is started again."""

    def __init__(self, folder: Path, more: str = "", secured: Secured | None = None) -> None:
        """Prepare the folder, without a process. ``more`` is added to the broker's properties.

        Raises ServerMissing when there is no broker for this machine.
        """
        self._secured = secured
        self._java = java()
        self._jars = fetched("kafka", VERSION)
        self._folder = folder
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._format()

    def _format(self) -> None:
        self.port, more, users = free_port(), self._more, list[str]()
        if self._secured is not None:
            more += "\n" + SECURED.format(identity=self._secured.identity, admin=self._secured.admin)
            user = f"[name={self._secured.admin},password={self._secured.password}]"
            users = ["--add-scram", f"SCRAM-SHA-512={user}"]
        text = PROPERTIES.format(
            port=self.port,
            broker=free_port(),
            controller=free_port(),
            folder=self._folder,
            protocol="PLAINTEXT" if self._secured is None else "SASL_SSL",
            more=more,
        )
        self._settings.write_text(text)
        command = self._command("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings))
        done = subprocess.run([*command, "--ignore-formatted", *users], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerMissing(f"kafka: the folder cannot be formatted: {(done.stdout + done.stderr)[-2000:]}")

    @property
    def address(self) -> str:
        """Return what clients call ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return the pid of the running broker."""
        assert self._process is not None, "the broker is not started"
        return self._process.pid

    def log(self) -> str:
        """Return what the broker has written."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start the process, and return when it takes connections. Raises ServerMissing when it does not."""
        for last in (*[False] * (STARTS_MAX - 1), True):
            self._spawn()
            if self._answers():
                return
            self.kill()
            if last or "Address already in use" not in self.log():
                raise ServerMissing(f"kafka: the broker did not start within {START_MAX_S:.0f} s: {self.log()[-2000:]}")
            self._format()

    def _spawn(self) -> None:
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings)), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def _answers(self) -> bool:
        assert self._process is not None
        pause, end = threading.Event(), time.monotonic() + START_MAX_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
            except OSError:
                pause.wait(0.05)
            else:
                return True
        return False

    def stop(self) -> None:
        """End the process properly, by its pid; idempotent."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process as a crash does, by its pid; idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _command(self, main: str, *words: str) -> list[str]:
        logs = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}"
        return [self._java, *MEMORY, logs, "-cp", f"{self._jars}/*", main, *words]


def new_name(prefix: str) -> str:
    """Return a name that no other test uses, for a topic or a transactional id."""
    return f"{prefix}-{uuid4().hex[:10]}"
