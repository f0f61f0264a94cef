"""Keys move on a running job, by another scheme or by load: exact through a lost worker, and no pod is restarted."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.losses import lose
from e2e.rig.spark_operator import example
from e2e.rig.streamjob import StreamJob
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import CLAIM, Claim, make_shared
from penstock.contract.balance import Balance
from tests.integration import schemes_job
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.test_rebalance import BUSY, skewed_keys
from tests.integration.test_schemes import make_input, written

STEP_TIMEOUT_S = 180.0
RATE = 100  # rows/s of each file: two minutes of input


@dataclass(frozen=True, slots=True)
class Dealt(StreamJob):
    """The job of ``schemes_job``, and the folder that it shares with this process."""

    image: str
    folder: Path

    def manifest(self, scheme: str) -> Any:
        """Give the StreamJob: that of an application whose code is in a ConfigMap, without its replay."""
        job = example("applications/fraud.yaml", self.image)
        del job["spec"]["replay"]
        job["metadata"]["name"] = self.name
        job["spec"]["podTemplate"]["spec"]["volumes"][1] = {"name": "jobs", "configMap": {"name": self.name}}
        job["spec"]["checkpoint"]["interval"] = "2s"
        parameters = {"input": "/data/in", "output": "/data/out", "rate": str(RATE)}
        job["spec"]["job"] = {"entrypoint": "schemes_job:job", "parameters": parameters}
        job["spec"]["partition"] = [{"step": "work", "use": scheme}]
        return job

    def use(self, scheme: str) -> None:
        """Apply the job with another scheme."""
        self.kubectl.apply(self.manifest(scheme), manager="kubectl", force=True)

    def goes_over_to(self, scheme: str) -> None:
        """Change the scheme as a person does. Returns when the condition says that it holds."""
        self.use(scheme)
        self.until("Partitioned", STEP_TIMEOUT_S, "SchemesHold")
        self.commits(1, STEP_TIMEOUT_S)

    def balance(self, nonce: int, reason: str) -> Balance:
        """Ask for a balance as a person does. Returns what came of it when the condition says that it is done."""
        self.patch(rebalanceNonce=nonce)
        self.until("Balanced", STEP_TIMEOUT_S, reason)
        self.commits(1, STEP_TIMEOUT_S)
        return self.balanced()

    def balanced(self) -> Balance:
        """Give what came of the newest request to balance that is done."""
        done = self.latest().balance
        assert isinstance(done, Balance)
        return done

    def balance_by_command(self) -> str:
        """Ask for a balance as ``penstock rebalance`` does, which waits for what came of it. Gives its output."""
        done = subprocess.run(
            [Path(sys.executable).with_name("penstock"), "rebalance", self.name, "-n", self.kubectl.namespace],
            env={**os.environ, "KUBECONFIG": str(self.kubectl.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self) -> str:
        """Give the message of the condition when the scheme is refused; empty when it is not."""
        found = [c for c in self.conditions() if c["type"] == "Partitioned" and c["reason"] == "SchemeRefused"]
        return str(found[0]["message"]) if found else ""


@pytest.fixture
def dealt(operator: Cluster, kubectl: Kubectl) -> Dealt:
    """Give the job with its code, not applied yet."""
    root = operator.shared_here / kubectl.namespace
    for folder in (root, root / "data", root / "data" / "out"):
        make_shared(folder)
    Claim(kubectl, CLAIM, f"{operator.shared_on_nodes}/{kubectl.namespace}").make()
    kubectl("create", "configmap", "dealt", f"--from-file={schemes_job.__file__}")
    return Dealt(kubectl, "dealt", operator.images.worker, root / "data")


@pytest.mark.timeout(900)
def test_another_scheme_is_applied_twice_with_a_lost_worker_in_between(dealt: Dealt) -> None:
    made = make_input(dealt.folder / "in")
    dealt.use("even")
    dealt.until("Ready", STEP_TIMEOUT_S)
    dealt.commits(1, STEP_TIMEOUT_S)
    before = dealt.lives()
    dealt.goes_over_to("turned")
    assert dealt.lives() == before, "no worker is restarted"
    lose(dealt, next(name for name in before if name != dealt.leader()), force=True)
    dealt.goes_over_to("even")
    dealt.use("evne")
    wait_for("refused", dealt.refusal, STEP_TIMEOUT_S, dealt.say)
    assert "step 'work' has no scheme 'evne'; its schemes: even, turned" in dealt.refusal()
    dealt.goes_over_to("turned")
    dealt.until_finished(STEP_TIMEOUT_S)
    assert written(dealt.folder / "out") == {key: list(enumerate(rows, start=1)) for key, rows in made.items()}


@pytest.mark.timeout(900)
def test_key_groups_move_by_load_with_a_lost_worker_between_two_requests(dealt: Dealt) -> None:
    made = make_input(dealt.folder / "in", skewed_keys())
    dealt.use("even")
    dealt.until("Ready", STEP_TIMEOUT_S)
    dealt.commits(1, STEP_TIMEOUT_S)
    before = dealt.lives()
    first = dealt.balance(1, "KeyGroupsMoved")
    assert dealt.lives() == before, "no worker is restarted"
    (counts,) = first.steps
    assert (first.nonce, counts.step) == (1, "counts")
    assert 0 < counts.moved < BUSY
    assert counts.rows / 2 <= counts.after < counts.before
    lose(dealt, next(name for name in before if name != dealt.leader()), force=True)
    assert dealt.latest().balance == first, "the table of the checkpoint has the owners"
    told = dealt.balance_by_command()
    again = dealt.balanced()
    assert again.nonce == 2
    assert str(again) in told
    assert all(step.after <= step.before < counts.before / counts.rows * step.rows for step in again.steps)
    dealt.until_finished(STEP_TIMEOUT_S)
    assert written(dealt.folder / "out") == {key: list(enumerate(rows, start=1)) for key, rows in made.items()}
