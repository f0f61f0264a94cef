"""The SparkApplication of a replay, for either Spark operator. It has a driver and no executors."""

import hashlib
import json
import re

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.settings import OperatorFlavour, Replay
from penstock_operator.api import names
from penstock_operator.api.kinds import SPARK_APACHE, SPARK_KUBEFLOW
from penstock_operator.api.plain import Object, list_at, object_at, text_at
from penstock_operator.resources.target import Target, framed

MAIN = "local:///opt/penstock/replay.py"
SPARK_VERSION = "4.3.0"
SPARK_USER = 185
DATA_FOLDER = "/data"  # datasets: the folder data of the checkpoints' claim
CLAIM_DATA = "data"
# The driver writes only here and to the folders that Spark mounts itself: its image uses /tmp.
WRITTEN = {"driver-tmp": "/tmp"}
WRITTEN_SIZE = "1Gi"
ANNOUNCE = "announce"
# The driver's JVM only starts the Python that sends rows: it should start fast and stay small.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def replay_digest(target: Target) -> str:
    """Return a digest of spec.replay and the job's uid: another digest is another replay."""
    text = json.dumps(object_at(target.plain, "replay"), sort_keys=True) + target.owner.uid
    return hashlib.sha256(text.encode()).hexdigest()


def replay_name(target: Target) -> str:
    """Name the SparkApplication that is wanted."""
    return names.replay_name(target.owner.name, replay_digest(target))


def replay_application(target: Target, wanted: Replay) -> Object:
    """Build the SparkApplication that sends ``wanted.dataset`` to the job."""
    name = replay_name(target)
    apache = wanted.flavour is OperatorFlavour.APACHE
    kind = SPARK_APACHE if apache else SPARK_KUBEFLOW
    frame = framed(kind.api_version, kind.kind, target.owner, name, component=names.REPLAY)
    spec = _apache(target, wanted) if apache else _kubeflow(target, wanted)
    return {**frame, "spec": spec}


def announce_folder(target: Target) -> str:
    """Return the folder where workers announce themselves.

    It is that of the declared ingest source. The operator does not run a job in Python, so there it is the
    parameter ``announce``. Without either it is a folder beside the checkpoints.
    """
    parameters = target.spec.job.parameters
    for step in list_at(target.plain, "job", "graph", "steps"):
        folder = text_at(step, "source", "ingest", ANNOUNCE)
        if folder:
            return re.sub(r"\$\{([^{}]*)\}", lambda m: parameters.get(m[1], ""), folder)
    if target.spec.job.graph is None and parameters.get(ANNOUNCE):
        return parameters[ANNOUNCE]
    owner = target.owner
    return f"{pod.CHECKPOINT_FOLDER}/{owner.namespace}/{owner.name}/{ANNOUNCE}"


def pushed_steps(target: Target) -> set[str]:
    """Name the declared steps that receive pushed input; empty for a job in Python."""
    steps = list_at(target.plain, "job", "graph", "steps")
    return {text_at(step, "name") for step in steps if object_at(step, "source", "ingest")}


def _arguments(target: Target, wanted: Replay) -> list[Plain]:
    owner = target.owner
    found: list[Plain] = ["replay", wanted.dataset, "--announce", announce_folder(target)]
    if target.spec.security.mtls:
        host = pod.certificate_host(owner.name, owner.namespace)
        found += ["--trust", pod.TRUST_FOLDER, "--certificate-host", host]
    else:
        found.append("--anybody")
    limits = {"--rate": wanted.rate, "--rows": wanted.rows}
    return found + [t for name, n in limits.items() if n is not None for t in (name, str(n))]


def _pod(target: Target) -> Object:
    """Build the driver's pod: its labels pass the job's NetworkPolicy, its volumes have the data.

    A second volume has the announced addresses of the workers.
    """
    owner = target.owner
    own = f"{owner.namespace}/{owner.name}"
    mounts: list[Plain] = [
        {"name": "claim", "mountPath": DATA_FOLDER, "subPath": CLAIM_DATA, "readOnly": True},
        {
            "name": "claim",
            "mountPath": f"{pod.CHECKPOINT_FOLDER}/{own}",
            "subPath": own,
            "readOnly": True,
        },
    ]
    claim: Object = {"claimName": target.claim}
    volumes: list[Plain] = [{"name": "claim", "persistentVolumeClaim": claim}]
    for name, path in WRITTEN.items():
        mounts.append({"name": name, "mountPath": path})
        volumes.append({"name": name, "emptyDir": {"sizeLimit": WRITTEN_SIZE}})
    if target.spec.security.mtls:
        mounts.append({"name": "tls", "mountPath": pod.TRUST_FOLDER, "readOnly": True})
        volumes.append({"name": "tls", "secret": _sender_files(owner.name)})
    container: Object = {
        "name": "spark-kubernetes-driver",
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": SPARK_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "metadata": {"labels": dict(names.labels(owner.name, owner.uid, names.REPLAY))},
        "spec": {
            # A driver with `local[2]` starts no executors, so it needs no API token.
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": volumes,
        },
    }


def _sender_files(job: str) -> Object:
    """Mount only a sender's keys of the job's Secret, and none that would make it a worker."""
    renamed = {
        pod.CA_KEY: pod.CA_KEY,
        pod.SENDER_CERTIFICATE_KEY: pod.CERTIFICATE_KEY,
        pod.SENDER_PRIVATE_KEY: pod.PRIVATE_KEY,
    }
    items: list[Plain] = [{"key": key, "path": path} for key, path in renamed.items()]
    return {"secretName": pod.trust_name(job), "items": items}


def _kubeflow(target: Target, wanted: Replay) -> Object:
    excluded = "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"
    driver: Object = {
        "cores": 1,
        "memory": "512m",
        "javaOptions": JVM_OPTIONS,
        "labels": dict(names.labels(target.owner.name, target.owner.uid, names.REPLAY)),
        # One process is enough: the job limits the speed, not the sender.
        "kubernetesMaster": "local[2]",
        "template": _pod(target),
    }
    return {
        "type": "Python",
        "mode": "cluster",
        "image": wanted.image,
        "mainApplicationFile": MAIN,
        "arguments": _arguments(target, wanted),
        "sparkVersion": SPARK_VERSION,
        "sparkConf": {"spark.kubernetes.driver.pod.excludedFeatureSteps": excluded},
        "restartPolicy": {"type": "Never"},
        "driver": driver,
        "executor": {"cores": 1, "memory": "512m"},  # a required field; no executor ever starts
    }


def _apache(target: Target, wanted: Replay) -> Object:
    conf: Object = {
        "spark.kubernetes.container.image": wanted.image,
        "spark.kubernetes.driver.master": "local[2]",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.executor.instances": "0",
    }
    return {
        "pyFiles": MAIN,
        "driverArgs": _arguments(target, wanted),
        "sparkConf": conf,
        "applicationTolerations": {"resourceRetainPolicy": "Always"},
        "runtimeVersions": {"sparkVersion": SPARK_VERSION},
        "driverSpec": {"podTemplateSpec": _pod(target)},
    }
