"""The StatefulSet of a job's workers, its Services, and its PodDisruptionBudget."""

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names
from penstock_operator.api.plain import Object
from penstock_operator.resources.pods import pod_template
from penstock_operator.resources.target import Owner, Target, framed


def stateful_set(target: Target, replicas: int, fence: int, line: int) -> Object:
    """Build the StatefulSet. It starts all pods at once, and never replaces one by a roll-out.

    ``line`` is the trust line that the pods start with.
    """
    owner = target.owner
    marks = {
        names.ANNOTATION_DIGEST: target.digest,
        names.ANNOTATION_CONFIG: target.config,
        names.ANNOTATION_FENCE: str(fence),
        names.ANNOTATION_LINE: str(line),
    }
    frame = framed("apps/v1", "StatefulSet", owner, pod.workers_name(owner.name), annotations=marks)
    return {
        **frame,
        "spec": {
            "replicas": replicas,
            "serviceName": pod.service_name(owner.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": dict(names.selector(owner.name))},
            "template": pod_template(target),
        },
    }


def headless_service(owner: Owner) -> Object:
    """Build the Service that gives pods their DNS names, even before they are ready.

    Peers must find each other to become ready.
    """
    frame = framed("v1", "Service", owner, pod.service_name(owner.name))
    ports = [
        _port("control", pod.CONTROL_PORT),
        _port("flight", pod.FLIGHT_PORT),
        _port("ingest", pod.INGEST_PORT),
    ]
    spec: Object = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": dict(names.selector(owner.name)),
        "ports": ports,
    }
    return {**frame, "spec": spec}


def metrics_service(owner: Owner) -> Object:
    """Build the Service that Prometheus scrapes. It is headless, so each worker is a target."""
    frame = framed("v1", "Service", owner, names.metrics_service(owner.name))
    spec: Object = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": dict(names.selector(owner.name)),
        "ports": [_port("http", pod.HTTP_PORT)],
    }
    return {**frame, "spec": spec}


def disruption_budget(owner: Owner) -> Object:
    """Build the PodDisruptionBudget: a drain of nodes evicts one worker at a time."""
    frame = framed("policy/v1", "PodDisruptionBudget", owner, pod.workers_name(owner.name))
    match: Object = {"matchLabels": dict(names.selector(owner.name))}
    return {
        **frame,
        "spec": {
            "maxUnavailable": 1,
            "selector": match,
            # A worker that is not ready never delays a drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _port(name: str, number: int) -> Plain:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
