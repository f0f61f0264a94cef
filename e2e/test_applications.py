"""Published applications whose input Spark writes and pushes in the cluster: exact through a rescale."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from e2e.rig.cluster import Cluster
from e2e.rig.spark_operator import EXAMPLES, adapted, example, run_application, spark_operator
from e2e.rig.streamjob import StreamJob
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import CLAIM, ROOT, Claim, make_shared
from penstock_spark.session import SparkSettings, local_session
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.spark.answers import check_fraud, check_linear_road, write_model

STEP_TIMEOUT_S = 180.0
END_TIMEOUT_S = 480.0
ROWS = 40_000
RATE = 400  # rows per second: the replay goes on while workers come and go
INPUTS = EXAMPLES / "spark" / "inputs.yaml"


@dataclass(frozen=True, slots=True)
class Application(StreamJob):
    """The StreamJob of an application, the SparkApplication that writes its input, and the folder of both."""

    cluster: Cluster

    @property
    def folder(self) -> Path:
        """Give the local path of /data/NAME."""
        return self.cluster.shared_here / self.kubectl.namespace / "data" / self.name

    def prepare(self) -> None:
        """Make the folders and the claim."""
        for each in (self.folder.parents[1], self.folder.parent, self.folder):
            make_shared(each)
        Claim(self.kubectl, CLAIM, f"{self.cluster.shared_on_nodes}/{self.kubectl.namespace}").make()

    def write_input(self, *options: str) -> None:
        """Run the SparkApplication of the examples, with more options."""
        (found,) = [i for i in inputs() if i["metadata"]["labels"]["app"] == self.name]
        found["spec"]["arguments"] += options
        print(run_application(self.kubectl, adapted(found, self.cluster.images.spark))[-400:])

    def start(self, module: str, **parameters: str) -> None:
        """Apply the StreamJob of the examples with its code. Returns when rows have come from the replay."""
        self.kubectl("create", "configmap", self.name, f"--from-file={ROOT / 'examples' / module}.py")
        manifest = example(f"applications/{module}.yaml", self.cluster.images.worker)
        manifest["spec"]["checkpoint"]["interval"] = "2s"
        manifest["spec"]["replay"] |= {"image": self.cluster.images.spark, "rate": RATE}
        manifest["spec"]["job"]["parameters"] |= parameters
        self.kubectl.apply(manifest, manager="kubectl")
        self.until("Ready", STEP_TIMEOUT_S)
        wait_for("rows of the replay", lambda: self.replay().get("rows"), STEP_TIMEOUT_S, self.say)

    def replay(self) -> Any:
        """Give what the status says of the replay."""
        return self.status().get("sparkApplication") or {}


def inputs() -> list[Any]:
    """Give the SparkApplications that write input."""
    found: list[Any] = yaml.safe_load(INPUTS.read_text())["items"]
    return found


@pytest.fixture
def application(operator: Cluster, kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[Application]:
    """Give the application of the parameter, not applied yet, where the Spark operator runs."""
    job = Application(kubectl, request.param, operator)
    job.prepare()
    with spark_operator(operator, kubectl.namespace) as spark:
        spark.install()
        yield job


def rescaled(job: Application) -> None:
    """Scale 2 -> 3 -> 2 while rows come, and let the job finish."""
    begun = time.monotonic()
    for workers in (3, 2):
        job.scale(workers, STEP_TIMEOUT_S)
        job.commits(1, STEP_TIMEOUT_S)
    assert job.replay()["state"] == "RUNNING", "the rescales were over before the replay"
    print(f"2 -> 3 -> 2 workers in {time.monotonic() - begun:.1f} s, of {ROWS} rows {job.replay()['rows']} were there")
    job.until_finished(END_TIMEOUT_S)
    wait_for("the replay's end", lambda: job.replay()["state"] == "COMPLETED", STEP_TIMEOUT_S, job.say)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("application", ["fraud"], indirect=True)
def test_fraud_is_exact(application: Application) -> None:
    job = application
    job.kubectl("apply", "--dry-run=server", "-f", str(INPUTS))  # the others, too: Spark's schema takes them
    job.write_input("--rows", str(ROWS), "--files", "4", "--entities", "300", "--unknown-share", "0.01")
    model = write_model(job.folder / "model.csv")
    job.start("fraud", model="/data/fraud/model.csv")
    rescaled(job)
    with local_session("e2e", SparkSettings(threads=2)) as spark:
        check_fraud(spark, job.folder / "input", job.folder / "alerts", model)
    assert states(job.folder / "input").count("???") == len(states(job.folder / "unknown")) > 100


def states(folder: Path) -> list[str]:
    found: list[str] = pq.read_table(folder, columns=["state"])["state"].to_pylist()
    return found


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("application", ["linear-road"], indirect=True)
def test_linear_road_is_exact(application: Application) -> None:
    job = application
    job.write_input("--rows", str(ROWS), "--segments", "4", "--seconds", "480")
    job.start("linear_road")
    rescaled(job)
    with local_session("e2e", SparkSettings(threads=2)) as spark:
        check_linear_road(spark, job.folder / "input", job.folder / "answers")
