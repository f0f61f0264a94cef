"""What the workers of a job may do: their rights at the API server, and their NetworkPolicy."""

from collections.abc import Sequence

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.settings import Egress
from penstock_operator.api import names
from penstock_operator.api.plain import Object
from penstock_operator.resources.target import Owner, Target, framed

RBAC = "rbac.authorization.k8s.io"


def account(owner: Owner) -> Object:
    """Build the ServiceAccount of the keepers. Its token is not mounted by default."""
    frame = framed("v1", "ServiceAccount", owner, names.keeper_account(owner.name))
    return {**frame, "automountServiceAccountToken": False}


def role(owner: Owner) -> Object:
    """Build the Role of the keepers: verbs on named objects, and no right to create one."""
    job = owner.name
    shared = [pod.latest_name(job), pod.status_name(job)]
    rules: list[Plain] = [
        _rule("coordination.k8s.io", "leases", [pod.lease_name(job)], "get update patch"),
        _rule("", "configmaps", shared, "get update patch"),
        _rule("", "configmaps", [pod.desired_name(job)], "get watch"),
    ]
    return {**framed(f"{RBAC}/v1", "Role", owner, names.keeper_account(job)), "rules": rules}


def role_binding(target: Target) -> Object:
    """Give the Role to the account that the pods run under."""
    owner = target.owner
    name = names.keeper_account(owner.name)
    subject: Object = {
        "kind": "ServiceAccount",
        "name": target.spec.service_account_name or name,
        "namespace": owner.namespace,
    }
    reference: Object = {"apiGroup": RBAC, "kind": "Role", "name": name}
    frame = framed(f"{RBAC}/v1", "RoleBinding", owner, name)
    return {**frame, "roleRef": reference, "subjects": [subject]}


def _rule(group: str, resource: str, resource_names: list[str], verbs: str) -> Object:
    return {
        "apiGroups": [group],
        "resources": [resource],
        "resourceNames": list(resource_names),
        "verbs": list(verbs.split()),
    }


# --- The network policy ----------------------------------------------------------------------------

DNS_PORTS = (53, 5353)  # of a DNS Service, and of OpenShift's DNS servers
# Any pod: the labels of DNS servers differ between clusters.
NAMES: Object = {"namespaceSelector": {}}
LINK_LOCAL = "169.254.0.0/16"  # clouds serve a node's credentials here, and nodes serve DNS
LINK_LOCAL_6 = "fe80::/10"
LOCAL_NAMES: Object = {"ipBlock": {"cidr": LINK_LOCAL}}
# A policy cannot name the API server. These are the port of its Service and its own port.
API_PORTS = (443, 6443)
ANYWHERE: Object = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [LINK_LOCAL]}}
ANYWHERE_6: Object = {"ipBlock": {"cidr": "::/0", "except": [LINK_LOCAL_6]}}


def network_policy(owner: Owner, allowed: Sequence[Egress] = ()) -> Object:
    """Build the policy of the workers, in both directions. All that it does not name is refused.

    In: peers of this job, scrapers, probes, and senders of pushed input. Out: peers, DNS, the
    API server, and what the user ``allowed`` for sources and sinks. The node itself mounts the
    volume of the checkpoints.
    """
    own: Object = {"podSelector": {"matchLabels": dict(names.selector(owner.name))}}
    senders: Object = {"podSelector": {"matchLabels": {pod.LABEL_JOB: owner.name}}}
    frame = framed("networking.k8s.io/v1", "NetworkPolicy", owner, pod.workers_name(owner.name))
    return {
        **frame,
        "spec": {
            "podSelector": {"matchLabels": dict(names.selector(owner.name))},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [own], "ports": [_tcp(pod.CONTROL_PORT), _tcp(pod.FLIGHT_PORT)]},
                {"from": [senders], "ports": [_tcp(pod.INGEST_PORT)]},
                {"ports": [_tcp(pod.HTTP_PORT)]},
            ],
            "egress": [
                {"to": [own], "ports": [_tcp(pod.CONTROL_PORT), _tcp(pod.FLIGHT_PORT)]},
                {
                    "to": [NAMES, LOCAL_NAMES],
                    "ports": [each(port) for port in DNS_PORTS for each in (_udp, _tcp)],
                },
                {"to": [ANYWHERE, ANYWHERE_6], "ports": [_tcp(port) for port in API_PORTS]},
                *(_allowed(each) for each in allowed),
            ],
        },
    }


def _allowed(egress: Egress) -> Object:
    return {"to": [{"ipBlock": {"cidr": egress.cidr}}], "ports": [_tcp(egress.port)]}


def _udp(port: int) -> Object:
    return {"protocol": "UDP", "port": port}


def _tcp(port: int) -> Object:
    return {"protocol": "TCP", "port": port}
