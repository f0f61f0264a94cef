"""The pod of a worker: what its contract and a restricted namespace require."""

import json

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names
from penstock_operator.api.plain import at, list_at, object_at, text_at
from penstock_operator.reconcile.accept import restore_source, target_of
from penstock_operator.resources.pods import merged_pod, pod_template
from penstock_operator.resources.target import Owner, RestoreSource, Target

OWNER = Owner("wc", "apps", "1234-uid")


def target(**more: Plain) -> Target:
    spec: dict[str, Plain] = {
        "image": "example/penstock@sha256:0",
        "job": {"entrypoint": "jobs:count"},
        "checkpoint": {"volume": {"claimName": "shared"}},
        **more,
    }
    return target_of(OWNER, json.dumps(spec))


def container(found: Plain, name: str) -> Plain:
    return next(c for c in list_at(found, "spec", "containers") if text_at(c, "name") == name)


def mounts(found: Plain, name: str) -> dict[str, Plain]:
    listed = list_at(container(found, name), "volumeMounts")
    return {text_at(m, "mountPath"): m for m in listed}


def volumes(found: Plain) -> dict[str, Plain]:
    return {text_at(v, "name"): v for v in list_at(found, "spec", "volumes")}


def test_only_the_keeper_has_the_token() -> None:
    found = pod_template(target())
    assert at(found, "spec", "automountServiceAccountToken") is False
    assert pod.TOKEN_FOLDER in mounts(found, pod.KEEPER_CONTAINER)
    assert pod.TOKEN_FOLDER not in mounts(found, pod.ENGINE_CONTAINER)


def test_both_containers_find_what_the_contract_says() -> None:
    found = pod_template(target())
    for name in (pod.KEEPER_CONTAINER, pod.ENGINE_CONTAINER):
        paths = mounts(found, name)
        assert {"/etc/penstock/job", pod.TRUST_FOLDER, pod.RUN_FOLDER, "/tmp"} <= paths.keys()
        env = {text_at(e, "name") for e in list_at(container(found, name), "env")}
        assert {pod.ENV_POD_NAME, pod.ENV_POD_UID, pod.ENV_POD_IP, pod.ENV_NAMESPACE} <= env
    assert text_at(mounts(found, "keeper")[f"{pod.CHECKPOINT_FOLDER}/apps/wc"], "subPath") == ("apps/wc")


def test_the_keeper_is_told_how_long_its_pod_may_take_to_end() -> None:
    for asked, grace in ((None, 60), (20, 20), (300, 300)):
        spec: Plain = {} if asked is None else {"terminationGracePeriodSeconds": asked}
        found = pod_template(target(podTemplate={"spec": spec}))
        env = list_at(container(found, pod.KEEPER_CONTAINER), "env")
        told = [text_at(e, "value") for e in env if text_at(e, "name") == pod.ENV_GRACE_S]
        assert (at(found, "spec", "terminationGracePeriodSeconds"), told) == (grace, [str(grace)])


def test_secrets_that_options_and_parameters_name_are_mounted_into_the_engine_only() -> None:
    graph: Plain = {
        "steps": [
            {"name": "in", "source": {"generator": {}}},
            {
                "name": "out",
                "sink": {"postgres": {"uri": "postgresql://db", "table": "t", "password": "secret:db/password"}},
            },
            {"name": "too", "sink": {"s3": {"url": "s3://lake", "accessKey": "secret:db/user", "secretKey": "${key}"}}},
        ]
    }
    job: Plain = {"graph": graph, "parameters": {"key": "secret:lake.eu/secret_key", "other": "env:X", "n": 3}}
    found = pod_template(target(job=job))
    assert object_at(mounts(found, pod.ENGINE_CONTAINER)[pod.SECRETS_FOLDER])["readOnly"] is True
    assert pod.SECRETS_FOLDER not in mounts(found, pod.KEEPER_CONTAINER)
    projected = object_at(volumes(found)["secrets"], "projected")
    items: dict[str, list[Plain]] = {
        "db": [{"key": k, "path": f"db/{k}"} for k in ("password", "user")],
        "lake.eu": [{"key": "secret_key", "path": "lake.eu/secret_key"}],
    }
    due: list[Plain] = [{"secret": {"name": n, "items": i, "optional": True}} for n, i in items.items()]
    assert projected == {"sources": due, "defaultMode": 0o440}
    assert "secrets" not in volumes(pod_template(target()))


def test_a_restricted_namespace_takes_it() -> None:
    found = pod_template(target())
    assert at(found, "spec", "securityContext", "runAsNonRoot") is True
    assert text_at(found, "spec", "securityContext", "seccompProfile", "type") == "RuntimeDefault"
    for each in list_at(found, "spec", "containers"):
        assert at(each, "securityContext", "allowPrivilegeEscalation") is False
        assert at(each, "securityContext", "readOnlyRootFilesystem") is True
        assert at(each, "securityContext", "capabilities", "drop") == ["ALL"]


def test_variables_of_the_user_reach_the_engine_alone() -> None:
    found = pod_template(target(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]))
    engine = list_at(container(found, pod.ENGINE_CONTAINER), "env")
    keeper = list_at(container(found, pod.KEEPER_CONTAINER), "env")
    assert {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}} in engine
    assert "A" not in {text_at(e, "name") for e in keeper}


def test_without_mtls_no_secret_is_mounted() -> None:
    found = pod_template(target(security={"mtls": False}))
    for name in (pod.KEEPER_CONTAINER, pod.ENGINE_CONTAINER):
        assert pod.TRUST_FOLDER not in mounts(found, name)
    assert not {"tls", "control"} & volumes(found).keys()


def test_each_container_mounts_its_own_secret_and_not_the_others() -> None:
    found = pod_template(target())
    secrets: dict[str, set[str]] = {}
    for name in (pod.KEEPER_CONTAINER, pod.ENGINE_CONTAINER):
        used = [volumes(found)[text_at(m, "name")] for m in mounts(found, name).values()]
        secrets[name] = {text_at(v, "secret", "secretName") for v in used if at(v, "secret")}
    assert secrets == {
        pod.KEEPER_CONTAINER: {pod.control_name("wc")},
        pod.ENGINE_CONTAINER: {pod.trust_name("wc")},
    }
    for volume in ("tls", "control"):
        items = list_at(volumes(found)[volume], "secret", "items")
        assert {text_at(i, "key") for i in items} == set(pod.WORKER_FILES), "no sender's key"


def test_containers_share_what_the_protocol_needs_and_nothing_else() -> None:
    source = RestoreSource("shared", "apps/old")
    found = pod_template(replace(target(), restore=source))
    keeper, engine = (mounts(found, n) for n in (pod.KEEPER_CONTAINER, pod.ENGINE_CONTAINER))
    of_keeper = {text_at(m, "name") for m in keeper.values()}
    of_engine = {text_at(m, "name") for m in engine.values()}
    assert of_keeper & of_engine == {"job", "run", "checkpoints"}
    assert of_keeper - of_engine == {"control", "keeper-tmp", "token"}
    assert of_engine - of_keeper == {"tls", "tmp", "scratch"}
    assert pod.RESTORE_FOLDER in keeper
    assert pod.RESTORE_FOLDER not in engine, "the keeper copies: user code need not see others"


def test_every_folder_that_is_made_for_a_pod_is_bounded() -> None:
    found = pod_template(target())
    made = {name: at(v, "emptyDir") for name, v in volumes(found).items()}
    folders = {name: v for name, v in made.items() if v is not None}
    assert folders.keys() == {"run", "tmp", "keeper-tmp", "scratch"}
    assert all(text_at(v, "sizeLimit") for v in folders.values()), folders


def test_a_template_widens_a_bound() -> None:
    wider: Plain = {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}}]}
    found = pod_template(target(podTemplate={"spec": wider}))
    assert volumes(found)["scratch"] == {"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}}


def test_named_nodes_and_packing_become_affinity() -> None:
    found = pod_template(target(placement={"strategy": "ParallelismFirst", "nodes": ["n1"]}))
    assert at(found, "spec", "topologySpreadConstraints") is None
    terms = object_at(found, "spec", "affinity", "nodeAffinity")
    assert '["n1"]' in json.dumps(terms)
    assert object_at(found, "spec", "affinity", "podAffinity")


def test_a_template_is_merged_by_name_never_by_position() -> None:
    template: Plain = {
        "metadata": {"labels": {"team": "a", pod.LABEL_JOB: "stolen"}},
        "spec": {
            "priorityClassName": "high",
            "containers": [
                {"name": "side", "image": "s"},
                {"name": "engine", "env": [{"name": "B", "value": "1"}]},
            ],
        },
    }
    found = pod_template(target(podTemplate=template))
    assert [text_at(c, "name") for c in list_at(found, "spec", "containers")] == [
        "keeper",
        "engine",
        "side",
    ]
    assert text_at(found, "metadata", "labels", "team") == "a"
    assert text_at(found, "metadata", "labels", pod.LABEL_JOB) == "wc"
    assert text_at(found, "spec", "priorityClassName") == "high"
    env = {text_at(e, "name") for e in list_at(container(found, "engine"), "env")}
    assert {"B", pod.ENV_POD_NAME} <= env


def test_a_merge_can_remove() -> None:
    base: dict[str, Plain] = {"metadata": {}, "spec": {"tolerations": [{"key": "a"}], "x": 1}}
    found = merged_pod(base, {"spec": {"tolerations": None}})
    assert found["spec"] == {"x": 1}


def test_a_restore_of_another_job_mounts_its_folder_and_nothing_above() -> None:
    source, path = restore_source(target(), f"{pod.CHECKPOINT_FOLDER}/apps/old/savepoints/s1")
    assert (source, path) == (
        RestoreSource("shared", "apps/old"),
        f"{pod.RESTORE_FOLDER}/savepoints/s1",
    )
    own, path = restore_source(target(), "apps/wc/savepoints/s1")
    assert (own, path) == (None, f"{pod.CHECKPOINT_FOLDER}/apps/wc/savepoints/s1")


def test_the_selector_of_an_autoscaler_finds_the_pods() -> None:
    found = object_at(pod_template(target()), "metadata", "labels")
    wanted = dict(pair.split("=") for pair in names.selector_text("wc").split(","))
    assert wanted.items() <= found.items()


def test_a_claim_that_is_named_twice_is_one_volume() -> None:
    claim: Plain = {"claimName": "shared", "readOnly": True}
    mount: Plain = {"name": "data", "mountPath": "/data"}
    template: Plain = {
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": claim}],
            "containers": [{"name": pod.ENGINE_CONTAINER, "volumeMounts": [mount]}],
        }
    }
    found = pod_template(target(podTemplate=template))
    claims = [v for v in list_at(found, "spec", "volumes") if at(v, "persistentVolumeClaim")]
    assert [text_at(v, "name") for v in claims] == ["checkpoints"]
    assert mounts(found, pod.ENGINE_CONTAINER)["/data"] == {
        "name": "checkpoints",
        "mountPath": "/data",
        "readOnly": True,
    }
    kept = mounts(found, pod.KEEPER_CONTAINER)[f"{pod.CHECKPOINT_FOLDER}/apps/wc"]
    assert at(kept, "readOnly") is None
