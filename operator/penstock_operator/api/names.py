"""Names and labels that only the operator uses, and to which StreamJob an object belongs.

Names that workers use, too, are in ``penstock.contract.pod``. An object belongs to the StreamJob of its
controller, by uid, or else to the one of its label.
"""

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.streamjob import KIND
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at

FIELD_MANAGER = "penstock-operator"
FINALIZER = "penstock.dev/operator"
ANNOTATION_APPLIED = "penstock.dev/applied"  # hash of what was applied last
ANNOTATION_FENCE = "penstock.dev/turn"  # its first name, on stored objects; see reconcile.workers
ANNOTATION_DIGEST = "penstock.dev/digest"  # of the spec that the pods run
ANNOTATION_CONFIG = "penstock.dev/config"  # the ConfigMap of that spec
ANNOTATION_LATEST = "penstock.dev/latest-uid"  # on -desired: the -latest that this job began with
ANNOTATION_NOT_AFTER = "penstock.dev/not-after"  # of the certificate; seconds since 1970
ANNOTATION_DUE = "penstock.dev/due"  # of a periodic snapshot: its period; seconds since 1970
LABEL_PERIODIC = "penstock.dev/periodic"  # the uid of the job whose retention a snapshot is under
ANNOTATION_LINE = "penstock.dev/trust-line"  # see reconcile.certificates
LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
STATE = "state"  # values of LABEL_COMPONENT
REPLAY = "replay"
PURGE = "purge"
LOOK = "look"


def selector(job: str) -> dict[str, str]:
    """Return the labels that select the worker pods of a job, and nothing else."""
    return {pod.LABEL_JOB: job, pod.LABEL_COMPONENT: pod.WORKER}


def labels(job: str, uid: str, component: str = pod.WORKER) -> dict[str, str]:
    """Return the labels of an object of the job. No label of the StreamJob is copied."""
    return {
        LABEL_NAME: "penstock",
        LABEL_INSTANCE: job,
        LABEL_MANAGED_BY: FIELD_MANAGER,
        pod.LABEL_JOB: job,
        pod.LABEL_JOB_UID: uid,
        pod.LABEL_COMPONENT: component,
    }


def snapshot_labels(uid: str) -> dict[str, str]:
    """Return the labels of a StreamSnapshot that the operator has made for a job."""
    return {LABEL_MANAGED_BY: FIELD_MANAGER, pod.LABEL_JOB_UID: uid}


def selector_text(job: str) -> str:
    """Write :func:`selector` as the scale subresource needs it."""
    return ",".join(f"{k}={v}" for k, v in sorted(selector(job).items()))


def authority_name(secret: str) -> str:
    """Name the Secret with the keys of the authorities that sign the certificates in ``secret``. No pod mounts it."""
    return f"{secret}-ca"


def trust_secrets(job: str) -> tuple[str, ...]:
    """Name all Secrets of a job."""
    return tuple(n for s in pod.secret_names(job) for n in (s, authority_name(s)))


def keeper_account(job: str) -> str:
    """Name the ServiceAccount, Role and RoleBinding of a job's keepers."""
    return f"{job}-keeper"


def metrics_service(job: str) -> str:
    """Name the Service that Prometheus finds the workers by."""
    return f"{job}-metrics"


def claim_name(job: str) -> str:
    """Name the claim made from ``checkpoint.volume.claimTemplate``; it outlives the job."""
    return f"{job}-checkpoints"


def config_name(job: str, digest: str) -> str:
    """Name the ConfigMap with the spec of this digest."""
    return f"{pod.config_name(job)}-{digest[:10]}"


def archive_name(job: str, uid: str) -> str:
    """Name the ConfigMap that archives the ``-latest`` of an earlier job of the same name."""
    return f"{job}-ckpt-archive-{uid[:13]}"


def purge_name(job: str, uid: str) -> str:
    """Name the Job that removes the files of the StreamJob or StreamSnapshot of this ``uid``."""
    return f"{job}-purge-{uid[:8]}"


def look_name(job: str, uid: str) -> str:
    """Name the Job that checks the files of the StreamSnapshot of this ``uid``."""
    return f"{job}-look-{uid[:8]}"


def replay_name(job: str, digest: str) -> str:
    """Name the SparkApplication of one replay. Each replay has a new name: Spark needs that."""
    return f"{job}-replay-{digest[:8]}"


# --- Owners ----------------------------------------------------------------------------------------

GROUP = "penstock.dev/"


def controller_of(plain: Plain) -> Object:
    """Return the owner reference of an object's controller; empty when it has none."""
    owners = list_at(plain, "metadata", "ownerReferences")
    return next((object_at(o) for o in owners if at(o, "controller") is True), {})


def job_of(plain: Plain) -> str:
    """Return the uid of the StreamJob that an object belongs to; empty when there is none.

    The controller decides. If it is of another kind, the object is not ours, whatever its labels
    say. Two groups of objects are recognised by their label: pods, because their StatefulSet
    controls them; and objects without a controller, which outlive their job or have lost their
    owner reference. A uid is random, so a label never has it by chance.
    """
    controller = controller_of(plain)
    if is_stream_job(controller):
        return text_at(controller, "uid")
    if controller and text_at(plain, "kind") != "Pod":
        return ""
    return text_at(plain, "metadata", "labels", pod.LABEL_JOB_UID)


def is_worker(plain: Plain, job: str, job_uid: str, set_uid: str) -> bool:
    """Say whether a pod is a worker of a job: by its name, its controller, and then its label.

    A pod that the StatefulSet ``set_uid`` controls (empty: there is none) is one, whatever its
    labels say. A pod of an earlier StatefulSet of this name, or an orphaned one, counts by its
    label: it still runs.
    """
    workers = pod.workers_name(job)
    head, _, ordinal = text_at(plain, "metadata", "name").rpartition("-")
    named = ordinal.isascii() and ordinal.isdecimal() and str(int(ordinal)) == ordinal
    if head != workers or not named:
        return False
    controller = controller_of(plain)
    if controller and (text_at(controller, "kind"), text_at(controller, "name")) != (
        "StatefulSet",
        workers,
    ):
        return False
    of_set = bool(set_uid) and text_at(controller, "uid") == set_uid
    return of_set or text_at(plain, "metadata", "labels", pod.LABEL_JOB_UID) == job_uid


def is_stream_job(reference: Plain) -> bool:
    """Say whether a reference names a StreamJob."""
    return text_at(reference, "kind") == KIND and text_at(reference, "apiVersion").startswith(GROUP)


def owner_text(plain: Plain) -> str:
    """Name the controller of an object, for messages; empty when it has none."""
    controller = controller_of(plain)
    return f"{text_at(controller, 'kind')} {text_at(controller, 'name')}".strip()
