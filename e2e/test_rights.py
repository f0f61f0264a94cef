"""Rights: accounts have those listed, other pods are refused, and the namespace enforces it."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.rig import stranger, user_code
from e2e.rig.reading import PODS, SECRETS, read
from e2e.rig.release import SYSTEM
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from penstock.contract import pod
from penstock_operator.api.names import selector
from penstock_operator.api.rights import RIGHTS
from tests.integration.kubernetes.kubectl import Kubectl, Refused
from tests.integration.kubernetes.pods import rights as keepers_rights

STEP_TIMEOUT_S = 120.0
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
DOORS = (pod.CONTROL_PORT, pod.FLIGHT_PORT)

Right = tuple[str, str, str, str]  # API group, resource, name ("" is any), verb


def rights_of(kubectl: Kubectl, account: str) -> set[Right]:
    """Ask the server for all rights of an account, without those that every account has."""
    return _asked(kubectl, account) - _asked(kubectl, f"{SYSTEM}:nobody-of-this-name")


def _asked(kubectl: Kubectl, account: str) -> set[Right]:
    user = kubectl.impersonating(f"system:serviceaccount:{account}")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": kubectl.namespace},
    }
    # The account may not read the schemas that kubectl would validate this with.
    ask = ("create", "--validate=false", "-f-", "-o", "json")
    found = json.loads(user(*ask, stdin=json.dumps(review)))
    return spread(found["status"]["resourceRules"])


def spread(rules: list[Any]) -> set[Right]:
    return {
        (group, resource, name, verb)
        for rule in rules
        for group in rule.get("apiGroups") or [""]
        for resource in rule.get("resources") or []
        for name in rule.get("resourceNames") or [""]
        for verb in rule["verbs"]
    }


def test_accounts_may_do_what_is_listed_and_nothing_else(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    here = wordcount.kubectl
    keeper = rights_of(here, f"{here.namespace}:wordcount-keeper")
    assert keeper == spread(keepers_rights("wordcount"))
    assert rights_of(here, f"{here.namespace}:default") == set()
    operator = rights_of(here, f"{SYSTEM}:penstock")
    listed = {(r.group, r.resource, "", verb) for r in RIGHTS if not r.own for verb in r.verbs}
    assert operator == listed
    assert not {r for r in operator if "*" in r or r[1:] == ("secrets", "", "list")}
    for account, found in (("keeper", keeper), ("operator", operator)):
        print(f"{account}: {len(found)} rights, none of them with a wildcard")

    worker = next(iter(wordcount.workers()))
    folder = pod.TOKEN_FOLDER
    there = here.attempt("exec", worker, "-c", pod.KEEPER_CONTAINER, "--", "ls", folder)
    assert "token" in there.stdout
    absent = here.attempt("exec", worker, "-c", pod.ENGINE_CONTAINER, "--", "ls", folder)
    assert absent.returncode, "there is no token beside user code"


def test_an_engine_reads_no_key_of_a_keeper(wordcount: WordCount) -> None:
    """User code with everything in its container is still refused by control calls."""
    wordcount.start(rate=40)
    here, engine = wordcount.kubectl, ("-c", pod.ENGINE_CONTAINER, "--")
    keys = json.loads(here("get", "secret", pod.control_name("wordcount"), "-o", "json"))["data"]
    worker = next(iter(wordcount.workers()))
    host = pod.certificate_host("wordcount", here.namespace)
    source = Path(user_code.__file__).read_text()
    asked = json.dumps({"host": host, "port": pod.CONTROL_PORT, "uid": wordcount.job()["metadata"]["uid"]})
    found = json.loads(here("exec", worker, *engine, "python3", "-c", source, asked))
    print(f"{len(found['files'])} files are read; {len(found['calls'])} calls with what they hold")
    assert set(found["calls"].values()) == {"Unreachable"}, found["calls"]
    assert found["refuses"] == list(user_code.NOT_WRITTEN)
    assert not [line for line in found["processes"] if "worker keeper" in line]
    told = {pod.CERTIFICATE_KEY, pod.PRIVATE_KEY, pod.WORKER_KEY}
    digests = {hashlib.sha256(base64.b64decode(keys[k])).hexdigest() for k in told}
    assert found["files"], "it reads its own"
    assert not digests & set(found["files"].values()), "it reads a file of the keeper's"


@pytest.mark.timeout(600)
def test_a_foreign_pod_joins_nothing(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    other = wordcount.another("other")
    other.apply(suspend=True)
    secret = pod.trust_name(other.name)
    here = wordcount.kubectl
    wait_for("its certificates", lambda: read(here, SECRETS, secret), STEP_TIMEOUT_S, other.say)
    address = next(iter(wordcount.workers().values()))["status"]["podIP"]
    with pytest.raises(Refused, match="violates PodSecurity"):
        here.apply(stranger_pod(wordcount, address, secured=False))
    here.apply(stranger_pod(wordcount, address, secured=True))
    wait_for("its end", lambda: phase(here) in {"Succeeded", "Failed"}, STEP_TIMEOUT_S)
    # What a container writes to its standard error is in its log, too.
    said = here("logs", "stranger").splitlines()
    found = json.loads(next(line for line in said if line.startswith("{")))
    print(json.dumps(found, indent=1))
    for port in map(str, DOORS):
        refused = {way: end for way, end in found[port].items() if way != "its own"}
        assert set(refused.values()) == {"FlightUnavailableError"}, refused
    # An engine's certificate is refused by keepers. An engine accepts it, and a call without a
    # worker's token is refused.
    assert found[str(pod.CONTROL_PORT)]["its own"] == "FlightUnavailableError"
    assert found[str(pod.FLIGHT_PORT)]["its own"] == "FlightUnauthenticatedError"
    wordcount.commits(2, STEP_TIMEOUT_S)
    assert wordcount.is_so("Ready")


REACH = """
import json, socket, sys
def reached(place):
    host, port = place.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
    except TimeoutError:
        return "dropped"
    except OSError as error:
        return "refused" if isinstance(error, ConnectionRefusedError) else type(error).__name__
    return "open"
print(json.dumps([reached(place) for place in sys.argv[1:]]))
"""


@pytest.mark.timeout(600)
def test_the_network_keeps_to_the_policy_in_both_directions(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    here = wordcount.kubectl
    pods = wordcount.workers()
    first, second = (pods[name]["status"]["podIP"] for name in sorted(pods)[:2])
    listener = ["python3", "-m", "http.server", "8080"]
    here.apply(plain_pod(wordcount, "outside", listener))
    wait_for("a pod outside", lambda: address_of(here, "outside"), STEP_TIMEOUT_S)
    outside = address_of(here, "outside")

    def from_pod(name: str, *places: str) -> list[str]:
        container = ["-c", pod.ENGINE_CONTAINER] if name in pods else []
        said: list[str] = json.loads(here("exec", name, *container, "--", "python3", "-c", REACH, *places))
        return said

    # In: packets of another pod are dropped at every port but that of metrics and probes.
    doors = [pod.CONTROL_PORT, pod.FLIGHT_PORT, pod.INGEST_PORT, pod.HTTP_PORT]
    wait_for(
        "the policy in the network",
        lambda: from_pod("outside", *(f"{first}:{p}" for p in doors)) == [*["dropped"] * 3, "open"],
        STEP_TIMEOUT_S,
    )
    # Out: workers reach each other, DNS and the API server, and not the other pod.
    place = here.in_namespace("default").get("endpoints", "kubernetes")["subsets"][0]
    api = f"{place['addresses'][0]['ip']}:{place['ports'][0]['port']}"
    dns = here.in_namespace("kube-system").get("service", "kube-dns")["spec"]["clusterIP"]
    worker = sorted(pods)[0]
    places = [f"{second}:{pod.FLIGHT_PORT}", f"{dns}:53", api, f"{outside}:8080"]
    assert from_pod(worker, *places) == ["open", "open", "open", "dropped"]
    wordcount.commits(2, STEP_TIMEOUT_S)


def address_of(kubectl: Kubectl, name: str) -> str:
    return str(read(kubectl, PODS, name).get("status", {}).get("podIP", ""))


def plain_pod(job: WordCount, name: str, command: list[str]) -> Any:
    container = {
        "name": name,
        "image": job.cluster.images.worker,
        "imagePullPolicy": "Never",
        "command": command,
        "securityContext": RESTRICTED,
    }
    spec = {"automountServiceAccountToken": False, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def phase(kubectl: Kubectl) -> str:
    return str(read(kubectl, PODS, "stranger").get("status", {}).get("phase", ""))


def stranger_pod(job: WordCount, address: str, *, secured: bool) -> Any:
    """Give a pod of the same namespace, with both jobs' certificates, that tries to connect."""
    folders = {"own": job.name, "other": "other"}
    for folder, name in folders.items():
        host = {"host": pod.certificate_host(name, job.kubectl.namespace)}
        found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"host-{folder}"}}
        job.kubectl.apply({**found, "data": host})
    source = Path(stranger.__file__).read_text()
    container = {
        "name": "stranger",
        "image": job.cluster.images.worker,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", source, address, *map(str, DOORS)],
        "volumeMounts": [{"name": folder, "mountPath": f"/{folder}"} for folder in folders],
        "securityContext": RESTRICTED if secured else {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # Labelled as a worker: otherwise the network stops it before its certificates are checked.
        "metadata": {"name": "stranger", "labels": dict(selector(job.name))},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "volumes": [trust_volume(folder, name) for folder, name in folders.items()],
            "containers": [container],
        },
    }


def trust_volume(folder: str, job: str) -> Any:
    """Give a volume with a job's certificates, and the host name in them."""
    secret = {"secret": {"name": pod.trust_name(job)}}
    host = {"configMap": {"name": f"host-{folder}"}}
    return {"name": folder, "projected": {"sources": [secret, host]}}
