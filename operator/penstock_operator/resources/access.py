"""Who may do what: the keeper's account and Role, and the NetworkPolicy around the workers."""

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names
from penstock_operator.api.plain import Object
from penstock_operator.resources.target import Owner, Target, framed

DNS_PORTS = (53, 5353)  # a Service's port, and the one that OpenShift's servers listen on
# Any pod: clusters label their name servers in different ways.
NAMES: Object = {"namespaceSelector": {}}
LINK_LOCAL = "169.254.0.0/16"  # where clouds hand out a node's credentials, and nodes answer names
LINK_LOCAL_6 = "fe80::/10"
LOCAL_NAMES: Object = {"ipBlock": {"cidr": LINK_LOCAL}}
# A policy cannot name the API server: its Service's port, and the one that it listens on itself.
API_PORTS = (443, 6443)
ANYWHERE: Object = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [LINK_LOCAL]}}
ANYWHERE_6: Object = {"ipBlock": {"cidr": "::/0", "except": [LINK_LOCAL_6]}}
RBAC = "rbac.authorization.k8s.io"


def account(owner: Owner) -> Object:
    """Build the ServiceAccount of the keepers; no pod gets its token unasked."""
    frame = framed("v1", "ServiceAccount", owner, names.keeper_account(owner.name))
    return {**frame, "automountServiceAccountToken": False}


def role(owner: Owner) -> Object:
    """Build the Role of the keepers: named objects only, and none of them is made by a keeper."""
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


def network_policy(owner: Owner) -> Object:
    """Build the policy of the workers, in both directions; what it does not name is closed.

    In: peers of this job, scrapers and probes, and senders of pushed input. Out: peers, names, and
    the API server. Checkpoints are on a volume, which the node reaches. A source or sink that
    connects to anything else needs a policy of the user's: policies add up.
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
            ],
        },
    }


def _rule(group: str, resource: str, resource_names: list[str], verbs: str) -> Object:
    return {
        "apiGroups": [group],
        "resources": [resource],
        "resourceNames": list(resource_names),
        "verbs": list(verbs.split()),
    }


def _udp(port: int) -> Object:
    return {"protocol": "UDP", "port": port}


def _tcp(port: int) -> Object:
    return {"protocol": "TCP", "port": port}
