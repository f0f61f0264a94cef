"""Kubernetes Jobs that remove files from the claim of the checkpoints, or check some there."""

from penstock.contract import pod
from penstock_operator.api import names
from penstock_operator.api.folders import Folder
from penstock_operator.api.plain import Object, object_at
from penstock_operator.resources.pods import KEEPER_RESOURCES, USER, container, merged, pull_secrets
from penstock_operator.resources.target import Target, framed

# A path that does not exist counts as removed: an earlier try of the pod may have removed it.
REMOVE = "import os, shutil, sys; path = sys.argv[1]; os.path.lexists(path) and shutil.rmtree(path)"
TRIES = 3  # of a pod, for example after an eviction
KEPT_S = 600
REMOVAL_LIFE_S = 24 * 3600  # a pod that cannot start would hold the claim for ever
# Of the user's pod template: whose files they are, and where pods may run.
OF_USERS = ("securityContext", "tolerations", "nodeSelector", "imagePullSecrets", "priorityClassName")


def purge_job(target: Target) -> Object:
    """Build the Job that removes all checkpoints of the job. It leaves the savepoints."""
    owner = target.owner
    return _removal(target, names.purge_name(owner.name, owner.uid), owner.uid)


def disposal_job(target: Target, savepoint: str, snapshot_uid: str) -> Object:
    """Build the Job that removes the savepoint of a deleted StreamSnapshot."""
    name = names.purge_name(target.owner.name, snapshot_uid)
    return _removal(target, name, f"savepoints/{savepoint}")


def _removal(target: Target, name: str, folder: str) -> Object:
    """Build a Job that removes ``folder``, which is relative to the job's own folder.

    It mounts only the job's own folder, so it can remove nothing else. It has no owner, because it
    outlives the StreamJob.
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
        **confined(target, removing),
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": claim}],
    }
    template: Object = {
        "metadata": {"labels": dict(names.labels(owner.name, owner.uid, names.PURGE))},
        "spec": pod_spec,
    }
    spec: Object = {
        "backoffLimit": TRIES,
        "activeDeadlineSeconds": REMOVAL_LIFE_S,
        "ttlSecondsAfterFinished": KEPT_S,
        "template": template,
    }
    return {**frame, "spec": spec}


def look_job(target: Target, folder: Folder, snapshot_uid: str, deadline_s: float) -> Object:
    """Build the Job that checks the files of an imported StreamSnapshot.

    It mounts the namespace's part of the claim read-only, and has no token. The termination message
    of its pod says what is wrong: see ``penstock.keeper.savepoint_check``.
    """
    owner = target.owner
    name = names.look_name(owner.name, snapshot_uid)
    command = ("python", "-m", "penstock.keeper.savepoint_check", folder.root, folder.path)
    looking: Object = {
        **container(target, names.LOOK, command),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {
                "name": "checkpoints",
                "mountPath": f"{pod.CHECKPOINT_FOLDER}/{folder.namespace}",
                "subPath": folder.namespace,
                "readOnly": True,
            }
        ],
    }
    told: Object = {"operator": "In", "values": [pod.LOOK_REFUSED]}
    spec: Object = {
        "backoffLimit": TRIES,
        "activeDeadlineSeconds": max(1, int(deadline_s)),
        "ttlSecondsAfterFinished": KEPT_S,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": told}]},
        "template": {
            "metadata": {"labels": dict(names.labels(owner.name, owner.uid, names.LOOK))},
            "spec": {
                **confined(target, looking),
                "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": target.claim}}],
            },
        },
    }
    return {**framed("batch/v1", "Job", owner, name, component=names.LOOK), "spec": spec}


def confined(target: Target, only: Object) -> Object:
    """Return the pod spec of one container that runs once, without privileges or a token.

    A user who gives workers another user, or nodes of their own, means these pods, too: they meet the same files.
    """
    template = target.spec.pod_template
    users = object_at(None if template is None else template.spec)
    base: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{**only, "resources": KEEPER_RESOURCES}],
        **pull_secrets(target),
    }
    return object_at(merged(base, {name: users[name] for name in OF_USERS if name in users}))
