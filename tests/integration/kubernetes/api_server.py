"""A real API server with its own etcd on loopback: objects are validated, stored and watched.

No controller, scheduler or node runs. A StatefulSet creates no pods, no garbage is collected, and a
deleted namespace keeps its objects. The server starts in seconds, loses everything at its end, and
shares nothing with other runs. kubeadm makes the certificates. etcd listens on a Unix socket, so only
the server needs a free port.
"""

import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import IO

from tests.integration.kubernetes.kubectl import Kubectl

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
LOOK_EVERY_S = 0.05
PORT_ATTEMPTS = 3
LOG_TAIL_BYTES = 4_000
SERVICE_NET = "10.96.0.0/16"
# etcd wants a port in every address; with a Unix socket it is part of the file's name.
CLIENTS = "clients:1"
PEERS = "peers:1"

# kubeadm advertises no loopback address, and nothing here asks for the advertised one.
KUBEADM = """
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: 192.0.2.1, bindPort: {port}}}
nodeRegistration: {{name: localhost}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {version}
certificatesDir: {pki}
encryptionAlgorithm: ECDSA-P256
controlPlaneEndpoint: 127.0.0.1:{port}
networking: {{serviceSubnet: {service_net}}}
apiServer: {{certSANs: [localhost, 127.0.0.1]}}
"""


class Refusal(Exception):
    """A server of Kubernetes did not start. The text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The binaries that this needs. `make e2e-tools` builds them."""

    etcd: Path
    kube_apiserver: Path
    kubeadm: Path
    kubectl: Path


class Server:
    """One process with a log file. It is ended by its process id."""

    def __init__(self, command: list[str], log: Path) -> None:
        """Start it in the folder of the log."""
        self._log = log
        self._out: IO[bytes] = log.open("ab")
        self._process = subprocess.Popen(
            [*_end_with_us(), *command], stdout=self._out, stderr=subprocess.STDOUT, cwd=log.parent
        )

    def ended_within(self, seconds: float) -> bool:
        """Wait at most this long for the process to end. Return whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End it, by force if it does not end by itself, and wait."""
        self._process.terminate()
        if not self.ended_within(STOP_TIMEOUT_S):
            self._process.kill()
            self._process.wait()
        self._out.close()

    def log_tail(self) -> str:
        """Give the end of its log."""
        return self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


class ApiServer:
    """A running API server with its address, its administrator's credentials, and a way to stop it."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        """Make the certificates in ``folder`` and start; returns when the server is ready.

        Raises Refusal when it does not become ready.
        """
        self._programs = programs
        self._folder = folder
        self._pki = folder / "pki"
        self._etcd = Server(_etcd_command(programs.etcd, folder), folder / "etcd.log")
        try:
            self._server = self._first_start()
        except BaseException:
            self._etcd.stop()
            raise

    @property
    def url(self) -> str:
        """Give its address, ``https://127.0.0.1:PORT``."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """Give the administrator's kubeconfig; certificates are inside it."""
        return self._folder / "super-admin.conf"

    @property
    def certificate_authority(self) -> Path:
        """Give the PEM file of the authority that signed the server's certificate."""
        return self._pki / "ca.crt"

    @property
    def kubectl(self) -> Kubectl:
        """Give kubectl as the administrator, in the namespace ``default``."""
        return Kubectl(self._programs.kubectl, self.kubeconfig)

    def stop(self) -> None:
        """End the API server, but not etcd. ``start`` starts it again with its objects."""
        self._server.stop()

    def start(self) -> None:
        """Start it again at the same address; returns when it is ready."""
        self._server = self._start()

    def close(self) -> None:
        """End both processes."""
        self._server.stop()
        self._etcd.stop()

    def _first_start(self) -> Server:
        """Start on a free port. If another process has taken the port meanwhile, try another port."""
        for attempt in range(PORT_ATTEMPTS):
            self.port = _free_port()
            self._make_certificates()
            try:
                return self._start()
            except Refusal as refusal:
                if "address already in use" not in str(refusal) or attempt + 1 == PORT_ATTEMPTS:
                    raise
        raise AssertionError("the last attempt raises")

    def _make_certificates(self) -> None:
        shutil.rmtree(self._pki, ignore_errors=True)
        self.kubeconfig.unlink(missing_ok=True)
        configuration = self._folder / "kubeadm.yaml"
        version = subprocess.run(
            [self._programs.kubeadm, "version", "-o", "short"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        configuration.write_text(
            KUBEADM.format(port=self.port, version=version, pki=self._pki, service_net=SERVICE_NET)
        )
        settings = f"--config={configuration}"
        self._kubeadm("certs", "ca", settings)
        self._kubeadm("certs", "apiserver", settings)
        self._kubeadm("certs", "sa", f"--cert-dir={self._pki}")
        self._kubeadm("kubeconfig", "super-admin", settings, f"--kubeconfig-dir={self._folder}")

    def _kubeadm(self, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs.kubeadm, "init", "phase", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Refusal(f"kubeadm {' '.join(arguments)}: {done.stderr}")

    def _start(self) -> Server:
        server = Server(
            _api_server_command(self._programs.kube_apiserver, self._folder, self.port),
            self._folder / "kube-apiserver.log",
        )
        waited = 0.0
        while not self._is_ready():
            # What is waited for is its end: a server that gives up is noticed at once.
            if server.ended_within(LOOK_EVERY_S) or waited > START_TIMEOUT_S:
                server.stop()
                raise Refusal(server.log_tail())
            waited += LOOK_EVERY_S
        return server

    def _is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.certificate_authority))
        with closing(HTTPSConnection("127.0.0.1", self.port, timeout=1, context=context)) as line:
            try:
                line.request("GET", "/readyz")
                return line.getresponse().status == 200
            except (OSError, HTTPException):
                return False


@contextmanager
def running(programs: Programs) -> Iterator[ApiServer]:
    """Run an API server in a temporary folder. Its path is short: socket paths have 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="penstock-api-") as folder:
        server = ApiServer(programs, Path(folder))
        try:
            yield server
        finally:
            server.close()


def _end_with_us() -> list[str]:
    """Give a command prefix that lets the kernel end the process when the test run is killed."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _etcd_command(binary: Path, folder: Path) -> list[str]:
    return [
        str(binary),
        f"--data-dir={folder}/data",
        f"--listen-client-urls=unix://{CLIENTS}",
        f"--advertise-client-urls=unix://{CLIENTS}",
        f"--listen-peer-urls=unix://{PEERS}",
        f"--initial-advertise-peer-urls=unix://{PEERS}",
        f"--initial-cluster=default=unix://{PEERS}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server_command(binary: Path, folder: Path, port: int) -> list[str]:
    pki = folder / "pki"
    return [
        str(binary),
        f"--etcd-servers=unix://{folder}/{CLIENTS}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--service-cluster-ip-range={SERVICE_NET}",
        "--authorization-mode=Node,RBAC",
        # No controller makes the account `default` of a namespace, which pods would have to name.
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--shutdown-delay-duration=0s",
    ]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
