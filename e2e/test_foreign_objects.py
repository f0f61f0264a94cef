"""Foreign objects, and namespaces that are deleted, with the controllers of a real cluster."""

import json
from typing import Any

import pytest

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from penstock.contract import pod

TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
THEIRS = {"app": "theirs"}


def theirs(wordcount: WordCount, api_version: str, kind: str, name: str, **body: Any) -> None:
    """Create a foreign object under a name of the job."""
    metadata = {"name": name, "labels": THEIRS}
    head = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    wordcount.kubectl.apply({**head, **body}, manager="them")


def left(wordcount: WordCount) -> set[str]:
    """Give the uids of the foreign objects. None has an owner with which it would be deleted."""
    listed = json.loads(wordcount.kubectl("get", "service,lease", "-l", "app=theirs", "-o", "json"))
    found = [one["metadata"] for one in listed["items"]]
    assert not [one for one in found if one.get("ownerReferences")]
    return {str(one["uid"]) for one in found}


@pytest.mark.timeout(600)
def test_a_job_beside_objects_of_others_touches_none_and_runs_once_they_are_gone(
    wordcount: WordCount,
) -> None:
    ports: dict[str, Any] = {"selector": THEIRS, "ports": [{"port": 80}]}
    theirs(wordcount, "v1", "Service", pod.service_name(wordcount.name), spec=ports)
    group = "coordination.k8s.io/v1"
    theirs(wordcount, group, "Lease", pod.lease_name(wordcount.name), spec={"holderIdentity": "me"})
    before = left(wordcount)
    wordcount.apply()
    wordcount.until("Stalled", TIMEOUT_S, "NameTaken")
    assert not wordcount.workers()
    wordcount.delete(TIMEOUT_S)
    assert left(wordcount) == before  # no foreign object was deleted with the job
    wordcount.apply()
    wordcount.until("Stalled", TIMEOUT_S, "NameTaken")
    wordcount.kubectl("delete", "service", pod.service_name(wordcount.name))
    wordcount.kubectl("delete", "lease", pod.lease_name(wordcount.name))
    wordcount.until_finished(END_TIMEOUT_S)
    wordcount.check_exact()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["Savepoint", "Purge"])
def test_a_namespace_with_a_running_job_can_be_deleted(wordcount: WordCount, policy: str) -> None:
    """The namespace is gone long before the deadline of the deletion, which is an hour."""
    wordcount.start(rate=40, deletionPolicy=policy, deletionDeadline="1h")
    wordcount.commits(1, TIMEOUT_S)
    kubectl = wordcount.kubectl
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")

    def is_gone() -> bool:
        return not kubectl("get", "namespace", kubectl.namespace, "--ignore-not-found").strip()

    wait_for("the end of the namespace", is_gone, END_TIMEOUT_S, lambda: kubectl("get", "sj,ssnap"))
