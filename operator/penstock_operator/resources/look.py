"""The Job that looks at files which a StreamSnapshot names, before anybody relies on them."""

from penstock.contract import pod
from penstock_operator.api import names
from penstock_operator.api.folders import Folder
from penstock_operator.api.plain import Object
from penstock_operator.resources.pods import container, pull_secrets
from penstock_operator.resources.purge import confined
from penstock_operator.resources.target import Target, framed

TRIES = 3  # of a pod that was evicted, say; what it found out is not asked again
KEPT_S = 600


def look_job(target: Target, folder: Folder, snapshot_uid: str, deadline_s: float) -> Object:
    """Build it: read-only, with the namespace's part of the claim of ``target`` and no token.

    What is wrong is in the last words of its pod; see ``penstock.keeper.savepoint_check``.
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
                **confined(looking),
                "volumes": [
                    {"name": "checkpoints", "persistentVolumeClaim": {"claimName": target.claim}}
                ],
                **pull_secrets(target),
            },
        },
    }
    return {**framed("batch/v1", "Job", owner, name, component=names.LOOK), "spec": spec}
