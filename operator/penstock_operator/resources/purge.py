"""The Job that removes the files of a deleted job, or of one savepoint, from the claim."""

from penstock.contract import pod
from penstock_operator.api import names
from penstock_operator.api.plain import Object
from penstock_operator.resources.pods import USER, container, pull_secrets
from penstock_operator.resources.target import Target, framed

# What is gone already is removed: a pod that is tried again finds it so.
REMOVE = "import os, shutil, sys; path = sys.argv[1]; os.path.lexists(path) and shutil.rmtree(path)"
TRIES = 3
KEPT_S = 600


def purge_job(target: Target) -> Object:
    """Build the Job that removes all checkpoints of the job; its savepoints are the user's."""
    owner = target.owner
    return _removal(target, names.purge_name(owner.name, owner.uid), owner.uid)


def disposal_job(target: Target, savepoint: str, snapshot_uid: str) -> Object:
    """Build the Job that removes one savepoint, whose StreamSnapshot goes."""
    name = names.purge_name(target.owner.name, snapshot_uid)
    return _removal(target, name, f"savepoints/{savepoint}")


def _removal(target: Target, name: str, folder: str) -> Object:
    """Build a Job that removes ``folder``, which is relative to the job's own.

    It mounts the job's own folder and nothing above it, so that it can remove nothing else. It has
    no owner: the StreamJob goes before it does.
    """
    owner = target.owner
    own = f"{owner.namespace}/{owner.name}"
    path = f"{pod.CHECKPOINT_FOLDER}/{own}/{folder}"
    frame = framed("batch/v1", "Job", owner, name, component=names.PURGE, owned=False)
    mount: Object = {
        "name": "checkpoints",
        "mountPath": f"{pod.CHECKPOINT_FOLDER}/{own}",
        "subPath": own,
    }
    command = ("python", "-c", REMOVE, path)
    removing: Object = {**container(target, "purge", command), "volumeMounts": [mount]}
    claim: Object = {"claimName": target.claim}
    pod_spec: Object = {
        **confined(removing),
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": claim}],
        **pull_secrets(target),
    }
    template: Object = {
        "metadata": {"labels": dict(names.labels(owner.name, owner.uid, names.PURGE))},
        "spec": pod_spec,
    }
    spec: Object = {
        "backoffLimit": TRIES,
        "ttlSecondsAfterFinished": KEPT_S,
        "template": template,
    }
    return {**frame, "spec": spec}


def confined(only: Object) -> Object:
    """Begin the spec of a pod that runs one container once, as nobody, without a token."""
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [only],
    }
