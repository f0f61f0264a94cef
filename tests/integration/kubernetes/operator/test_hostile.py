"""Hostile contents of objects by tenants and user code, with a real API server.

The operator refuses them in a condition, keeps running, and handles the other jobs.
"""

import json
from typing import Any

import pytest

from penstock.contract import pod
from tests.integration.kubernetes.kubectl import Kubectl, Refused
from tests.integration.kubernetes.operator.conftest import Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    claim,
    condition,
    stream_job,
    workers,
)

DEEP = 9_900  # the API server takes it, and refuses 10,000


def nested(depth: int) -> Any:
    """Make a pod template that is nested to this depth."""
    text = '{"a":' * depth + "1" + "}" * depth
    return f'{{"spec": {{"deep": {text}}}}}'


def deep_job(depth: int) -> str:
    """Write a StreamJob with a deep template as text, because Python's encoder refuses it."""
    return stream_job(podTemplate="HERE").replace('"HERE"', nested(depth))


def put(kubectl: Kubectl, text: str) -> None:
    """Create an object by the API, without kubectl's own validation."""
    kubectl("create", "--validate=false", "-f", "-", stdin=text)


@pytest.mark.parametrize("depth", [100, DEEP])
def test_a_deep_template_is_refused_and_harms_no_other_job(start: Start, kubectl: Kubectl, depth: int) -> None:
    kubectl("apply", "-f", "-", stdin=claim())
    operator = start()
    put(kubectl, deep_job(depth).replace(f'"{JOB}"', '"deep"'))
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    operator.until(lambda: accepted(kubectl, "deep") == ("False", "SpecInvalid"))


def accepted(kubectl: Kubectl, job: str) -> tuple[str, str]:
    """Read a condition with kubectl: the object is too deep for this process."""
    path = '{.status.conditions[?(@.type=="Accepted")]'
    status = kubectl("get", "streamjob", job, "-o", f"jsonpath={path}.status}} {path}.reason}}")
    return status.partition(" ")[0], status.partition(" ")[2]


RECORDS = {
    "a deep list": "[" * 100_000,
    "deep objects": '{"a":' * 50_000,
    "an infinite epoch": '{"is":"Latest","epoch":1e999}',
    "no number": '{"is":"Latest","epoch":NaN}',
    "a number without a float": '{"is":"Latest","epoch":' + "9" * 400 + "}",
    "half a character": '{"is":"Latest","job_uid":"\\ud800"}',
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_deeply_nested_record_is_ignored_and_stops_nothing(start: Start, kubectl: Kubectl, record: str) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    for name in (pod.latest_name(JOB), pod.status_name(JOB)):
        change = json.dumps({"data": {pod.RECORD: record}})
        kubectl("patch", "configmap", name, "--type=merge", "--patch-file=/dev/stdin", stdin=change)
    operator.until(lambda: condition(kubectl, "Stalled") == ("True", "MetadataMissing"))


@pytest.mark.usefixtures("start")
@pytest.mark.parametrize("path", ["//savepoints/a", "/./savepoints/a", "/../b/savepoints/a", "/a/"])
def test_a_path_that_means_another_folder_is_refused_by_the_definition(kubectl: Kubectl, path: str) -> None:
    restore = {"nonce": "1", "path": f"{kubectl.namespace}{path}"}
    with pytest.raises(Refused, match=r"spec\.restore\.path"):
        kubectl("apply", "-f", "-", stdin=stream_job(restore=restore))
