"""What the operator puts into a worker's pod, and what the two containers find there.

::

    pod {job}-worker-N
      container keeper   penstock worker keeper   ports control and http, no user code
                         own: API token, {trust} of {job}-control, /tmp
      container engine   penstock worker engine   ports flight and ingest, user code
                         own: {trust} of {job}-tls, {secrets}, {scratch}, /tmp
      shared             {run} (a socket), the job, the checkpoints' volume

The operator and the containers take names and paths from here. No other file spells them.
"""

from penstock.contract.codec import Message

# --- Objects of a job; the operator makes all of them, a keeper only reads and changes some ----
LABEL_JOB = "penstock.dev/job"
LABEL_JOB_UID = "penstock.dev/job-uid"
LABEL_COMPONENT = "penstock.dev/component"
WORKER = "worker"  # value of LABEL_COMPONENT
ANNOTATION_SWAP = "penstock.dev/swap"  # fresh in every write, so that no write is a no-op
RECORD = "record"  # the key of a ConfigMap that holds the encoded value


def latest_name(job: str) -> str:
    """Name the ConfigMap that is the truth."""
    return f"{job}-ckpt-latest"


def epoch_name(job: str, epoch: int) -> str:
    """Name the ConfigMap that showed one committed epoch; the operator makes none any more."""
    return f"{job}-ckpt-epoch-{epoch}"


def desired_name(job: str) -> str:
    """Name the ConfigMap that says what is wanted; written by the operator alone."""
    return f"{job}-desired"


def status_name(job: str) -> str:
    """Name the ConfigMap in which the leader describes the running job (``JobStatus``)."""
    return f"{job}-status"


def lease_name(job: str) -> str:
    """Name the Lease of ``coordination.k8s.io/v1`` that says who tries to lead."""
    return f"{job}-leader"


def workers_name(job: str) -> str:
    """Name the StatefulSet; its pods are ``{this}-{ordinal}``."""
    return f"{job}-worker"


def service_name(job: str) -> str:
    """Name the headless Service of the StatefulSet; it publishes addresses that are not ready."""
    return f"{job}-workers"


def config_name(job: str) -> str:
    """Name the ConfigMap with the job's object, or the beginning of its name."""
    return f"{job}-config"


def trust_name(job: str) -> str:
    """Name the Secret of the engines and of senders: who has it may shuffle and push rows."""
    return f"{job}-tls"


def control_name(job: str) -> str:
    """Name the Secret of the keepers alone: who has it may call the control plane.

    It has another authority and other keys than :func:`trust_name`. So keepers refuse the calls of
    somebody who has all that an engine has, and do not believe that it is a keeper.
    """
    return f"{job}-control"


def secret_names(job: str) -> tuple[str, str]:
    """Name both Secrets of a job."""
    return trust_name(job), control_name(job)


def certificate_host(job: str, namespace: str) -> str:
    """Name the one DNS SAN of a job's certificate; peers are dialled by address and checked by it.

    The name never resolves. An address tells where a peer is, and this name tells its job.
    """
    return f"{job}.{namespace}.job.penstock.dev"


# --- Containers -------------------------------------------------------------------------------
KEEPER_CONTAINER = "keeper"
ENGINE_CONTAINER = "engine"
KEEPER_COMMAND = ("penstock", "worker", "keeper")
ENGINE_COMMAND = ("penstock", "worker", "engine")
ENV_POD_NAME = "PENSTOCK_POD_NAME"  # fieldRef metadata.name; ends with the ordinal
ENV_POD_UID = "PENSTOCK_POD_UID"  # fieldRef metadata.uid
ENV_POD_IP = "PENSTOCK_POD_IP"  # fieldRef status.podIP; where peers dial
ENV_NAMESPACE = "PENSTOCK_NAMESPACE"  # fieldRef metadata.namespace
ENV_GRACE_S = "PENSTOCK_GRACE_S"  # the pod's terminationGracePeriodSeconds

ENV_ROOT = "PENSTOCK_ROOT"  # where the mounts below are: never set in a pod, where it is /

# --- Ports ------------------------------------------------------------------------------------
CONTROL_PORT = 7077  # gRPC between keepers of this job
FLIGHT_PORT = 7078  # Arrow Flight between engines of this job
HTTP_PORT = 7079  # probes for the kubelet, /metrics for Prometheus
INGEST_PORT = 7080  # Arrow Flight from senders of a pushed source

# --- Probes: GET on HTTP_PORT; 200 or 503 with a reason --------------------------------------
STARTUP_PATH = "/startupz"  # keeper: it serves. startupProbe and livenessProbe of the keeper
LIVE_PATH = "/livez"  # keeper: its loop turns. A slow or blocked engine never fails it
READY_PATH = "/readyz"  # keeper's readinessProbe: the engine runs the newest attempt
ENGINE_LIVE_PATH = "/enginez"  # livenessProbe of the engine's container
METRICS_PATH = "/metrics"

# --- What `python -m penstock.keeper.savepoint_check` says of a folder -----------------------------------
PATH_NOT_FOUND = "PathNotFound"
PATH_OUTSIDE = "PathOutside"
PATH_UNREADABLE = "PathUnreadable"
LOOK_REFUSED = 2  # its exit status with any of them

# --- Paths in a container ---------------------------------------------------------------------
JOB_FILE = "/etc/penstock/job/job.json"  # both: the StreamJob, JSON, with metadata.uid
# both, each another Secret: control_name's in the keeper, trust_name's in the engine. Not mounted
# when security.mtls is false
TRUST_FOLDER = "/etc/penstock/tls"
RUN_FOLDER = "/run/penstock"  # both: an emptyDir (medium Memory)
CHECKPOINT_FOLDER = "/var/lib/penstock/checkpoints"  # both: the ReadWriteMany claim
RESTORE_FOLDER = "/var/lib/penstock/restore"  # keeper, read-only: another job's claim or folder
SCRATCH_FOLDER = "/var/lib/penstock/scratch"  # engine: an emptyDir, or a claim of its own
SECRETS_FOLDER = "/etc/penstock/secrets"  # engine: {Secret}/{key} of each secret:NAME/KEY that the job names
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # keeper only: token, ca.crt
TERMINATION_FILE = "/dev/termination-log"


def below(root: str, path: str) -> str:
    """Return where an absolute path of a container is when its root is ``root``."""
    return f"{root.rstrip('/')}{path}"


# --- Keys of the two Secrets ------------------------------------------------------------------
CA_KEY = "ca.crt"
CERTIFICATE_KEY = "tls.crt"
PRIVATE_KEY = "tls.key"
WORKER_KEY = "worker.key"  # 32 random bytes; signs tokens: of handshakes, or of control calls
WORKER_FILES = (CA_KEY, CERTIFICATE_KEY, PRIVATE_KEY, WORKER_KEY)  # what a container mounts
# With these two the Secret of the engines holds what those need who push input; no container of a
# worker mounts them.
SENDER_CERTIFICATE_KEY = "sender.crt"
SENDER_PRIVATE_KEY = "sender.key"


def checkpoint_path(namespace: str, job: str, uid: str) -> str:
    """Return the folder of a job's checkpoints, in a container."""
    return f"{CHECKPOINT_FOLDER}/{namespace}/{job}/{uid}"


def savepoint_path(namespace: str, job: str) -> str:
    """Return the folder of a job's savepoints, in a container; it outlives the job's uid."""
    return f"{CHECKPOINT_FOLDER}/{namespace}/{job}/savepoints"


class Termination(Message, tag="Termination"):
    """Why a container ended: the one line of JSON in its termination message.

    ``reason`` is one CamelCase word of :data:`TERMINATIONS`, ``message`` says what to do.
    """

    reason: str
    message: str


CONFIG_INVALID = "ConfigInvalid"  # a mounted file or variable is missing or wrong
VOLUME_UNUSABLE = "CheckpointVolumeUnusable"  # the claim is read-only, full or not there
TRUST_INVALID = "CertificateInvalid"
STATE_UNUSABLE = "StateUnusable"  # stored data is missing or altered
JOB_INVALID = "JobInvalid"  # the entry point does not load, or the graph is wrong
CRASHED = "Crashed"  # ours: a bug
TERMINATIONS = (
    CONFIG_INVALID,
    VOLUME_UNUSABLE,
    TRUST_INVALID,
    STATE_UNUSABLE,
    JOB_INVALID,
    CRASHED,
)
