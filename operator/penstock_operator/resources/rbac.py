"""The rights of the keepers: their ServiceAccount, Role and RoleBinding."""

from penstock.contract import pod
from penstock.contract.schema import Plain
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
