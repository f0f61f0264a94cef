"""The kinds that the operator reads or writes, with their API groups and paths."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its group (empty: core), version and plural."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """Return group and version as objects write them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of one object, of all in a namespace, or of all (namespace empty)."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"{root}/namespaces/{namespace}" if namespace else root
        parts = [f"{space}/{self.plural}", name, subresource]
        return "/".join(part for part in parts if part)


STREAM_JOB = Kind("StreamJob", "penstock.dev", "v1alpha1", "streamjobs")
STREAM_SNAPSHOT = Kind("StreamSnapshot", "penstock.dev", "v1alpha1", "streamsnapshots")
STATEFUL_SET = Kind("StatefulSet", "apps", "v1", "statefulsets")
POD = Kind("Pod", "", "v1", "pods")
SERVICE = Kind("Service", "", "v1", "services")
CONFIG_MAP = Kind("ConfigMap", "", "v1", "configmaps")
SECRET = Kind("Secret", "", "v1", "secrets")
ACCOUNT = Kind("ServiceAccount", "", "v1", "serviceaccounts")
CLAIM = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
NAMESPACE = Kind("Namespace", "", "v1", "namespaces")
EVENT = Kind("Event", "", "v1", "events")
ROLE = Kind("Role", "rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDING = Kind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings")
BUDGET = Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets")
POLICY = Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies")
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases")
JOB = Kind("Job", "batch", "v1", "jobs")
SPARK_KUBEFLOW = Kind("SparkApplication", "sparkoperator.k8s.io", "v1beta2", "sparkapplications")
SPARK_APACHE = Kind("SparkApplication", "spark.apache.org", "v1", "sparkapplications")

# The kinds of a job's children. Each child has the label of the job.
CHILDREN = (
    STATEFUL_SET,
    POD,
    SERVICE,
    CONFIG_MAP,
    ACCOUNT,
    ROLE,
    ROLE_BINDING,
    BUDGET,
    POLICY,
    LEASE,
    JOB,
)
KINDS = {kind.kind: kind for kind in (STREAM_JOB, STREAM_SNAPSHOT, SECRET, CLAIM, EVENT, *CHILDREN)}


def kinds_named(kind: str) -> tuple[Kind, ...]:
    """Return the kinds of this name: two of SparkApplication, one of any other."""
    if kind == SPARK_KUBEFLOW.kind:
        return (SPARK_KUBEFLOW, SPARK_APACHE)
    return (KINDS[kind],)


def kind_of(api_version: str, kind: str) -> Kind:
    """Return the kind of an object. Raises KeyError for one that the operator does not know."""
    if kind == "SparkApplication":
        apache = api_version == SPARK_APACHE.api_version
        return SPARK_APACHE if apache else SPARK_KUBEFLOW
    return KINDS[kind]
