"""The API server and the reader accept the examples, also those for one machine."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.kubernetes.crds.judge import Judge
from tests.integration.kubernetes.crds.samples import job, merged
from tests.integration.kubernetes.crds.test_refusals import reader_refusal
from tests.integration.kubernetes.kubectl import Kubectl

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
HERE = sorted(EXAMPLES.glob("*.yaml"))
THERE = [
    *sorted((EXAMPLES / "kubernetes").glob("*.yaml")),
    *sorted((EXAMPLES / "kubernetes").glob("applications/*.yaml")),
]


def by_name(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", THERE, ids=by_name)
def test_the_api_server_accepts_each_example(jobs: Kubectl, path: Path) -> None:
    jobs("apply", "--server-side", "--dry-run=server", "-f", str(path))
    objects: list[Any] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    ours = [o for o in objects if o["apiVersion"].startswith("penstock.dev/")]
    assert [reader_refusal(o) for o in ours] == [None] * len(ours)


@pytest.mark.parametrize("path", HERE, ids=by_name)
def test_a_file_of_one_machine_runs_in_a_cluster_with_an_image_and_a_volume(judge: Judge, path: Path) -> None:
    plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster = {name: job()["spec"][name] for name in ("image", "checkpoint")}
    plain["spec"] = merged(plain["spec"], cluster)
    assert judge.refusal(plain) is None
    assert reader_refusal(plain) is None


def test_there_are_examples_for_a_machine_and_for_a_cluster() -> None:
    assert len(HERE) >= 5
    assert len(THERE) >= 5
