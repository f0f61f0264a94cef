"""The Job that removes a deleted job's checkpoints from the claim."""

from penstock.contract import pod
from penstock_operator.api import names
from penstock_operator.api.plain import Object
from penstock_operator.resources.pods import USER
from penstock_operator.resources.target import Target, framed

REMOVE = "import shutil, sys; [shutil.rmtree(path, ignore_errors=False) for path in sys.argv[1:]]"
TRIES = 3
KEPT_S = 600


def purge_job(target: Target, folder: str = "") -> Object:
    """Build the Job; ``folder`` (below the job's own) is its checkpoints' when empty.

    It mounts the job's own folder and nothing above it, so that it can remove nothing else. It has
    no owner: the StreamJob goes before it does.
    """
    owner = target.owner
    own = f"{owner.namespace}/{owner.name}"
    path = f"{pod.CHECKPOINT_FOLDER}/{own}/{folder or owner.uid}"
    name = names.purge_name(owner.name, owner.uid)
    frame = framed("batch/v1", "Job", owner, name, component=names.PURGE, owned=False)
    mount: Object = {
        "name": "checkpoints",
        "mountPath": f"{pod.CHECKPOINT_FOLDER}/{own}",
        "subPath": own,
    }
    container = _container(target, path, mount)
    claim: Object = {"claimName": target.claim}
    pod_spec: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": claim}],
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


def _container(target: Target, path: str, mount: Object) -> Object:
    container: Object = {
        "name": "purge",
        "image": target.spec.image,
        "command": ["python", "-c", REMOVE, path],
        "volumeMounts": [mount],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if target.spec.image_pull_policy is not None:
        container["imagePullPolicy"] = str(target.spec.image_pull_policy)
    return container
