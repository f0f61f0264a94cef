"""The pod of a worker: keeper and engine, as ``penstock.contract.pod`` describes it.

A user's pod template is merged into ours: objects by key, lists by the name of their items. A kubelet
waits forever for a second volume with the same claim. A user's template names the claim of the
checkpoints again when that claim also has the user's data. Its mounts then use our volume.
"""

import re

from penstock.contract import pod
from penstock.contract.schema import SECRET_REFERENCE, Plain
from penstock.contract.settings import ClaimTemplate, EnvVar, PlacementStrategy, PodMetadata, PodTemplate
from penstock_operator.api import names
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at, whole_at
from penstock_operator.resources.target import Owner, Target, framed

GRACE_S = 60  # for the last checkpoint and the publication of its output
USER = 65532
UNREACHABLE_S = 15  # until the pod of a lost node is evicted; `replace_lost_pods` is quicker
TOKEN_LIFE_S = 3600
SMALL_MEMORY = "64Mi"
SECRET_MODE = 0o440  # the group of the pod reads it, nobody else
# A job that needs more says so: by spec.state.volume, or by a volume of spec.podTemplate.
TMP_SIZE = "1Gi"
SCRATCH_SIZE = "10Gi"
KEEPER_RESOURCES: Object = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}


def pod_template(target: Target) -> Object:
    """Build the pod template of the StatefulSet, with the user's ``podTemplate`` merged in."""
    owner, spec = target.owner, target.spec
    template: Object = {
        "metadata": {
            "labels": dict(names.labels(owner.name, owner.uid)),
            "annotations": {names.ANNOTATION_DIGEST: target.digest},
        },
        "spec": {
            "serviceAccountName": spec.service_account_name or names.keeper_account(owner.name),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_S,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_keeper(target), _engine(target)],
            "volumes": _volumes(target),
            "tolerations": _tolerations(),
            **_placement(target),
            **pull_secrets(target),
        },
    }
    merged = merged_pod(template, _users(spec.pod_template))
    return {**merged, "spec": one_volume_a_claim(object_at(merged, "spec"))}


def _users(template: PodTemplate | None) -> Object:
    if template is None:
        return {}
    metadata = template.metadata or PodMetadata()
    return {
        "metadata": {"labels": {**metadata.labels}, "annotations": {**metadata.annotations}},
        "spec": template.spec,
    }


def _keeper(target: Target) -> Object:
    return {
        **container(target, pod.KEEPER_CONTAINER, pod.KEEPER_COMMAND),
        "env": _identity(target),
        "resources": KEEPER_RESOURCES,
        "ports": [_port("control", pod.CONTROL_PORT), _port("http", pod.HTTP_PORT)],
        "volumeMounts": [
            *_mounts(target, tmp="keeper-tmp", trust="control"),
            *_keepers_own(target),
        ],
        "startupProbe": _probe(pod.STARTUP_PATH, period=1, failures=120),
        "livenessProbe": _probe(pod.LIVE_PATH, period=10, failures=6),
        "readinessProbe": _probe(pod.READY_PATH, period=1, failures=1),
    }


def _engine(target: Target) -> Object:
    resources: Object = {}
    if target.spec.resources.requests:
        resources["requests"] = dict(target.spec.resources.requests)
    if target.spec.resources.limits:
        resources["limits"] = dict(target.spec.resources.limits)
    return {
        **container(target, pod.ENGINE_CONTAINER, pod.ENGINE_COMMAND),
        "env": [*_identity(target), *(_variable(v) for v in target.spec.env)],
        "resources": resources,
        "ports": [_port("flight", pod.FLIGHT_PORT), _port("ingest", pod.INGEST_PORT)],
        "volumeMounts": [
            *_mounts(target, tmp="tmp", trust="tls"),
            {"name": "scratch", "mountPath": pod.SCRATCH_FOLDER},
            *_secret_mounts(target),
        ],
        # The keeper answers for the engine. A slow engine is not dead, so the limit is a minute.
        "livenessProbe": _probe(pod.ENGINE_LIVE_PATH, period=10, failures=6),
    }


def container(target: Target, name: str, command: tuple[str, ...]) -> Object:
    """Build what all containers with the job's image share, above all their restrictions."""
    made: Object = {
        "name": name,
        "image": target.spec.image,
        "command": list(command),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if target.spec.image_pull_policy is not None:
        made["imagePullPolicy"] = str(target.spec.image_pull_policy)
    return made


def _identity(target: Target) -> list[Plain]:
    fields = {
        pod.ENV_POD_NAME: "metadata.name",
        pod.ENV_POD_UID: "metadata.uid",
        pod.ENV_POD_IP: "status.podIP",
        pod.ENV_NAMESPACE: "metadata.namespace",
    }
    found: list[Plain] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()
    ]
    return [*found, {"name": pod.ENV_GRACE_S, "value": str(_grace_s(target))}]


def _grace_s(target: Target) -> int:
    """Return how long a pod may take to end. The keeper has to be done by then."""
    template = target.spec.pod_template
    return whole_at({} if template is None else template.spec, "terminationGracePeriodSeconds") or GRACE_S


def _variable(variable: EnvVar) -> Object:
    if variable.value_from is None:
        return {"name": variable.name, "value": variable.value or ""}
    source = variable.value_from
    reference = source.secret_key_ref or source.config_map_key_ref
    assert reference is not None, "the reader asks for exactly one"
    kind = "secretKeyRef" if source.secret_key_ref is not None else "configMapKeyRef"
    key: Object = {"name": reference.name, "key": reference.key}
    if reference.optional:
        key["optional"] = True
    return {"name": variable.name, "valueFrom": {kind: key}}


def _port(name: str, number: int) -> Object:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, *, period: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": pod.HTTP_PORT, "scheme": "HTTP"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 3,
    }


def _mounts(target: Target, *, tmp: str, trust: str) -> list[Plain]:
    """Return the mounts of one container. ``tmp`` and ``trust`` name the volumes of its own.

    Both containers share the job, the folder of their socket, and the job's part of the claim. The
    engine writes state there, and the keeper writes the manifests.
    """
    owner = target.owner
    job_folder = f"{owner.namespace}/{owner.name}"
    mounts: list[Plain] = [
        {"name": "job", "mountPath": pod.JOB_FILE.rpartition("/")[0], "readOnly": True},
        {"name": "run", "mountPath": pod.RUN_FOLDER},
        {"name": tmp, "mountPath": "/tmp"},
        {
            "name": "checkpoints",
            "mountPath": f"{pod.CHECKPOINT_FOLDER}/{job_folder}",
            "subPath": job_folder,
        },
    ]
    if target.spec.security.mtls:
        mounts.append({"name": trust, "mountPath": pod.TRUST_FOLDER, "readOnly": True})
    return mounts


def _keepers_own(target: Target) -> list[Plain]:
    """Mount the API token, and the folder of another job to restore from."""
    mounts: list[Plain] = [{"name": "token", "mountPath": pod.TOKEN_FOLDER, "readOnly": True}]
    if target.restore is not None:
        same = target.restore.claim == target.claim
        mounts.append(
            {
                "name": "checkpoints" if same else "restore",
                "mountPath": pod.RESTORE_FOLDER,
                "subPath": target.restore.folder,
                "readOnly": True,
            }
        )
    return mounts


def _volumes(target: Target) -> list[Plain]:
    job = target.owner.name
    volumes: list[Plain] = [
        {"name": "job", "configMap": {"name": target.config}},
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": SMALL_MEMORY}},
        {"name": "keeper-tmp", "emptyDir": {"sizeLimit": SMALL_MEMORY}},
        {"name": "tmp", "emptyDir": {"sizeLimit": TMP_SIZE}},
        {"name": "scratch", **_scratch(target)},
        {"name": "checkpoints", "persistentVolumeClaim": {"claimName": target.claim}},
        {"name": "token", "projected": {"sources": _token_sources()}},
    ]
    if target.spec.security.mtls:
        volumes.append(_trust("tls", pod.trust_name(job)))
        volumes.append(_trust("control", pod.control_name(job)))
    if sources := _secret_sources(target):
        volumes.append({"name": "secrets", "projected": {"sources": sources, "defaultMode": SECRET_MODE}})
    if target.restore is not None and target.restore.claim != target.claim:
        claim: Object = {"claimName": target.restore.claim, "readOnly": True}
        volumes.append({"name": "restore", "persistentVolumeClaim": claim})
    return volumes


def _secret_mounts(target: Target) -> list[Plain]:
    """Mount the Secrets that the job names into the engine, which runs its connectors."""
    if not secret_references(object_at(target.plain, "job")):
        return []
    return [{"name": "secrets", "mountPath": pod.SECRETS_FOLDER, "readOnly": True}]


def _secret_sources(target: Target) -> list[Plain]:
    """Return a source for each Secret. A pod does not wait for one that is missing: the job says which one it is."""
    keys: dict[str, list[Plain]] = {}
    for name, key in secret_references(object_at(target.plain, "job")):
        keys.setdefault(name, []).append({"key": key, "path": f"{name}/{key}"})
    return [{"secret": {"name": name, "items": items, "optional": True}} for name, items in keys.items()]


def secret_references(plain: Plain) -> list[tuple[str, str]]:
    """List the Secrets and keys that texts of a job name as ``secret:NAME/KEY``, options and parameters among them."""
    match plain:
        case str():
            found = re.fullmatch(SECRET_REFERENCE, plain)
            return [] if found is None else [tuple(plain.removeprefix("secret:").split("/", 1))]  # type: ignore[list-item]
        case dict():
            inner = [each for value in plain.values() for each in secret_references(value)]
        case list():
            inner = [each for value in plain for each in secret_references(value)]
        case _:
            return []
    return sorted(set(inner))


def _trust(volume: str, secret: str) -> Object:
    items: list[Plain] = [{"key": name, "path": name} for name in pod.WORKER_FILES]
    return {"name": volume, "secret": {"secretName": secret, "items": items}}


def _scratch(target: Target) -> Object:
    volume = target.spec.state.volume
    if volume is None:
        return {"emptyDir": {"sizeLimit": SCRATCH_SIZE}}
    # Ephemeral: it is deleted with the pod. A claim template of the StatefulSet could never change.
    claim: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(volume.size_bytes)}},
    }
    if volume.storage_class_name is not None:
        claim["storageClassName"] = volume.storage_class_name
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _token_sources() -> list[Plain]:
    root: Object = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    own: Object = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFE_S}},
        {"configMap": root},
        {"downwardAPI": {"items": [own]}},
    ]


def _tolerations() -> list[Plain]:
    return [
        {
            "key": f"node.kubernetes.io/{trouble}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": UNREACHABLE_S,
        }
        for trouble in ("not-ready", "unreachable")
    ]


def _placement(target: Target) -> Object:
    """Spread workers over nodes or pack them onto few, and only onto the named nodes."""
    placement = target.spec.placement
    match: Object = {"matchLabels": dict(names.selector(target.owner.name))}
    found: Object = {}
    affinity: Object = {}
    if placement.strategy is PlacementStrategy.OPERATOR_FIRST:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": match,
            }
        ]
    else:
        term: Object = {"topologyKey": "kubernetes.io/hostname", "labelSelector": match}
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    if placement.nodes:
        hosts: Object = {
            "key": "kubernetes.io/hostname",
            "operator": "In",
            "values": list(placement.nodes),
        }
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}
        }
    return {**found, "affinity": affinity} if affinity else found


def pull_secrets(target: Target) -> Object:
    """Return the part of a pod spec that lets the kubelet pull the job's image."""
    secrets: list[Plain] = [{"name": s.name} for s in target.spec.image_pull_secrets]
    return {"imagePullSecrets": secrets} if secrets else {}


# --- Volumes ---------------------------------------------------------------------------------------


def claim(owner: Owner, template: ClaimTemplate) -> Object:
    """Build the claim for checkpoints. It outlives the job, as the checkpoints do."""
    name = names.claim_name(owner.name)
    frame = framed("v1", "PersistentVolumeClaim", owner, name, component=names.STATE, owned=False)
    spec: Object = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": str(template.size_bytes)}},
    }
    if template.storage_class_name is not None:
        spec["storageClassName"] = template.storage_class_name
    return {**frame, "spec": spec}


def one_volume_a_claim(spec: Object) -> Object:
    """Drop each volume whose claim an earlier volume has, and mount the earlier one instead.

    Mounts of a read-only volume become read-only mounts, so the volume that stays need not be.
    """
    first: dict[str, str] = {}
    renamed: dict[str, str] = {}
    closed: set[str] = set()
    kept: list[Plain] = []
    for volume in list_at(spec, "volumes"):
        name = text_at(volume, "name")
        claim = text_at(volume, "persistentVolumeClaim", "claimName")
        if claim and object_at(volume, "persistentVolumeClaim").get("readOnly"):
            closed.add(name)
        if claim and claim in first:
            renamed[name] = first[claim]
        else:
            first[claim or f"no claim: {name}"] = name
            kept.append(volume)
    if not renamed:
        return spec
    kept = [_opened(volume) if text_at(volume, "name") in closed else volume for volume in kept]
    containers: Object = {
        kind: [_renamed(c, renamed, closed) for c in list_at(spec, kind)]
        for kind in ("initContainers", "containers")
        if kind in spec
    }
    return {**spec, "volumes": kept, **containers}


def _opened(volume: Plain) -> Plain:
    claim = {**object_at(volume, "persistentVolumeClaim"), "readOnly": False}
    return {**object_at(volume), "persistentVolumeClaim": claim}


def _renamed(container: Plain, renamed: dict[str, str], closed: set[str]) -> Plain:
    mounts: list[Plain] = []
    for mount in list_at(container, "volumeMounts"):
        name = text_at(mount, "name")
        found = {**object_at(mount), "name": renamed.get(name, name)}
        mounts.append({**found, "readOnly": True} if name in closed else found)
    return {**object_at(container), "volumeMounts": mounts} if mounts else container


# --- Templates of users ----------------------------------------------------------------------------

# Lists of a pod spec whose items are identified by another key than name.
KEYS = {"volumeMounts": "mountPath", "ports": "containerPort", "topologySpreadConstraints": ""}
# Prefixes of the labels that select the pods: a user's template must not change these labels.
OURS = ("penstock.dev/", "app.kubernetes.io/")


def merged_pod(base: Object, template: Object) -> Object:
    """Merge ``template`` (metadata and spec of a pod) into ``base``.

    Of the template's metadata only labels and annotations count. They cannot change ours.
    """
    metadata = {
        part: {
            **_foreign(object_at(template, "metadata", part)),
            **object_at(base, "metadata", part),
        }
        for part in ("labels", "annotations")
    }
    spec = merged(object_at(base, "spec"), object_at(template, "spec"))
    return {**base, "metadata": {**object_at(base, "metadata"), **metadata}, "spec": spec}


def merged(base: Plain, other: Plain, name: str = "") -> Plain:
    """Merge ``other`` over ``base``: scalars and unnamed lists are replaced, None removes."""
    if isinstance(base, dict) and isinstance(other, dict):
        both = {k: merged(base.get(k), v, k) if k in base else v for k, v in other.items()}
        return {k: v for k, v in {**base, **both}.items() if v is not None}
    if isinstance(base, list) and isinstance(other, list):
        return _lists(base, other, KEYS.get(name, "name"))
    return other


def _lists(base: list[Plain], other: list[Plain], key: str) -> list[Plain]:
    """Merge lists of objects by ``key``, in the order of ``base``. Other lists are replaced."""
    named = all(at(item, key) is not None for item in (*base, *other)) if key else False
    if not named:
        return [*base, *other] if not key else other
    changes = {str(at(item, key)): item for item in other}
    kept = [merged(item, changes.pop(str(at(item, key)), {})) for item in base]
    return [*kept, *changes.values()]


def _foreign(found: Object) -> Object:
    return {k: v for k, v in found.items() if not k.startswith(OURS)}
