"""Workers' pods as processes of this machine, in front of a real API server.

Each has a root of its own with what the operator mounts, an address of its own on the loopback
network, a service account's token with exactly the rights of the role below, and two processes:
the two containers. The test plays the operator, the kubelet and the StatefulSet.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from penstock.contract import pod
from penstock.contract.codec import decode, encode
from penstock.contract.ids import JobUid, SwapId
from penstock.contract.latest import Desired, Latest, decode_latest, encode_latest
from penstock.contract.status import JobStatus
from penstock.contract.trust import Trust
from penstock.contract.worker_rules import PodSeen
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl
from tests.support.certificates import trust

ACCOUNT = "words-worker"


def rights(job: str) -> list[dict[str, Any]]:
    """List all that a keeper may do: these verbs on these objects by name, and nothing else."""
    return [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [pod.lease_name(job)],
            "verbs": ["get", "update", "patch"],
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [pod.latest_name(job), pod.status_name(job)],
            "verbs": ["get", "update", "patch"],
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [pod.desired_name(job)],
            "verbs": ["get", "watch"],
        },
    ]


@dataclass
class Pod:
    """One pod: a name that stays, a uid that does not."""

    root: Path
    ordinal: int
    uid: str
    containers: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def signal(self, number: signal.Signals) -> None:
        for process in self.containers.values():
            process.send_signal(number)

    def end(self, within_s: float) -> dict[str, int]:
        """Wait for both containers; return their exit statuses."""
        return {name: process.wait(within_s) for name, process in self.containers.items()}

    def kill(self) -> None:
        """End everything in it, as a node does that is lost."""
        for process in self.containers.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def termination(self) -> dict[str, str]:
        """Return what the keeper's container said at its end."""
        file = Path(pod.below(str(self.root), pod.TERMINATION_FILE))
        found: dict[str, str] = json.loads(file.read_text())
        return found


def put_trust(folder: Path, shown: Trust) -> None:
    """Mount the files of a Secret, or replace all of them at once: as a kubelet does, through one link."""
    made = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    for name, data in (
        (pod.CA_KEY, shown.ca),
        (pod.CERTIFICATE_KEY, shown.certificate),
        (pod.PRIVATE_KEY, shown.key),
        (pod.WORKER_KEY, shown.secret),
    ):
        (made / name).write_bytes(data)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..data_tmp"
    link.symlink_to(made.name)
    link.rename(folder / "..data")


class Job:
    """One job in one namespace; ``plain`` is the StreamJob as its user wrote it.

    ``port`` is where its pods find the API server.
    """

    def __init__(self, server: ApiServer, kubectl: Kubectl, root: Path, plain: Any, port: int) -> None:
        self.name: str = plain["metadata"]["name"]
        self.uid = str(uuid.uuid4())
        self._server = server
        self._port = port
        self.kubectl = kubectl
        self._root = root
        metadata = {"name": self.name, "namespace": kubectl.namespace, "uid": self.uid}
        self.plain = {**plain, "metadata": metadata}
        self._host = pod.certificate_host(self.name, kubectl.namespace)
        self._trust = trust(self._host)
        # Nobody else on this machine listens at the contract's ports of these addresses.
        self._net = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        self._log: IO[bytes] = (root / "pods.log").open("ab")
        self.pods: dict[int, Pod] = {}
        self._make_objects()

    # --- The operator -----------------------------------------------------------------------

    def _make_objects(self) -> None:
        latest = Latest(JobUid(self.uid), SwapId(str(uuid.uuid4())))
        self.kubectl("create", "serviceaccount", ACCOUNT)  # tokens are asked of it, so it has to be there first
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": ACCOUNT}}
        self.kubectl.apply(
            self._config_map(pod.latest_name(self.name), encode_latest(latest)),
            self._config_map(pod.status_name(self.name), None),
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": pod.lease_name(self.name)},
            },
            {**role, "kind": "Role", "rules": rights(self.name)},
            {
                **role,
                "kind": "RoleBinding",
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": ACCOUNT,
                },
                "subjects": [
                    {
                        "kind": "ServiceAccount",
                        "name": ACCOUNT,
                        "namespace": self.kubectl.namespace,
                    }
                ],
            },
        )

    def _config_map(self, name: str, data: bytes | None) -> dict[str, Any]:
        content = {} if data is None else {"data": {pod.RECORD: data.decode()}}
        metadata = {"name": name, "labels": {pod.LABEL_JOB: self.name}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}

    def want(self, desired: Desired) -> None:
        """Write what is wanted."""
        self.kubectl.apply(self._config_map(pod.desired_name(self.name), encode(desired)))

    def latest(self) -> Latest:
        """Read the truth."""
        return decode_latest(self._record(pod.latest_name(self.name)))

    def status(self) -> JobStatus | None:
        """Read what the leader says of the job; None before the first word."""
        record = self._record(pod.status_name(self.name))
        return decode(JobStatus, record) if record else None

    def _record(self, name: str) -> bytes:
        found = self.kubectl.get("configmap", name).get("data") or {}
        return str(found.get(pod.RECORD, "")).encode()

    def pods_seen(self) -> list[PodSeen]:
        """List the pods as the operator sees them."""
        return [PodSeen(f"{self.name}-worker-{p.ordinal}", p.uid) for p in self.pods.values()]

    # --- The StatefulSet and the kubelet ------------------------------------------------------

    def start(self, ordinal: int, *, shown: Trust | None = None, grace_s: int = 60) -> Pod:
        """Make a pod of this ordinal, with a new uid, and start its containers."""
        uid = str(uuid.uuid4())
        made = Pod(self._root / f"{ordinal}-{uid[:4]}", ordinal, uid)
        self._mount(made.root, shown or self._trust)
        environment = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._port),
            pod.ENV_ROOT: str(made.root),
            pod.ENV_POD_NAME: f"{self.name}-worker-{ordinal}",
            pod.ENV_POD_UID: uid,
            pod.ENV_POD_IP: self.address(ordinal),
            pod.ENV_NAMESPACE: self.kubectl.namespace,
            pod.ENV_GRACE_S: str(grace_s),
        }
        for name in (pod.KEEPER_CONTAINER, pod.ENGINE_CONTAINER):
            made.containers[name] = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", "worker", name],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                process_group=0,
            )
        self.pods[ordinal] = made
        return made

    def renew(self, ordinal: int, shown: Trust) -> None:
        """Bring other certificates into a pod that runs, as its kubelet does."""
        put_trust(Path(pod.below(str(self.pods[ordinal].root), pod.TRUST_FOLDER)), shown)

    def address(self, ordinal: int) -> str:
        """Return the address of a pod of this ordinal."""
        return f"{self._net}.{ordinal + 1}"

    def end(self) -> None:
        """End every pod, and leave nothing."""
        for found in self.pods.values():
            found.kill()
        self._log.close()

    def log(self) -> str:
        """Return what all containers have said."""
        return (self._root / "pods.log").read_text(errors="replace")

    def _mount(self, root: Path, shown: Trust) -> None:
        def at(path: str) -> Path:
            found = Path(pod.below(str(root), path))
            found.parent.mkdir(parents=True, exist_ok=True)
            return found

        at(pod.JOB_FILE).write_text(json.dumps(self.plain))
        put_trust(at(f"{pod.TRUST_FOLDER}/{pod.CA_KEY}").parent, shown)
        at(f"{pod.TOKEN_FOLDER}/token").write_text(self.kubectl("create", "token", ACCOUNT))
        authority = self._server.certificate_authority.read_bytes()
        at(f"{pod.TOKEN_FOLDER}/ca.crt").write_bytes(authority)
        at(pod.TERMINATION_FILE).write_text("")
        shared = self._root / "claim"
        if not shared.exists():
            shared.mkdir()
        at(pod.CHECKPOINT_FOLDER).symlink_to(shared)
