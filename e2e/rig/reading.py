"""Reads objects over one connection: tests poll often, and kubectl takes 0.1 s each time."""

from functools import lru_cache
from typing import Any

from penstock.kubernetes.access import kubeconfig_access
from penstock.kubernetes.answers import ApiRefused, ApiUnanswered
from penstock.kubernetes.client import ApiClient
from tests.integration.kubernetes.kubectl import Kubectl, Refused

STREAM_JOBS = "/apis/penstock.dev/v1alpha1/namespaces/{namespace}/streamjobs"
SNAPSHOTS = "/apis/penstock.dev/v1alpha1/namespaces/{namespace}/streamsnapshots"
STATEFUL_SETS = "/apis/apps/v1/namespaces/{namespace}/statefulsets"
CONFIG_MAPS = "/api/v1/namespaces/{namespace}/configmaps"
SECRETS = "/api/v1/namespaces/{namespace}/secrets"
PODS = "/api/v1/namespaces/{namespace}/pods"
CLAIMS = "/api/v1/namespaces/{namespace}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SPARK_APPLICATIONS = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{namespace}/sparkapplications"


def read(kubectl: Kubectl, folder: str, name: str = "", **query: str) -> Any:
    """Give the object ``name`` at a path of the API, or the list at this path.

    ``{namespace}`` is replaced by that of ``kubectl``. Raises Refused, as kubectl would.
    """
    path = folder.format(namespace=kubectl.namespace) + (f"/{name}" if name else "")
    try:
        return _client(str(kubectl.kubeconfig)).get(path, **query)
    except (ApiRefused, ApiUnanswered) as error:
        raise Refused(str(error)) from error


def listed(kubectl: Kubectl, folder: str, **query: str) -> list[Any]:
    """Give all objects at a path of the API."""
    found: list[Any] = read(kubectl, folder, **query)["items"]
    return found


@lru_cache
def _client(kubeconfig: str) -> ApiClient:
    return ApiClient(kubeconfig_access(None, None, {"KUBECONFIG": kubeconfig}))
