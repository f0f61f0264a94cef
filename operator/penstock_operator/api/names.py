"""Names and labels that only the operator uses. Those that workers use too: ``contract.pod``."""

from penstock.contract import pod

FIELD_MANAGER = "penstock-operator"
FINALIZER = "penstock.dev/operator"
ANNOTATION_APPLIED = "penstock.dev/applied"  # hash of what was applied last
ANNOTATION_TURN = "penstock.dev/turn"  # of the StatefulSet and -desired; see reconcile.workers
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
